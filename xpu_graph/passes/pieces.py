"""Pieces: which part of which tensor a node is, along one dimension.

``slice``, ``select`` and what is taken out of a ``split`` or an ``unbind`` are pieces of a tensor;
``slice_scatter`` and ``select_scatter`` write one; ``cat`` puts some one after the other. Where
they begin and end is compared, never asked about: no guard comes from here.
"""

from __future__ import annotations

import itertools
import operator
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from xpu_graph import fx as graph_facts
from xpu_graph.fx import aten
from xpu_graph.passes.arguments import argument

END = sys.maxsize
"""How ``slice`` spells the end of a dimension whose size is not known."""

SPLITS = frozenset({aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int})
_PIECES = frozenset({aten.slice.Tensor, aten.select.int, operator.getitem})
SCATTERS = frozenset({aten.slice_scatter.default, aten.select_scatter.default})


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a piece of a split of symbolic sizes begins: after ``index`` pieces."""

    split: fx.Node
    index: int


Position = int | fx.Node | Cut


@dataclass(frozen=True, slots=True)
class Piece:
    """``source[start:stop:step]`` along ``dim``, or ``source[start]`` where it drops that.

    Where the size is known, ``0 <= start <= stop <= size``. Elsewhere a position is what the
    operator was given (``slice`` takes it for the nearest one that exists), or ``END``, or a cut.

    Attributes:
        source: the tensor.
        dim: a dimension of it, counted from the front.
        start: the first position.
        stop: the position after the last.
        step: the distance between two, above 0.
        drops_dim: whether the result lacks the dimension.
    """

    source: fx.Node
    dim: int
    start: Position
    stop: Position
    step: int = 1
    drops_dim: bool = False

    @property
    def bounds(self) -> tuple[int, int] | None:
        """``start`` and ``stop`` where both are numbers counted from the front."""
        start, stop = self.start, self.stop
        if isinstance(start, int) and isinstance(stop, int) and start >= 0 and stop >= 0:
            return start, stop
        return None

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the source."""
        size = self.source.meta["val"].shape[self.dim]
        return self.start == 0 and self.stop == _end(size) and self.step == 1 and not self.drops_dim

    def same_range(self, other: Piece) -> bool:
        """Whether two pieces of tensors of one shape have the same place in them."""
        return (
            self.dim == other.dim
            and self.step == other.step
            and self.drops_dim == other.drops_dim
            and same_position(self.start, other.start)
            and same_position(self.stop, other.stop)
        )

    def inside(self, outer: Piece) -> Piece | None:
        """The piece that this one is of the source of ``outer``, which this one is a piece of.

        Sizes do not matter: the elements ``outer`` leaves out at its end this one lacks, too.
        """
        if outer.drops_dim or outer.dim != self.dim or self.bounds is None:
            return None
        begin, (start, stop) = outer.start, self.bounds
        if not isinstance(begin, int) or begin < 0:
            return None
        first = begin + start * outer.step
        if self.drops_dim:
            return Piece(outer.source, self.dim, first, first + 1, 1, drops_dim=True)
        limit = outer.stop
        if stop != END:
            if not isinstance(limit, int) or limit < 0:
                return None
            limit = min(limit, begin + stop * outer.step)
        if isinstance(limit, int) and limit >= 0:
            first = min(first, limit)
        return Piece(outer.source, self.dim, first, limit, self.step * outer.step)


