"""Operators applied twice, or to one operand twice.

    -(-x), ~(~x), not not x                          ->    x
    abs(abs(x)), relu(relu(x))                       ->    the inner one
    abs(x), relu(x) of what is never negative        ->    x
    floor(round(x)), trunc(ceil(x)), ...             ->    the inner one
    maximum(x, x), minimum(x, x), x & x, x | x       ->    x
    x < x, x > x                                     ->    full of False
    x - x, x ^ x, x == x, x != x, x <= x, x >= x     ->    full    for integers

Left alone: the last line for floating point (NaN); ``not not x`` of numbers, which gives booleans;
complex numbers, whose ``neg`` is a subtraction that loses signs of zero; chains with a result
inside that is written to; whatever would change dtype, stride or aliasing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten
from xpu_graph.passes.arguments import argument
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.signs import is_never_negative
from xpu_graph.passes.stand_ins import fill_in
from xpu_graph.passes.uniform import unwritten
from xpu_graph.stage import Unit

_UNDO_THEMSELVES = frozenset({aten.neg.default, aten.bitwise_not.default, aten.logical_not.default})
_ROUNDINGS = frozenset(
    {aten.ceil.default, aten.floor.default, aten.round.default, aten.trunc.default}
)
"""They give integral numbers, and leave integral numbers, -0.0, infinities and NaN as they are."""

_DROP_SIGNS = frozenset({aten.abs.default, aten.relu.default})
_CHOICES = frozenset(
    {
        aten.bitwise_and.Tensor,
        aten.bitwise_or.Tensor,
        aten.fmax.default,
        aten.fmin.default,
        aten.logical_and.default,
        aten.logical_or.default,
        aten.maximum.default,
        aten.minimum.default,
    }
)
_OF_ONE_OPERAND: dict[Any, bool] = {aten.lt.Tensor: False, aten.gt.Tensor: False}
_OF_ONE_INTEGER: dict[Any, int] = {
    aten.sub.Tensor: 0,
    aten.bitwise_xor.Tensor: 0,
    aten.eq.Tensor: True,
    aten.ne.Tensor: False,
    aten.le.Tensor: True,
    aten.ge.Tensor: True,
}
_UNARY = _UNDO_THEMSELVES | _ROUNDINGS | _DROP_SIGNS


class FoldRepeats(RewritePass):
    """Drops operators that repeat or undo what was done, or compare a value with itself."""

    name = "fold_repeats"
    targets = frozenset({*_UNARY, *_CHOICES, *_OF_ONE_OPERAND, *_OF_ONE_INTEGER})

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.dtype.is_complex:
            return
        if node.target in _UNARY:
            self._fold_chain(node, unit)
        elif len(node.args) > 1 and node.args[0] is node.args[1]:
            self._fold_pair(node, unit)

    def _fold_chain(self, node: fx.Node, unit: Unit) -> None:
        source = node.args[0]
        kept: Any = None
        if node.target in _DROP_SIGNS and is_never_negative(source, unit):
            kept = source
        else:
            inner = unwritten(source, unit)
            if inner is None:
                return
            if node.target in _UNDO_THEMSELVES and inner.target is node.target:
                kept = inner.args[0]
            elif (node.target in _DROP_SIGNS and inner.target is node.target) or (
                node.target in _ROUNDINGS and inner.target in _ROUNDINGS
            ):
                kept = inner
        if isinstance(kept, fx.Node):
            unit.rewriter.replace(node, kept)

    def _fold_pair(self, node: fx.Node, unit: Unit) -> None:
        operand: Any = node.args[0]
        value = operand.meta.get("val") if isinstance(operand, fx.Node) else None
        if not isinstance(value, torch.Tensor):
            return
        if node.target in _CHOICES:
            unit.rewriter.replace(node, operand)
        elif node.target in _OF_ONE_OPERAND:
            fill_in(node, _OF_ONE_OPERAND[node.target], unit)
        elif value.dtype.is_floating_point or value.dtype.is_complex:
            return
        elif node.target is not aten.sub.Tensor or argument(node, "alpha") == 1:
            fill_in(node, _OF_ONE_INTEGER[node.target], unit)
