"""Slices and selections of what was just put together.

    slice(slice(x))                          ->    slice(x)
    select(slice(x))                         ->    select(x)
    slice(cat([a, b]))                       ->    a, or a slice of it
    select(cat([a, b]))                      ->    select(a)
    select(stack([a, b], d), d, 0)           ->    a
    slice(slice_scatter(x, y))               ->    y or a slice of it, inside what is written
    slice(slice_scatter(x, y))               ->    slice(x), outside
    select(select_scatter(x, y, d, i), d, i) ->    y
    select(select_scatter(x, y, d, i), d, j) ->    select(x, d, j)

Strides differ where the dimension is not the first: there it needs level2.

Left alone: a slice that reads several parts of a cat, or what was written and what was not; parts
of another dtype than the cat; another dimension than the one the source was put together along;
ranges that are not known for certain to be equal, apart, or one inside the other.
"""

from __future__ import annotations

from torch import fx
from typing_extensions import override

from xpu_graph.config import OptLevel, XpuGraphConfig
from xpu_graph.fx import aten
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.origins import LED_THROUGH, Origins
from xpu_graph.stage import Unit


class FoldSlices(RewritePass):
    """Reads slices and selections where their content comes from."""

    name = "fold_slices"
    targets = frozenset({aten.slice.Tensor, aten.select.int})

    def __init__(self, config: XpuGraphConfig) -> None:
        super().__init__(config)
        self._origins = Origins(relayout=config.opt_level >= OptLevel.level2)

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        source = node.args[0]
        if not isinstance(source, fx.Node) or source.target not in LED_THROUGH:
            return
        piece = self._origins.pieces.of(node)
        if piece is not None:
            self._origins.rewrite(node, piece, unit)
