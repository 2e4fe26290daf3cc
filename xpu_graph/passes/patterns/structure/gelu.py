"""GELU: ``x * P(X <= x)`` for a standard normal X, exactly or with ``tanh``.

    x * 0.5 * (1 + erf(x / sqrt(2)))                                        -> approximate "none"
    x * 0.5 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))            -> approximate "tanh"

Found in any order of the factors, and as torch's own ``gelu``. Left alone: ``x * sigmoid(1.702 *
x)``, which is another function; other constants, such as the 0.7978 of some programs, whose
results differ in the fourth digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from xpu_graph.fx import aten
from xpu_graph.passes.patterns.forms import cast, either
from xpu_graph.passes.patterns.predicates import why_not_floating, why_not_near
from xpu_graph.passes.patterns.structure.base import Form, Structure

_CUBIC = 0.044715


def reference(x: Any, approximate: Any) -> Any:
    """Gaussian error linear unit, https://arxiv.org/abs/1606.08415.

    Args:
        x: floating point.
        approximate: ``"none"`` for the error function, ``"tanh"`` for the formula with that.
    """
    if approximate == "none":
        return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    return x * 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + _CUBIC * x**3)))


def _half_times(x: Any, one_more: Any) -> Any:
    """``0.5 * x * one_more``, in the orders in which programs multiply."""
    return either(
        aten.mul.Tensor(aten.mul.Tensor(x, 0.5), one_more),
        aten.mul.Tensor(x, aten.mul.Tensor(one_more, 0.5)),
        aten.mul.Tensor(aten.mul.Tensor(x, one_more), 0.5),
        aten.mul.Tensor(aten.div.Tensor(x, 2), one_more),
    )


def with_erf(x: Any, factor: Any, divisor: Any) -> Any:
    scaled = either(aten.mul.Tensor(x, factor), aten.div.Tensor(x, divisor))
    return _half_times(x, aten.add.Tensor(aten.erf.default(scaled), 1))


def with_tanh(x: Any, outer: Any, cubic: Any) -> Any:
    square = either(aten.mul.Tensor(x, x), aten.pow.Tensor_Scalar(x, 2))
    cube = either(aten.pow.Tensor_Scalar(x, 3), aten.mul.Tensor(square, x))
    cubed = either(
        aten.mul.Tensor(cube, cubic),
        aten.mul.Tensor(aten.mul.Tensor(x, cubic), square),
        aten.mul.Tensor(x, aten.mul.Tensor(square, cubic)),
        aten.mul.Tensor(aten.mul.Tensor(aten.mul.Tensor(x, cubic), x), x),
    )
    inner = either(
        aten.mul.Tensor(aten.add.Tensor(x, cubed), outer),
        aten.mul.Tensor(
            aten.mul.Tensor(x, outer),
            aten.add.Tensor(
                either(
                    aten.mul.Tensor(square, cubic), aten.mul.Tensor(aten.mul.Tensor(x, cubic), x)
                ),
                1,
            ),
        ),
    )
    return _half_times(x, aten.add.Tensor(cast(aten.tanh.default(inner)), 1))


def fused(x: Any, approximate: Any) -> Any:
    return aten.gelu.default(x, approximate=approximate)


def why_not_erf(x: Any, factor: Any, divisor: Any) -> str | None:
    if divisor is not None:
        return why_not_near("the divisor", divisor, math.sqrt(2))
    return why_not_near("the factor", factor, math.sqrt(0.5))


def why_not_tanh(x: Any, outer: Any, cubic: Any) -> str | None:
    reason = why_not_near("the outer factor", outer, math.sqrt(2 / math.pi))
    return reason or why_not_near("the factor of the cube", cubic, _CUBIC)


def call_with_erf(function: Callable[..., Any], x: Any, factor: Any, divisor: Any) -> Any:
    return function(x, "none")


def call_with_tanh(function: Callable[..., Any], x: Any, outer: Any, cubic: Any) -> Any:
    return function(x, "tanh")


def why_not(x: Any, approximate: Any) -> str | None:
    return why_not_floating("x", x)


def examples() -> tuple[Any, ...]:
    return torch.randn(4, 32), "none"


GELU = Structure(
    "GELU",
    reference,
    examples,
    (
        Form(with_erf, why_not_erf, call_with_erf),
        Form(with_tanh, why_not_tanh, call_with_tanh),
        Form(fused, is_fused=True),
    ),
    conditions=(why_not,),
    benefit=10,
)
