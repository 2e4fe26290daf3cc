"""SliceCat: slices of one tensor, joined.

    cat([x[:, 0:16], x[:, 32:40], x[:, 88:96]], 1)
        ->    SliceCat(x, [0, 32, 88], [16, 40, 96], 1)

Found: slices, and parts of a split, of any dtype, in any order; they may overlap. Something else
may read a slice, too. Slices that follow each other are one slice before this is looked for.

Left alone: slices of several tensors, or beside other operands, where the result would be copied
once more; slices along another dimension than they are joined in; steps; and ends that are known at
run time only.
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


def reference(x: Any, starts: Any, stops: Any, dim: Any) -> Any:
    """Slices ``start:stop`` of a tensor, one after the other.

    Args:
        x: at least one dimension, any dtype.
        starts: whole numbers, counted from the front.
        stops: as many, none smaller than its start, none beyond the end of the dimension.
        dim: what is sliced and joined, counted from the front.
    """
    bounds = zip(starts, stops, strict=True)
    return torch.cat([x.narrow(dim, start, stop - start) for start, stop in bounds], dim)


class SliceCatShape(Shape):
    """A cat of slices."""

    def __init__(self) -> None:
        self._slices = Slices()

    @override
    def candidates(self, rewriter: Rewriter) -> Iterable[fx.Node]:
        return rewriter.calls_of((aten.cat.default,), 0)

    @override
    def find(self, candidate: fx.Node) -> Iterator[Match]:
        self.nearest = (0, "")
        parts: Any = candidate.args[0]
        dim = argument(candidate, "dim") % candidate.meta["val"].dim()
        found = self._slices.of_one(parts)
        if isinstance(found, str):
            self.nearest = (2, found)
        elif found is not None:
            refusal = found.refusal
            if found.dim != dim:
                refusal = "what is joined is sliced along another dimension"
            inputs = [found.source, found.starts, found.stops, dim]
            yield Match(inputs, [candidate], refusal=refusal)


def examples() -> tuple[Any, ...]:
    return torch.randn(5, 12), [0, 8, 3], [2, 12, 5], 1


SLICE_CAT = Structure("SliceCat", reference, examples, coded=(SliceCatShape,))
