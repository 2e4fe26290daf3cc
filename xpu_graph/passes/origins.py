"""Origins: where the content of a piece was before it was put together and taken apart again.

slice(cat([a, b]))            ->    a, or a slice of a
select(stack([a, b]))         ->    a
slice(slice(x))               ->    slice(x)
slice(slice_scatter(x, y))    ->    y, or a slice of y, or a slice of x
"""

from __future__ import annotations

import bisect
import operator
from typing import Any

import torch
from torch import fx

from xpu_graph import fx as graph_facts
from xpu_graph.fx import aten
from xpu_graph.passes.pieces import END, SCATTERS, Piece, Pieces, cat_dim
from xpu_graph.stage import Unit

MAX_LINKS = 16
"""How far up a piece is followed; it keeps the passes linear."""

_VIEWS = frozenset({aten.slice.Tensor, operator.getitem})
LED_THROUGH = frozenset({aten.cat.default, aten.stack.default, *_VIEWS, *SCATTERS})
"""What the source of a piece may be for the piece to have an origin."""

_OTHER_DTYPE = "a part has another dtype than the result"
_WRITTEN = "what is taken apart is written to"
_TOO_LONG = "the chain above it is longer than what is looked at"


class Origins:
    """Lets pieces be read where they come from.

    Args:
        relayout: whether the origin may have other strides.
    """

    def __init__(self, relayout: bool) -> None:
        self.pieces = Pieces()
        self._relayout = relayout

    def rewrite(self, node: fx.Node, piece: Piece, unit: Unit, *, join_views: bool = True) -> bool:
        """Read a piece from as far up as possible.

        Args:
            node: the piece.
            piece: what ``Pieces.of`` says about it.
            unit: the graph.
            join_views: whether to do so where all that goes is a view of the same memory, too.

        Returns:
            Whether it was done.
        """
        forms: list[Piece | fx.Node] = []
        views = 0
        current = piece
        for _ in range(MAX_LINKS):
            is_view = views == len(forms) and current.source.target in _VIEWS
            step = self._step(current)
            if step is not None and not is_view and unit.rewriter.is_written(current.source):
                step = _WRITTEN  # it no longer holds what it was put together from
            if isinstance(step, str):
                unit.rewriter.refuse(step)
            if step is None or isinstance(step, str):
                break
            forms.append(step)
            views += is_view
            if isinstance(step, fx.Node) or step.is_whole:
                break
            current = step
        else:
            unit.rewriter.refuse(_TOO_LONG)
            return False
        if len(forms) > views and self.use(node, forms[-1], unit):
            return True
        return bool(join_views and views and self.use(node, forms[views - 1], unit))

    def use(self, node: fx.Node, form: Piece | fx.Node, unit: Unit) -> bool:
        """Replace a node by a piece or by another node; return whether it was done."""
        rewriter = unit.rewriter
        if isinstance(form, Piece) and form.is_whole:
            form = form.source
        if isinstance(form, fx.Node):
            return rewriter.replace(node, form, relayout=self._relayout)
        reason = None if self._relayout else _laid_out(form, node.meta["val"])
        if reason is not None:
            rewriter.refuse(reason)
            return False
        target, args = call_of(form)
        return rewriter.replace_with_call(node, target, args, relayout=self._relayout) is not None

    def _step(self, piece: Piece) -> Piece | fx.Node | str | None:
        """The piece one link further up; the reason why not, or None where there is nothing."""
        source = piece.source
        if source.op != "call_function" or source.target not in LED_THROUGH:
            return None
        if source.target in _VIEWS:
            outer = self.pieces.of(source)
            return None if outer is None else piece.inside(outer)
        if source.target in SCATTERS:
            return self._through_scatter(piece)
        if piece.bounds is None or not isinstance(source.args[0], (list, tuple)):
            return None
        if cat_dim(source) != piece.dim:
            return None
        if source.target == aten.stack.default:
            if not piece.drops_dim:
                return None
            return _of_dtype(source.args[0][piece.bounds[0]], source)
        return self._through_cat(piece)

    def _through_cat(self, piece: Piece) -> Piece | str | None:
        assert piece.bounds is not None
        start, stop = piece.bounds
        offsets = self.pieces.offsets(piece.source)
        number = bisect.bisect_right(offsets, start) - 1
        if start >= stop or number + 1 >= len(offsets):
            return None
        begin, end = offsets[number], offsets[number + 1]
        if start + (stop - start - 1) // piece.step * piece.step >= end:
            return None
        parts: Any = piece.source.args[0]
        part = _of_dtype(parts[number], piece.source)
        if isinstance(part, str):
            return part
        return Piece(
            part, piece.dim, start - begin, min(stop, end) - begin, piece.step, piece.drops_dim
        )

    def _through_scatter(self, piece: Piece) -> Piece | fx.Node | str | None:
        scatter = piece.source
        written = self.pieces.written_by(scatter)
        if written is None or written.dim != piece.dim:
            return None
        values: Any = scatter.args[1]
        if piece.same_range(written):
            return _of_dtype(values, scatter)
        if piece.bounds is None or written.bounds is None:
            return None
        (start, stop), (begin, end) = piece.bounds, written.bounds
        if end <= start or stop <= begin or end <= begin:
            return Piece(
                written.source, piece.dim, start, stop, piece.step, drops_dim=piece.drops_dim
            )
        if written.step == 1 and not written.drops_dim and begin <= start and stop <= end:
            part = _of_dtype(values, scatter)
            if isinstance(part, str):
                return part
            stop -= 0 if stop == END else begin
            return Piece(part, piece.dim, start - begin, stop, piece.step, piece.drops_dim)
        return None


def call_of(piece: Piece) -> tuple[Any, tuple[Any, ...]]:
    """The operator and the arguments that take a piece out of its source."""
    if piece.drops_dim:
        return aten.select.int, (piece.source, piece.dim, piece.start)
    args = (piece.source, piece.dim, piece.start, piece.stop)
    return aten.slice.Tensor, args if piece.step == 1 else (*args, piece.step)


def _laid_out(piece: Piece, before: torch.Tensor) -> str | None:
    """How a piece would be laid out in another way than a tensor of the same shape.

    The rewriter says the same about the call, but that has to be made first.
    """
    value = piece.source.meta["val"]
    strides = [*value.stride()]
    if piece.drops_dim:
        strides.pop(piece.dim)
    else:
        strides[piece.dim] *= piece.step
    if len(strides) == before.dim() and not all(
        map(graph_facts.same_size, before.stride(), strides)
    ):
        return f"stride {before.stride()} would become {tuple(strides)}"
    return None


def _of_dtype(part: Any, whole: fx.Node) -> fx.Node | str:
    """A part, or the reason why its content is not what the whole has."""
    value = part.meta.get("val")
    if getattr(value, "dtype", None) != whole.meta["val"].dtype:
        return _OTHER_DTYPE
    return part  # type: ignore[no-any-return]
