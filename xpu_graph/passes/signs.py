"""What the graph says about the signs in a tensor: where -0.0 and negative numbers cannot occur.

``x + 0.0`` is ``x`` unless ``x`` is -0.0. NaNs of either sign may occur everywhere.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import fx

from xpu_graph.fx import aten
from xpu_graph.passes.arguments import argument
from xpu_graph.passes.uniform import SAME_NUMBERS, as_dtype, known_scalar, unwritten
from xpu_graph.stage import Unit

MAX_LINKS = 4
"""How far up a value is followed; operands fork, so it is few."""

_UNSIGNED = frozenset({torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64})

_GIVES_NO_SIGN = frozenset(
    {
        aten.abs.default,  # clears the sign
        aten.exp.default,  # positive, or +0 where it underflows
        aten.exp2.default,
        aten.sigmoid.default,  # 1 / (1 + exp(-x)); between +0 and 1
        aten._softmax.default,  # an exponential over a sum of exponentials
        aten.rsqrt.default,  # -inf for -0.0, else positive or NaN, +0 for infinity
        aten.cosh.default,  # at least 1
    }
)
"""Floating-point operators whose result is never -0.0; all but rsqrt give no negative number."""

_KEEPS_NO_SIGN: dict[Any, int] = {
    aten.add.Tensor: 2,  # a sum of +0 and positive numbers has no way to become negative,
    aten.add.Scalar: 2,
    aten.mul.Tensor: 2,  # neither has a product,
    aten.mul.Scalar: 2,
    aten.div.Tensor: 2,  # nor a quotient
    aten.div.Scalar: 2,
    aten.maximum.default: 2,  # the rest choose among the elements, or sum them up
    aten.minimum.default: 2,
    aten.relu.default: 1,
    aten.sqrt.default: 1,
    aten.amax.default: 1,
    aten.amin.default: 1,
    aten.sum.default: 1,
    aten.sum.dim_IntList: 1,
    aten.mean.default: 1,
    aten.mean.dim: 1,
    aten.cumsum.default: 1,
    **dict.fromkeys(SAME_NUMBERS, 1),
}
"""Operators that give neither -0.0 nor negative numbers if so many first arguments have none."""

_SUMS = frozenset({aten.add.Tensor, aten.add.Scalar})
_DIFFERENCES = frozenset({aten.sub.Tensor, aten.sub.Scalar})


def is_never_negative(operand: object, unit: Unit, links: int = MAX_LINKS) -> bool:
    """Whether every number of an operand is +0, positive or NaN."""
    if isinstance(operand, (bool, int, float)):
        return math.isnan(operand) or math.copysign(1.0, operand) > 0
    if not isinstance(operand, fx.Node):
        return False
    value = operand.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return False
    if value.dtype in _UNSIGNED:
        return True
    number = known_scalar(operand, unit)
    if number is not None:
        return is_never_negative(number, unit)
    call = unwritten(operand, unit)
    if call is None or not value.dtype.is_floating_point or not links:
        return False
    if call.target in _GIVES_NO_SIGN or is_square(call):
        return call.target is not aten.rsqrt.default
    operands = call.args[: _KEEPS_NO_SIGN.get(call.target, 0)]
    if not operands or (call.target in _SUMS and argument(call, "alpha") != 1):
        return False
    return all(is_never_negative(entry, unit, links - 1) for entry in operands)


def is_never_negative_zero(operand: object, unit: Unit, links: int = MAX_LINKS) -> bool:
    """Whether no number of an operand is -0.0."""
    if isinstance(operand, (bool, int, float)):
        return operand != 0 or math.copysign(1.0, operand) > 0
    if not isinstance(operand, fx.Node):
        return False
    value = operand.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype.is_complex:
        return False
    if not value.dtype.is_floating_point or is_never_negative(operand, unit):
        return True
    number = known_scalar(operand, unit)
    if number is not None:
        return is_never_negative_zero(number, unit)
    call = unwritten(operand, unit)
    if call is None or not links:
        return False
    if call.target is aten.rsqrt.default:
        return True
    if call.target in SAME_NUMBERS:
        return _keeps_small_numbers(call) and is_never_negative_zero(call.args[0], unit, links - 1)
    if call.target not in _SUMS | _DIFFERENCES or not _is_plain_sum(call, value.dtype):
        return False
    # To the nearest, numbers that cancel give +0: only -0.0 + (-0.0) and -0.0 - (+0.0) give -0.0.
    # Nothing is lost by rounding to zero, for both are multiples of the smallest number there is.
    decisive = call.args[:2] if call.target in _SUMS else call.args[:1]
    return any(is_never_negative_zero(entry, unit, links - 1) for entry in decisive)


def _keeps_small_numbers(call: fx.Node) -> bool:
    """Whether a cast or a rearrangement rounds nothing to -0.0: to fewer bits, -1e-30 may be."""
    source = call.args[0]
    given = source.meta.get("val") if isinstance(source, fx.Node) else None
    if not isinstance(given, torch.Tensor):
        return False
    dtype = call.meta["val"].dtype
    return (
        given.dtype == dtype
        or not (given.dtype.is_floating_point or given.dtype.is_complex)
        or (given.dtype.is_floating_point and given.dtype.itemsize < dtype.itemsize)
    )


def _is_plain_sum(call: fx.Node, dtype: torch.dtype) -> bool:
    """Whether both operands are numbers that the dtype of the result has."""
    if argument(call, "alpha") != 1:
        return False
    for operand in call.args[:2]:
        if isinstance(operand, fx.Node):
            value = operand.meta.get("val")
            if not isinstance(value, torch.Tensor) or value.dtype != dtype:
                return False
        elif not isinstance(operand, (bool, int, float)) or as_dtype(operand, dtype) != operand:
            return False
    return len(call.args) > 1


def is_square(node: fx.Node) -> bool:
    """Whether a real number is multiplied by itself: the result is +0, positive or NaN."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dtype.is_complex:
        return False
    if node.target is aten.mul.Tensor:
        return node.args[0] is node.args[1]
    return node.target is aten.pow.Tensor_Scalar and bool(node.args[1] == 2)
