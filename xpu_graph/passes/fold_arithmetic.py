"""Arithmetic with an operand that decides the result alone.

    x + 0, x - 0, x * 1, x / 1, x ** 1               ->    x
    x // 1, x | 0, x ^ 0, x & -1                     ->    x    for integers
    x & True, x | False, x ^ False                   ->    x    for booleans; and, or, xor as well
    x * 0, x % 1, x & 0, x | -1                      ->    full    for integers
    x ** 0                                           ->    full of ones
    x ** 2                                           ->    x * x
    x * -1                                           ->    -x    for integers

The operand is a literal, or a tensor of which it is known that all its elements are that number;
see ``uniform.py``. Where it broadcasts ``x``, a copy of ``expand(x)`` takes its place.

Left alone: in floating point, ``x + 0.0`` and ``x - (-0.0)`` where ``x`` may be -0.0, which they
make +0.0, ``x * 0`` (NaN and infinity), ``x * -1`` (``neg`` turns the sign of a NaN); complex
numbers; ``alpha`` other than 1; powers on vendors' devices below level2; ``x ** 2`` with a tensor
for 2, which rounds in another way, and ``x ** 0`` with a tensor for 0, where a signalling NaN gives
NaN; whatever would change dtype, stride or aliasing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.config import OptLevel
from xpu_graph.fx import aten
from xpu_graph.passes.arguments import argument
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.signs import is_never_negative_zero
from xpu_graph.passes.stand_ins import fill_in, stand_in
from xpu_graph.passes.uniform import Number, as_dtype, known_scalar
from xpu_graph.stage import Unit

_ADD = frozenset({aten.add.Tensor, aten.add.Scalar})
_SUB = frozenset({aten.sub.Tensor, aten.sub.Scalar, aten.rsub.Tensor})
_MUL = frozenset({aten.mul.Tensor, aten.mul.Scalar})
_DIV = frozenset({aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor})
_POW = frozenset({aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor})
_INTEGER_DIV = frozenset({aten.div.Tensor_mode, aten.div.Scalar_mode, aten.floor_divide.default})
_REMAINDER = frozenset(
    {aten.remainder.Tensor, aten.remainder.Scalar, aten.fmod.Tensor, aten.fmod.Scalar}
)
_AND = frozenset({aten.bitwise_and.Tensor, aten.bitwise_and.Scalar})
_OR = frozenset({aten.bitwise_or.Tensor, aten.bitwise_or.Scalar})
_XOR = frozenset({aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar})

_POW_IS_EXACT_ON = frozenset({"cpu", "cuda"})
"""Devices on which ``x ** 2`` is ``x * x``, and ``x ** 1`` is ``x``, to the last bit."""

_RIGHT = ((0, 1),)
_LEFT = ((1, 0),)
_BOTH = ((0, 1), (1, 0))


@dataclass(frozen=True)
class _Rule:
    """What an operator does with a number as one operand.

    Attributes:
        sides: which positions may hold the other operand and the number.
        neutral: the number that leaves the other operand as it is.
        absorbing: from a number to what the result is whatever the other operand may be.
        integers: whether this holds for integers and booleans only.
    """

    sides: tuple[tuple[int, int], ...] = _BOTH
    neutral: int | None = None
    absorbing: tuple[int, int] | None = None
    integers: bool = False


_RULES: dict[Any, _Rule] = {
    **dict.fromkeys(_ADD, _Rule(neutral=0)),
    **dict.fromkeys(_SUB, _Rule(_RIGHT, neutral=0)),
    aten.rsub.Tensor: _Rule(_LEFT, neutral=0),
    **dict.fromkeys(_MUL, _Rule(neutral=1, absorbing=(0, 0))),
    **dict.fromkeys(_DIV | _POW, _Rule(_RIGHT, neutral=1)),
    **dict.fromkeys(_INTEGER_DIV, _Rule(_RIGHT, neutral=1, integers=True)),
    **dict.fromkeys(_REMAINDER, _Rule(_RIGHT, absorbing=(1, 0), integers=True)),
    **dict.fromkeys(_AND, _Rule(neutral=-1, absorbing=(0, 0), integers=True)),
    **dict.fromkeys(_OR, _Rule(neutral=0, absorbing=(-1, -1), integers=True)),
    **dict.fromkeys(_XOR, _Rule(neutral=0, integers=True)),
    aten.logical_and.default: _Rule(neutral=-1, absorbing=(0, 0)),
    aten.logical_or.default: _Rule(neutral=0, absorbing=(-1, -1)),
    aten.logical_xor.default: _Rule(neutral=0),
}


class FoldArithmetic(RewritePass):
    """Drops arithmetic that changes nothing, or whose result is known."""

    name = "fold_arithmetic"
    targets = frozenset(_RULES)

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        value = node.meta.get("val")
        if len(node.args) < 2 or not isinstance(value, torch.Tensor):
            return
        rule = _RULES[node.target]
        for kept_at, dropped_at in rule.sides:
            kept = node.args[kept_at]
            scalar = known_scalar(node.args[dropped_at], unit)
            if scalar is None or not isinstance(kept, fx.Node):
                continue
            if not isinstance(kept.meta.get("val"), torch.Tensor):
                continue
            if self._fold(node, kept, scalar, rule, unit):
                return

    def _fold(self, node: fx.Node, kept: fx.Node, scalar: Number, rule: _Rule, unit: Unit) -> bool:
        if node.target in _POW and scalar in (0, 1, 2) and self._may_round(node):
            unit.rewriter.refuse("a power may be rounded in another way on this device")
            return False
        is_integer = not _is_inexact(node)
        if rule.integers and not is_integer:
            return False
        if _is(scalar, rule.neutral, node):
            reason = _why_not(node, kept, scalar, unit)
            if reason is None:
                return stand_in(node, kept, unit)
            unit.rewriter.refuse(reason)
        elif is_integer and rule.absorbing and _is(scalar, rule.absorbing[0], node):
            return fill_in(node, rule.absorbing[1], unit) is not None
        elif is_integer and node.target in _MUL and _is(scalar, -1, node):
            return unit.rewriter.replace_with_call(node, aten.neg.default, (kept,)) is not None
        elif node.target is aten.pow.Tensor_Scalar and not node.meta["val"].dtype.is_complex:
            if scalar == 0:
                return fill_in(node, 1, unit) is not None
            if scalar == 2:
                args = (kept, kept)
                return unit.rewriter.replace_with_call(node, aten.mul.Tensor, args) is not None
        return False

    def _may_round(self, node: fx.Node) -> bool:
        device = node.meta["val"].device.type
        return self.config.opt_level < OptLevel.level2 and device not in _POW_IS_EXACT_ON


def _is_inexact(node: fx.Node) -> bool:
    dtype = node.meta["val"].dtype
    return bool(dtype.is_floating_point or dtype.is_complex)


def _is(scalar: Number, wanted: int | None, node: fx.Node) -> bool:
    """Whether an operand is the wanted number; -1 stands for all bits, and so for True."""
    if wanted is None or isinstance(scalar, complex):
        return False
    if scalar == wanted:
        return True
    if wanted >= 0 or _is_inexact(node):
        return False
    dtype = node.meta["val"].dtype
    return as_dtype(scalar, dtype) == as_dtype(wanted, dtype)


def _why_not(node: fx.Node, kept: fx.Node, scalar: Number, unit: Unit) -> str | None:
    """Why a neutral operand must stay."""
    value = kept.meta["val"]
    if value.dtype.is_complex:
        return "complex arithmetic may change the sign of a zero"
    if node.target not in _ADD | _SUB:
        return None
    if argument(node, "alpha") != 1:
        return "alpha is not 1"
    if not value.dtype.is_floating_point:
        return None
    negative = isinstance(scalar, float) and math.copysign(1.0, scalar) < 0
    if negative == (node.target in _ADD) or is_never_negative_zero(kept, unit):
        return None
    return "-0.0 + 0 is +0.0" if node.target in _ADD else "-0.0 - (-0.0) is +0.0"
