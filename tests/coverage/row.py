"""A row of docs/coverage.md: a program, and what is to become of it in each column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

Wrap = Callable[..., Any]
"""Compiles a function, or gives it back as it is: the side that is eager."""

WORKS = "works"
IN_PARTS = "works, in parts"
EAGERLY = "works, not compiled"
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
        inference: the outcome under ``torch.no_grad()``: ``"works"``, ``"works, in parts"`` where
            Dynamo breaks the graph and refuses ``fullgraph=True``, ``"works, not compiled"`` where
            it does so and no part is left to compile, ``"error: Class"``, or ``"-"`` where the row
            means nothing there.
        training: the outcome with gradients of inputs and parameters.
        inductor: the outcome with Inductor as the vendor, with gradients if ``training`` works.
        cached: ``"works"`` where a second backend finds every graph in the cache of the first,
            ``"not cached: reason"``, or ``"-"``.
        says: a part of the message of the error.
        dynamic: whether the row is tried with ``dynamic=True``, too.
        graphs: how many graphs Dynamo makes of the calls.
        leaves: positions of the inputs that need gradients; all floating ones by default.
        drive: calls the compiled program; gives what is compared.
        around: a context for both sides.
        bitwise: whether inference has to agree to the last bit.
        options: Inductor's, where the column needs any.
        keeps_code: whether what Inductor compiles is found in the cache, too.
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
    graphs: int = 1
    leaves: tuple[int, ...] | None = None
    drive: Callable[[Callable[..., Any], tuple[Any, ...]], Any] = _call
    around: Callable[[Wrap], AbstractContextManager[Any]] = lambda wrap: nullcontext()
    bitwise: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    keeps_code: bool = True

    def outcome(self, column: str) -> str:
        """The cell in a column."""
        return str(getattr(self, column))

    @property
    def fullest(self) -> str:
        """The column of the most that works: where dynamic sizes and the cache are tried."""
        return "training" if self.training.startswith(WORKS) else "inference"
