"""What a pattern looks for, in general: candidates, and the matches that end at one of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from xpu_graph import effects
from xpu_graph.passes.drafts import Call, Draft
from xpu_graph.passes.rewriter import Rewriter


@dataclass
class Match:
    """What was found.

    Attributes:
        inputs: what stands at each input: nodes, and literals of the graph.
        outputs: the nodes to replace, in the order of the shape's outputs.
        inner: the other calls that were matched, which go.
        refusal: why it does not fit, where the shape itself can tell.
        call: how the replacement is called with what stands at the inputs; None for plainly.
        build: makes what takes the outputs' places, where that is no function of the inputs.
    """

    inputs: list[Any]
    outputs: list[fx.Node]
    inner: list[fx.Node] = field(default_factory=list)
    refusal: str | None = None
    call: Callable[..., Any] | None = None
    build: Callable[[Draft], list[Call | fx.Node]] | None = None


class Shape(ABC):
    """Something to look for. An object serves one graph, so it may keep state of its own.

    A shape that cannot be traced is written as a subclass: it looks at the graph, changes nothing,
    and what it finds is checked and replaced as that of any other shape.

    Attributes:
        is_fused: whether it is one operator of torch that computes a whole structure.
        nearest: the size and the description of what came closest in the last ``find``.
    """

    is_fused: bool = False
    nearest: tuple[int, str] = (0, "")

    @abstractmethod
    def candidates(self, rewriter: Rewriter) -> Iterable[fx.Node]:
        """The nodes that may be the last output of a match, in graph order."""

    @abstractmethod
    def find(self, candidate: fx.Node) -> Iterator[Match]:
        """The matches whose last output is a node, the best one first."""


def why_not_whole(match: Match, rewriter: Rewriter) -> str | None:
    """Why what was found cannot be taken out of its graph; None if it can."""
    if match.refusal is not None:
        return match.refusal
    found = {*match.outputs, *match.inner}
    for node in match.inner:
        if any(user not in found for user in node.users):
            return "something else reads a value inside"
    if any(rewriter.is_written(node) for node in found):
        return "something writes to a value inside"
    if len({rewriter.section(node) for node in found}) > 1:
        return "what was found lies on both sides of an operator with an effect"
    if not all(map(effects.is_deterministic, found)):
        return "a call inside has an effect"
    return None
