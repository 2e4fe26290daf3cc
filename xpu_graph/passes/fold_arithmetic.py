"""Arithmetic with a neutral operand.

    x - 0, x * 1, 1 * x, x / 1    ->    x
    x + 0, 0 + x                  ->    x    for integers
    x + (-0.0)                    ->    x    for floating point

The neutral operand is a literal, or a tensor made by ``full``, ``zeros``, ``ones``, one of their
``_like`` and ``new_`` forms, or ``scalar_tensor``.

Left alone: ``x + 0.0`` in floating point (``-0.0 + 0.0`` is ``+0.0``), ``x - (-0.0)`` for the same
reason, complex numbers, ``alpha`` other than 1, division with a rounding mode, ``x * 0`` (NaN and
infinity), and whatever would change dtype, shape, stride or aliasing; the rewriter checks those.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten
from xpu_graph.passes.base import RewritePass
from xpu_graph.stage import Unit
from xpu_graph.torch_compat import no_dispatch_modes

_ADD = frozenset({aten.add.Tensor, aten.add.Scalar})
_SUB = frozenset({aten.sub.Tensor, aten.sub.Scalar})
_MUL = frozenset({aten.mul.Tensor, aten.mul.Scalar})
_DIV = frozenset({aten.div.Tensor, aten.div.Scalar, aten.true_divide.Tensor})
_FILLED: dict[Any, int] = {
    aten.zeros.default: 0,
    aten.zeros_like.default: 0,
    aten.new_zeros.default: 0,
    aten.ones.default: 1,
    aten.ones_like.default: 1,
    aten.new_ones.default: 1,
}
_FILLED_WITH_ARGUMENT: dict[Any, int] = {
    aten.full.default: 1,
    aten.full_like.default: 1,
    aten.new_full.default: 2,
    aten.scalar_tensor.default: 0,
}


class FoldArithmetic(RewritePass):
    """Drops additions, subtractions, multiplications and divisions that change nothing."""

    name = "fold_arithmetic"
    targets = _ADD | _SUB | _MUL | _DIV

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        if len(node.args) < 2:
            return
        left, right = node.args[:2]
        pairs = [(left, right)]
        if node.target in _ADD | _MUL:
            pairs.append((right, left))
        for kept, dropped in pairs:
            if not isinstance(kept, fx.Node):
                continue
            scalar = known_scalar(dropped, unit)
            value = kept.meta.get("val")
            if scalar is None or not isinstance(value, torch.Tensor):
                continue
            if not _is_value(scalar, 1 if node.target in _MUL | _DIV else 0):
                continue
            reason = _why_not(node, scalar, value)
            if reason is not None:
                unit.rewriter.refuse(reason)
            elif unit.rewriter.replace(node, kept):
                return


def known_scalar(operand: object, unit: Unit) -> bool | int | float | complex | None:
    """The one number an operand consists of, if it can be read off the graph."""
    if isinstance(operand, (bool, int, float, complex)):
        return operand
    if not isinstance(operand, fx.Node) or operand.op != "call_function":
        return None
    position = _FILLED_WITH_ARGUMENT.get(operand.target)
    if position is None:
        filled: object = _FILLED.get(operand.target)
    else:
        filled = operand.args[position] if position < len(operand.args) else None
    if filled is None or unit.rewriter.is_written(operand):
        return None
    value = operand.meta.get("val")
    if not isinstance(filled, (bool, int, float, complex)) or not isinstance(value, torch.Tensor):
        return None
    return _as_dtype(filled, value.dtype)


def _as_dtype(
    number: bool | int | float | complex, dtype: torch.dtype
) -> bool | int | float | complex | None:
    """The number as a tensor of this dtype holds it: 0.5 in an integer tensor is 0."""
    try:
        with no_dispatch_modes():
            return torch.tensor(number, dtype=dtype, device="cpu").item()
    except (RuntimeError, TypeError, OverflowError):
        return None


def _is_value(scalar: bool | int | float | complex, wanted: int) -> bool:
    return not isinstance(scalar, complex) and scalar == wanted


def _why_not(
    node: fx.Node, scalar: bool | int | float | complex, value: torch.Tensor
) -> str | None:
    if value.dtype.is_complex:
        return "complex arithmetic may change the sign of a zero"
    alpha = node.kwargs.get("alpha", node.args[2] if len(node.args) > 2 else 1)
    if alpha != 1:
        return "alpha is not 1"
    if not value.dtype.is_floating_point or node.target in _MUL | _DIV:
        return None
    negative = isinstance(scalar, float) and math.copysign(1.0, scalar) < 0
    if node.target in _ADD and not negative:
        return "-0.0 + 0 is +0.0"
    if node.target in _SUB and negative:
        return "-0.0 - (-0.0) is +0.0"
    return None
