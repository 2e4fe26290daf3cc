"""Concatenations of what was in one piece before, and those that are taken apart again.

    cat([x[:2], x[2:]]), cat(split(x)), stack(unbind(x))    ->    x
    cat([x[1:2], x[2:3], y])                                ->    cat([x[1:3], y])
    stack([x[1], x[2]], d)                                  ->    x[1:3], its first dimension at d
    slice(cat([a, b, c]))                                   ->    cat([slice(a), b])

Where the result must be laid out otherwise, or must have memory of its own, it becomes one copy:
``cat([x])``, or a ``clone`` in place of a ``stack``.

Left alone: pieces that are missing, repeated, in another order, of another tensor or dimension, or
that have gaps between them; slices over several parts of a cat that something else reads, too, for
there would be two copies then (a slice within one part is folded by ``fold_slices.py``).
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.config import OptLevel, XpuGraphConfig
from xpu_graph.fx import aten
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.drafts import Call, Draft
from xpu_graph.passes.origins import Origins, call_of
from xpu_graph.passes.pieces import Cut, Piece, cat_dim, same_position
from xpu_graph.stage import Unit

_GAP = "the pieces do not follow each other"


class EliminateCat(RewritePass):
    """Drops concatenations that put together what was taken apart, or the other way round."""

    name = "eliminate_cat"
    targets = frozenset({aten.cat.default, aten.stack.default, aten.slice.Tensor})

    def __init__(self, config: XpuGraphConfig) -> None:
        super().__init__(config)
        self._relayout = config.opt_level >= OptLevel.level2
        self._origins = Origins(self._relayout)
        self._pieces = self._origins.pieces

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        if node.target == aten.slice.Tensor:
            self._visit_slice(node, unit)
            return
        parts: Any = node.args[0]
        if not isinstance(parts, (list, tuple)) or len(parts) < 2:
            return
        if node.target == aten.stack.default:
            self._visit_stack(node, parts, unit)
        else:
            self._visit_cat(node, parts, unit)

    def _visit_cat(self, node: fx.Node, parts: Sequence[fx.Node], unit: Unit) -> None:
        dim = cat_dim(node)
        joined: list[fx.Node | Piece] = []
        for run in self._runs(parts, dim, unit):
            piece = _across(run[0][1], run[-1][1])
            joined += [part for part, _ in run] if piece is None or len(run) == 1 else [piece]
        if len(joined) == len(parts):
            return
        if len(joined) == 1 and self._origins.use(node, joined[0], unit):
            return
        unit.rewriter.replace_with_calls(
            node, lambda call: call(aten.cat.default, [_made(p, call) for p in joined], dim)
        )

    def _runs(
        self, parts: Sequence[fx.Node], dim: int, unit: Unit
    ) -> list[list[tuple[fx.Node, Piece | None]]]:
        """The parts, those together that are pieces of one tensor without a gap."""
        runs: list[list[tuple[fx.Node, Piece | None]]] = []
        last: Piece | None = None
        for part in parts:
            piece = self._pieces.of(part)
            if piece is not None and (piece.drops_dim or piece.step != 1 or piece.dim != dim):
                piece = None
            if piece is None or last is None or piece.source is not last.source:
                runs.append([])
            elif not same_position(last.stop, piece.start):
                unit.rewriter.refuse(_GAP)
                runs.append([])
            runs[-1].append((part, piece))
            last = piece
        return runs

    def _visit_stack(self, node: fx.Node, parts: Sequence[fx.Node], unit: Unit) -> None:
        first = self._pieces.of(parts[0])
        if first is None or not first.drops_dim or first.bounds is None:
            return
        start = first.bounds[0]
        for number, part in enumerate(parts):
            piece = self._pieces.of(part)
            if piece is None or piece.source is not first.source or piece.dim != first.dim:
                return
            if not piece.drops_dim or piece.start != start + number:
                unit.rewriter.refuse(_GAP)
                return
        whole = Piece(first.source, first.dim, start, start + len(parts))
        dim, rank = cat_dim(node), node.meta["val"].dim()
        order = [other for other in range(rank) if other != first.dim]
        order.insert(dim, first.dim)
        if first.dim == dim:
            if self._origins.use(node, whole, unit):
                return
        elif unit.rewriter.replace_with_calls(
            node,
            lambda call: call(aten.permute.default, _made(whole, call), order),
            relayout=self._relayout,
        ):
            return

        def copied(call: Draft) -> Call:
            view = _made(whole, call)
            if first.dim != dim:
                view = call(aten.permute.default, view, order)
            return call(aten.clone.default, view, memory_format=torch.contiguous_format)

        unit.rewriter.replace_with_calls(node, copied)

    def _visit_slice(self, node: fx.Node, unit: Unit) -> None:
        source = node.args[0]
        if not isinstance(source, fx.Node) or source.target is not aten.cat.default:
            return
        piece = self._pieces.of(node)
        parts: Any = source.args[0]
        if len(source.users) != 1 or piece is None or piece.bounds is None or piece.step != 1:
            return
        (start, stop), offsets = piece.bounds, self._pieces.offsets(source)
        if piece.dim != cat_dim(source) or not start < stop <= offsets[-1]:
            return
        first = bisect.bisect_right(offsets, start) - 1
        last = bisect.bisect_left(offsets, stop) - 1
        if first == last or (len(offsets) > len(parts) and stop - start == offsets[-1]):
            return
        read: list[fx.Node | Piece] = list(parts[first : last + 1])
        sizes = [end - begin for begin, end in itertools.pairwise(offsets)]
        read[0] = Piece(parts[first], piece.dim, start - offsets[first], sizes[first])
        read[-1] = Piece(parts[last], piece.dim, 0, stop - offsets[last])
        unit.rewriter.replace_with_calls(
            node,
            lambda call: call(aten.cat.default, [_made(p, call) for p in read], piece.dim),
            relayout=self._relayout,
        )


def _across(first: Piece | None, last: Piece | None) -> Piece | None:
    """The piece from where one begins to where another of the same tensor ends."""
    if first is None or last is None:
        return None
    piece = Piece(first.source, first.dim, first.start, last.stop)
    if not piece.is_whole and (isinstance(first.start, Cut) or isinstance(last.stop, Cut)):
        return None
    return piece


def _made(form: fx.Node | Piece, call: Draft) -> Any:
    """A node as it is, a piece as the call that takes it out of its source."""
    if isinstance(form, fx.Node):
        return form
    if form.is_whole:
        return form.source
    target, args = call_of(form)
    return call(target, *args)
