"""Splits: pieces are read where they come from, and what is not needed is not made.

    getitem(split(x, size of x), 0)        ->    x
    getitem(split(cat([a, b])), 1)         ->    b, or a slice of it
    getitem(unbind(stack([a, b])), 1)      ->    b
    getitem(split(x), 1)                   ->    slice(x)     where no other piece is read
    getitem(unbind(x), 1)                  ->    select(x)    where no other piece is read

The last two pay in themselves (one view is made, not all of them) and let other rules read the
slice. ``chunk`` and ``tensor_split`` come as ``split`` and ``slice``. Equal splits, and pieces that
are taken out twice, are common subexpressions.

Left alone: pieces of symbolic sizes, unless the piece is all of the tensor; splits of slices of
which several pieces are read; and what ``fold_slices.py`` leaves alone.
"""

from __future__ import annotations

import operator

from torch import fx
from typing_extensions import override

from xpu_graph.config import OptLevel, XpuGraphConfig
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.origins import Origins
from xpu_graph.passes.pieces import SPLITS, Cut, Piece
from xpu_graph.stage import Unit


class FoldSplit(RewritePass):
    """Drops splits of which the whole, the parts or one piece is at hand."""

    name = "fold_split"
    targets = frozenset({operator.getitem})

    def __init__(self, config: XpuGraphConfig) -> None:
        super().__init__(config)
        self._origins = Origins(relayout=config.opt_level >= OptLevel.level2)

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        split = node.args[0]
        if not isinstance(split, fx.Node) or split.target not in SPLITS:
            return
        piece = self._origins.pieces.of(node)
        if piece is None:
            return
        if piece.is_whole:
            self._origins.use(node, piece, unit)
        elif self._origins.rewrite(node, piece, unit, join_views=False):
            return
        elif len(split.users) == 1 and _can_be_written(piece):
            self._origins.use(node, piece, unit)


def _can_be_written(piece: Piece) -> bool:
    return not isinstance(piece.start, Cut) and not isinstance(piece.stop, Cut)
