"""SliceStackSum: slices of one tensor, added up.

    sum(stack([x[:, 40:48], x[:, 48:56], x[:, 80:88]]), 0)
        ->    SliceStackSum(x, [40, 48, 80], 8, 1)

Found: slices of one width, or parts of a split, of any dtype, stacked in any dimension, which the
sum goes over. Something else may read a slice, too.

Left alone: a sum over another dimension or over more, one that keeps the dimension, and one that
names a dtype; a stack that something else reads; slices of several tensors, or beside other
operands; steps; ends that are known at run time only. So is a chain of additions, which rounds
after each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten
from xpu_graph.passes.arguments import argument
from xpu_graph.passes.patterns.shape import Match, Shape
from xpu_graph.passes.patterns.structure.base import Structure
from xpu_graph.passes.patterns.structure.slices import Slices
from xpu_graph.passes.rewriter import Rewriter


def reference(x: Any, starts: Any, width: Any, dim: Any) -> Any:
    """The sum of slices ``start:start + width`` of a tensor.

    Args:
        x: at least one dimension; of other integers than int64, and booleans, the sum is int64.
        starts: whole numbers, counted from the front.
        width: of each slice; none goes beyond the end of the dimension.
        dim: what is sliced, counted from the front.
    """
    return torch.stack([x.narrow(dim, start, width) for start in starts]).sum(0)


class SliceStackSumShape(Shape):
    """A sum of a stack of slices."""

    def __init__(self) -> None:
        self._slices = Slices()

    @override
    def candidates(self, rewriter: Rewriter) -> Iterable[fx.Node]:
        return rewriter.calls_reading(aten.sum.dim_IntList, [aten.stack.default])

    @override
    def find(self, candidate: fx.Node) -> Iterator[Match]:
        self.nearest = (0, "")
        stack: Any = candidate.args[0]
        found = self._slices.of_one(stack.args[0])
        if isinstance(found, str):
            self.nearest = (2, found)
        elif found is not None:
            width = found.stops[0] - found.starts[0] if found.refusal is None else 0
            inputs = [found.source, found.starts, width, found.dim]
            refusal = _why_not(candidate, stack) or found.refusal
            yield Match(inputs, [candidate], [stack], refusal)


def _why_not(total: fx.Node, stack: fx.Node) -> str | None:
    rank = stack.meta["val"].dim()
    dims = argument(total, "dim")
    if dims is None or [dim % rank for dim in dims] != [argument(stack, "dim") % rank]:
        return "the sum does not go over the stacked dimension alone"
    if argument(total, "keepdim"):
        return "the sum keeps the dimension"
    return None if argument(total, "dtype") is None else "the sum names a dtype"


def examples() -> tuple[Any, ...]:
    return torch.randn(5, 12), [0, 8, 3], 4, 1


SLICE_STACK_SUM = Structure("SliceStackSum", reference, examples, coded=(SliceStackSumShape,))
