"""Writes to a part of a tensor that could be spared.

    slice_scatter(x, y) over all of x                   ->    y
    select_scatter(x, y, d, i), d of size 1             ->    unsqueeze(y, d)
    slice_scatter(x, slice(x, range), range)            ->    x
    slice_scatter(slice_scatter(x, y, inner), z, outer) ->    slice_scatter(x, z, outer)

and the same for ``select_scatter`` and mixtures. Where the result must have memory of its own, a
write to all of a tensor becomes a copy of what is written.

Left alone: what is written in another dtype than the tensor has, ranges that overlap in part, or
along different dimensions, and other strides (they need level2).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.config import OptLevel, XpuGraphConfig
from xpu_graph.fx import aten
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.drafts import Draft
from xpu_graph.passes.origins import MAX_LINKS
from xpu_graph.passes.pieces import SCATTERS, Piece, Pieces
from xpu_graph.stage import Unit


class FoldScatters(RewritePass):
    """Drops scatters that write everything, nothing new, or what is written over anyway."""

    name = "fold_scatters"
    targets = SCATTERS

    def __init__(self, config: XpuGraphConfig) -> None:
        super().__init__(config)
        self._relayout = config.opt_level >= OptLevel.level2
        self._pieces = Pieces()

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        written = self._pieces.written_by(node)
        values: Any = node.args[1]
        if written is None or not isinstance(values, fx.Node):
            return
        rewriter = unit.rewriter
        if _writes_all(written):
            self._replace_by_values(node, values, written, unit)
            return
        own = self._pieces.of(values)
        if own is not None and own.source is written.source and own.same_range(written):
            rewriter.replace(node, written.source, relayout=self._relayout)
            return
        base = written.source
        for _ in range(MAX_LINKS):
            earlier = self._pieces.written_by(base)
            if earlier is None or not _covers(written, earlier) or rewriter.is_written(base):
                break
            base = earlier.source
        if base is not written.source:
            rewriter.replace_with_call(
                node, node.target, (base, *node.args[1:]), node.kwargs, relayout=self._relayout
            )

    def _replace_by_values(
        self, node: fx.Node, values: fx.Node, written: Piece, unit: Unit
    ) -> None:
        rewriter = unit.rewriter
        if values.meta["val"].dtype != node.meta["val"].dtype:
            rewriter.refuse("what is written has another dtype")
            return

        def view(call: Draft) -> Any:
            if not written.drops_dim:
                return values
            return call(aten.unsqueeze.default, values, written.dim)

        if written.drops_dim:
            done = rewriter.replace_with_calls(node, view, relayout=self._relayout) is not None
        else:
            done = rewriter.replace(node, values, relayout=self._relayout)
        if not done:
            rewriter.replace_with_calls(
                node,
                lambda call: call(
                    aten.clone.default, view(call), memory_format=torch.contiguous_format
                ),
            )


def _writes_all(written: Piece) -> bool:
    size = written.source.meta["val"].shape[written.dim]
    return written.is_whole or (written.drops_dim and isinstance(size, int) and size == 1)


def _covers(later: Piece, earlier: Piece) -> bool:
    """Whether all that one piece writes, a later one of a tensor of the same shape writes, too."""
    if later.dim != earlier.dim:
        return False
    if later.same_range(earlier):
        return True
    if later.step != 1 or later.bounds is None or earlier.bounds is None:
        return False
    return later.bounds[0] <= earlier.bounds[0] and earlier.bounds[1] <= later.bounds[1]