class Pieces:
    """Finds pieces. It keeps where splits and cats are cut, so that each is added up once."""

    def __init__(self) -> None:
        self._cuts: dict[fx.Node, list[int] | None] = {}

    def of(self, node: fx.Node) -> Piece | None:
        """The piece that a node is; None if it is none."""
        if node.op != "call_function" or node.target not in _PIECES:
            return None
        if node.target == aten.slice.Tensor:
            return _range(node)
        if node.target == aten.select.int:
            return _index(node)
        split: Any = node.args[0]
        if split.op != "call_function" or split.target not in SPLITS:
            return None
        return self._taken_out(split, node.args[1])

    def written_by(self, node: fx.Node) -> Piece | None:
        """The piece of its first argument that a scattering node replaces; None if it is none."""
        if node.op != "call_function" or node.target not in SCATTERS:
            return None
        return _range(node) if node.target == aten.slice_scatter.default else _index(node)

    def offsets(self, cat: fx.Node) -> list[int]:
        """Where the parts of a cat begin, and where the last one ends.

        The list is shorter where the size of a part is symbolic: the positions up to that one.
        """
        known = self._cuts.get(cat)
        if known is None:
            known = self._cuts[cat] = [0]
            dim = cat_dim(cat)
            parts: Any = cat.args[0]
            for part in parts:
                size = size_in_cat(part, cat, dim)
                if not isinstance(size, int):
                    break
                known.append(known[-1] + size)
        return known

    def _taken_out(self, split: fx.Node, index: Any) -> Piece | None:
        source, count = split.args[0], len(split.meta["val"])
        if not isinstance(source, fx.Node) or not isinstance(index, int):
            return None
        index += count if index < 0 else 0
        if split.target == aten.unbind.int:
            dim = _dim(split, source)
            return Piece(source, dim, index, index + 1, drops_dim=True)
        dim = _dim(split, source)
        end = _end(source.meta["val"].shape[dim])

        def cut(number: int) -> Position:
            if number in (0, count):
                return end if number else 0
            if isinstance(split.args[1], int):
                return min(number * split.args[1], end)
            cuts = self._cuts_of(split)
            return Cut(split, number) if cuts is None else cuts[number]

        return Piece(source, dim, cut(index), cut(index + 1))

    def _cuts_of(self, split: fx.Node) -> list[int] | None:
        """Where a split by sizes is cut; None where the sizes are symbolic."""
        if split not in self._cuts:
            sizes: Any = split.args[1]
            is_known = isinstance(sizes, (list, tuple)) and all(isinstance(s, int) for s in sizes)
            self._cuts[split] = [*itertools.accumulate(sizes, initial=0)] if is_known else None
        return self._cuts[split]


def same_position(left: Position, right: Position) -> bool:
    """Whether two positions in tensors of one shape are the same for certain."""
    if isinstance(left, Cut) or isinstance(right, Cut):
        return left == right
    return graph_facts.same_size(_number(left), _number(right))


def cat_dim(cat: fx.Node) -> int:
    """The dimension that a ``cat`` or a ``stack`` puts its parts along."""
    rank: int = cat.meta["val"].dim()
    return int(argument(cat, "dim")) % rank


def size_in_cat(part: fx.Node, cat: fx.Node, dim: int) -> Any:
    """How much of a cat's dimension a part takes up.

    ``cat`` takes a tensor of shape (0,) beside others of any rank; that one takes up nothing.
    """
    shape = part.meta["val"].shape
    return shape[dim] if len(shape) == cat.meta["val"].dim() else 0


def _range(node: fx.Node) -> Piece | None:
    """The range that ``slice`` or ``slice_scatter`` is given."""
    source = node.args[0]
    if not isinstance(source, fx.Node) or not isinstance(source.meta.get("val"), torch.Tensor):
        return None
    dim = _dim(node, source)
    size = source.meta["val"].shape[dim]
    step = argument(node, "step")
    if not isinstance(step, int):
        return None
    start = _position(argument(node, "start"), size, 0)
    stop = _position(argument(node, "end"), size, _end(size))
    if isinstance(size, int) and isinstance(start, int) and isinstance(stop, int):
        stop = max(start, stop)
        if stop > start:  # the position after the last element, whatever the step leaves out
            stop = start + (stop - start - 1) // step * step + 1
    return Piece(source, dim, start, stop, step)


def _index(node: fx.Node) -> Piece | None:
    """The index that ``select`` or ``select_scatter`` is given."""
    source = node.args[0]
    if not isinstance(source, fx.Node) or not isinstance(source.meta.get("val"), torch.Tensor):
        return None
    dim = _dim(node, source)
    size = source.meta["val"].shape[dim]
    index = argument(node, "index")
    if not isinstance(index, (int, fx.Node)):
        return None
    if isinstance(index, int) and index < 0 and isinstance(size, int):
        index += size
    stop = index + 1 if isinstance(index, int) and index >= 0 else index
    return Piece(source, dim, index, stop, drops_dim=True)


def _position(given: int | fx.Node | None, size: Any, default: int) -> Position:
    if given is None:
        return default
    if isinstance(given, fx.Node):
        return _end(size) if graph_facts.same_size(given.meta.get("val"), size) else given
    if isinstance(size, int):
        return min(max(given + size if given < 0 else given, 0), size)
    return min(given, END)


def _end(size: Any) -> int:
    return size if isinstance(size, int) else END


def _number(position: int | fx.Node) -> Any:
    return position.meta.get("val") if isinstance(position, fx.Node) else position


def _dim(node: fx.Node, source: fx.Node) -> int:
    rank: int = source.meta["val"].dim()
    return int(argument(node, "dim")) % rank
