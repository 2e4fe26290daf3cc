"""RoPE: rotary position embedding of one tensor, its halves rotated.

    x * cos + cat([-x[..., half:], x[..., :half]], -1) * sin    ->    RoPE(x, cos, sin)

Found with halves that are slices of ``x``, slices of what ``x`` itself is a slice of (where a part
is rotated), or parts of a split.

Left alone: pairs that lie side by side (``x[..., ::2]``), which is another layout; a cut that is
not in the middle; another dimension than the last, or one of unknown size.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten
from xpu_graph.passes.arguments import argument
from xpu_graph.passes.patterns.forms import form
from xpu_graph.passes.patterns.match import Matcher
from xpu_graph.passes.patterns.predicates import why_not_floating, why_not_tensor
from xpu_graph.passes.patterns.shape import Match
from xpu_graph.passes.patterns.structure.base import Structure


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

    @override
    def result(self, known: Any) -> Match:
        match = super().result(known)
        x, cos, sin, left, right, dim = match.inputs
        match.inputs = [x, cos, sin]
        match.refusal = _why_not_halves(x, left, right, dim)
        return match


class _Part(NamedTuple):
    """Elements ``start`` to ``stop`` of the last dimension of a tensor."""

    source: fx.Node
    start: int
    stop: int


def _why_not_halves(x: Any, left: Any, right: Any, dim: Any) -> str | None:
    if not all(isinstance(value, fx.Node) for value in (x, left, right)):
        return "what is rotated is no tensor"
    value = x.meta["val"]
    size = value.shape[-1] if value.dim() else None
    if not isinstance(size, int) or size % 2 or dim not in (-1, value.dim() - 1):
        return "the last dimension is not cut in the middle"
    whole = _part(x)
    half = size // 2
    for source, start in ((x, 0), (whole.source, whole.start)):
        wanted = _Part(source, start, start + half), _Part(source, start + half, start + size)
        if (_part(left), _part(right)) == wanted:
            return None
    return "what is turned is not the halves of what is rotated"


def _part(node: fx.Node) -> _Part:
    """A tensor as a part of what it is cut from; of itself where it is not."""
    size = node.meta["val"].shape[-1] if node.meta["val"].dim() else 0
    whole = _Part(node, 0, size)
    source = node.args[0] if node.args else None
    if not isinstance(source, fx.Node):
        return whole
    if node.target is aten.slice.Tensor and _is_last(argument(node, "dim"), node):
        return _sliced(node, source) or whole
    if node.target is operator.getitem and source.target is aten.split.Tensor:
        start = node.args[1] * argument(source, "split_size")
        of = source.args[0]
        is_last = _is_last(argument(source, "dim"), node)
        if isinstance(of, fx.Node) and isinstance(start, int) and is_last:
            return _Part(of, start, start + size)
    return whole


def _sliced(node: fx.Node, source: fx.Node) -> _Part | None:
    start, step = argument(node, "start") or 0, argument(node, "step")
    size, of = node.meta["val"].shape[-1], source.meta["val"].shape[-1]
    if not all(isinstance(number, int) for number in (start, step, size, of)) or step != 1:
        return None
    start = max(start + of, 0) if start < 0 else min(start, of)
    return _Part(source, start, start + size)


def _is_last(dim: Any, node: fx.Node) -> bool:
    return dim in (-1, node.meta["val"].dim() - 1)


def why_not(x: Any, cos: Any, sin: Any) -> str | None:
    reason = why_not_floating("x", x)
    return reason or why_not_tensor("cos", cos) or why_not_tensor("sin", sin)


def examples() -> tuple[Any, ...]:
    angle = torch.randn(1, 1, 5, 4).repeat(1, 1, 1, 2)
    return torch.randn(2, 3, 5, 8), angle.cos(), angle.sin()


ROPE = Structure("RoPE", reference, examples, coded=(RopeMatcher,), conditions=(why_not,))
