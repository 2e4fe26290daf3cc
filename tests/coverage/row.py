"""A row of docs/coverage.md: a program, and what is to become of it in each column."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

Wrap = Callable[..., Any]
"""Compiles a function, or gives it back as it is: the side that is eager."""

COLUMNS = ("inference", "training", "inductor", "cached")


def _call(call: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    return call(*inputs)


@dataclass(frozen=True)
class Row:
    """A kind of thing that a program can contain.

    Attributes:
        name: what the document calls it.
        program: a function of the inputs; None where ``make`` is given.
        inputs: functions that give fresh, equal inputs; each is one call.
        make: gives the program to compile, each side its own; is given what compiles on that side.
        inference: the outcome under ``torch.no_grad()``: ``"works"``, ``"error: Class"`` or
            ``"-"`` where the row means nothing there.
        training: the outcome with gradients of inputs and parameters.
        inductor: the outcome with Inductor as the vendor, with gradients if ``training`` works.
        cached: ``"works"`` where a second backend finds every graph in the cache of the first,
            ``"not cached: reason"``, or ``"-"``.
        says: a part of the message of the error.
        dynamic: whether inference and the cache are tried with ``dynamic=True``, too.
        fullgraph: as for ``torch.compile``.
        graphs: how many graphs Dynamo makes of the first inference call.
        leaves: positions of the inputs that need gradients; all floating ones by default.
        drive: calls the compiled program; gives what is compared.
        around: a context for both sides.
        bitwise: whether inference has to agree to the last bit.
    """

    name: str
    program: Callable[..., Any] | None
    inputs: tuple[Callable[[], tuple[Any, ...]], ...]
    make: Callable[[Wrap], Callable[..., Any]] | None = None
    inference: str = "works"
    training: str = "works"
    inductor: str = "-"
    cached: str = "works"
    says: str = ""
    dynamic: bool = False
    fullgraph: bool = True
    graphs: int = 1
    leaves: tuple[int, ...] | None = None
    drive: Callable[[Callable[..., Any], tuple[Any, ...]], Any] = _call
    around: Callable[[Wrap], AbstractContextManager[Any]] = lambda wrap: nullcontext()
    bitwise: bool = True

    def outcome(self, column: str) -> str:
        """The cell in a column."""
        return str(getattr(self, column))
