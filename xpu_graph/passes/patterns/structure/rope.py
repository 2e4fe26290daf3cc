"""RoPE: rotary position embedding of one tensor, its halves rotated.

    x * cos + cat([-x[..., half:], x[..., :half]], -1) * sin    ->    RoPE(x, cos, sin)

Found with halves that are slices of ``x``, slices of what ``x`` itself is a slice of (where a part
is rotated), or parts of a split.

Left alone: pairs that lie side by side (``x[..., ::2]``), which is another layout; a cut that is
not in the middle; another dimension than the last, or one of unknown size.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten
from xpu_graph.passes.patterns.forms import form
from xpu_graph.passes.patterns.match import Matcher
from xpu_graph.passes.patterns.predicates import why_not_floating, why_not_tensor
from xpu_graph.passes.patterns.shape import Match
from xpu_graph.passes.patterns.structure.base import Structure
from xpu_graph.passes.patterns.structure.slices import bounds_of
from xpu_graph.passes.pieces import Pieces


def reference(x: Any, cos: Any, sin: Any) -> Any:
    """Rotary position embedding, https://arxiv.org/abs/2104.09864, in halves.

    Args:
        x: [..., D], floating point, D even.
        cos: [..., D], broadcast against ``x``.
        sin: the same.
    """
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


def rotated(x: Any, cos: Any, sin: Any, left: Any, right: Any, dim: Any) -> Any:
    turned = aten.cat.default([aten.neg.default(right), left], dim)
    return aten.add.Tensor(aten.mul.Tensor(x, cos), aten.mul.Tensor(turned, sin))


class RopeMatcher(Matcher):
    """The form, where the two parts are the halves of what is rotated."""

    def __init__(self) -> None:
        super().__init__(form(rotated))
        self._pieces = Pieces()

    @override
    def result(self, known: Any) -> Match:
        match = super().result(known)
        x, cos, sin, left, right, dim = match.inputs
        match.inputs = [x, cos, sin]
        match.refusal = _why_not_halves(x, left, right, dim, self._pieces)
        return match


class _Part(NamedTuple):
    """Elements ``start`` to ``stop`` of the last dimension of a tensor."""

    source: fx.Node
    start: int
    stop: int


def _why_not_halves(x: Any, left: Any, right: Any, dim: Any, pieces: Pieces) -> str | None:
    if not all(isinstance(value, fx.Node) for value in (x, left, right)):
        return "what is rotated is no tensor"
    value = x.meta["val"]
    size = value.shape[-1] if value.dim() else None
    if not isinstance(size, int) or size % 2 or dim not in (-1, value.dim() - 1):
        return "the last dimension is not cut in the middle"
    whole = _part(x, pieces)
    half = size // 2
    parts = _part(left, pieces), _part(right, pieces)
    for source, start in ((x, 0), (whole.source, whole.start)):
        middle = start + half
        if parts == (_Part(source, start, middle), _Part(source, middle, middle + half)):
            return None
    return "what is turned is not the halves of what is rotated"


def _part(node: fx.Node, pieces: Pieces) -> _Part:
    """A tensor as a part of what it is cut from; of itself where it is not."""
    value, piece = node.meta["val"], pieces.of(node)
    if piece is not None and not piece.drops_dim and piece.step == 1:
        bounds = bounds_of(piece, node)
        if bounds is not None and piece.dim == value.dim() - 1:
            return _Part(piece.source, *bounds)
    return _Part(node, 0, value.shape[-1] if value.dim() else 0)


def why_not(x: Any, cos: Any, sin: Any) -> str | None:
    reason = why_not_floating("x", x)
    return reason or why_not_tensor("cos", cos) or why_not_tensor("sin", sin)


def examples() -> tuple[Any, ...]:
    angle = torch.randn(1, 1, 5, 4).repeat(1, 1, 1, 2)
    return torch.randn(2, 3, 5, 8), angle.cos(), angle.sin()


ROPE = Structure("RoPE", reference, examples, coded=(RopeMatcher,), conditions=(why_not,))
