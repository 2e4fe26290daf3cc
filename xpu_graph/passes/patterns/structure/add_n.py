"""AddN: three tensors or more of one kind are added up.

    a + b + c + d    ->    AddN([a, b, c, d])

Found in any nesting, where nothing else reads a sum inside. The order of the operands is kept; an
implementation may round otherwise.

Left alone: sums that are scaled by ``alpha``; operands that broadcast or promote; numbers; two
operands alone, which are one operator already.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten, same_size
from xpu_graph.passes.arguments import argument
from xpu_graph.passes.patterns.shape import Match, Shape
from xpu_graph.passes.patterns.structure.base import Structure
from xpu_graph.passes.rewriter import Rewriter


def reference(tensors: Any) -> Any:
    """The sum of some tensors.

    Args:
        tensors: a list of three or more, of one shape, dtype and device.
    """
    return functools.reduce(operator.add, tensors)


class AddNShape(Shape):
    """A tree of additions, from the last one down to what is no addition or is read elsewhere."""

    @override
    def candidates(self, rewriter: Rewriter) -> Iterable[fx.Node]:
        # the last sum of a tree comes last in the graph, and takes the others in
        return list(reversed(rewriter.calls_of((aten.add.Tensor,), 0)))

    @override
    def find(self, candidate: fx.Node) -> Iterator[Match]:
        if not _is_plain_sum(candidate):
            return
        leaves: list[fx.Node] = []
        inner: list[fx.Node] = []
        pending = [candidate]
        while pending:
            node = pending.pop()
            if node is not candidate and (len(node.users) > 1 or not _is_plain_sum(node)):
                leaves.append(node)
                continue
            if node is not candidate:
                inner.append(node)
            left, right = node.args[:2]
            assert isinstance(left, fx.Node) and isinstance(right, fx.Node)
            pending += [right, left]
        if inner:
            yield Match([leaves], [candidate], inner)


def _is_plain_sum(node: fx.Node) -> bool:
    """Whether a node adds two tensors of its own shape, dtype and device."""
    if node.target is not aten.add.Tensor or argument(node, "alpha") != 1:
        return False
    return all(
        isinstance(one, fx.Node) and _is_alike(one.meta.get("val"), node.meta["val"])
        for one in node.args[:2]
    )


def _is_alike(value: Any, other: torch.Tensor) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and (value.dtype, value.device) == (other.dtype, other.device)
        and value.dim() == other.dim()
        and all(map(same_size, value.shape, other.shape))
    )


def examples() -> tuple[Any, ...]:
    return ([torch.randn(3, 4) for _ in range(4)],)


ADD_N = Structure("AddN", reference, examples, coded=(AddNShape,), benefit=5)
