"""Slices of one tensor, which structures join and add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import fx

from xpu_graph.fx import same_size
from xpu_graph.passes.pieces import Piece, Pieces


@dataclass(frozen=True)
class SlicesOfOne:
    """Slices of one tensor along one dimension.

    Attributes:
        source: the tensor.
        dim: the dimension, counted from the front.
        starts: where each begins.
        stops: where each ends.
        refusal: why they cannot be written in this way, or None.
    """

    source: fx.Node
    dim: int
    starts: list[int]
    stops: list[int]
    refusal: str | None = None


class Slices:
    """Finds slices. An object serves one graph."""

    def __init__(self) -> None:
        self._pieces = Pieces()

    def of_one(self, parts: Sequence[fx.Node]) -> SlicesOfOne | str | None:
        """The slices that some nodes are; or why only some of them are; None where hardly any is.

        Args:
            parts: the nodes.
        """
        pieces = [self._pieces.of(part) for part in parts]
        slices = [piece for piece in pieces if piece is not None and not piece.drops_dim]
        if len(slices) < 2:
            return None
        if len(slices) < len(pieces):
            return "there are other operands beside the slices"
        source, dim = slices[0].source, slices[0].dim
        if any(piece.source is not source or piece.dim != dim for piece in slices):
            return "the slices are not of one tensor and one dimension"
        bounds = list(map(bounds_of, slices, parts))
        known = [both for both in bounds if both is not None]
        refusal = None
        if any(piece.step != 1 for piece in slices):
            refusal = "a slice has a step"
        elif len(known) < len(bounds):
            refusal = "where a slice ends is known at run time only"
        starts, stops = [both[0] for both in known], [both[1] for both in known]
        return SlicesOfOne(source, dim, starts, stops, refusal)


def bounds_of(piece: Piece, node: fx.Node) -> tuple[int, int] | None:
    """Where a slice begins and ends, where it surely has all elements in between."""
    bounds = piece.bounds
    if bounds is None or not same_size(node.meta["val"].shape[piece.dim], bounds[1] - bounds[0]):
        return None
    return bounds
