"""AddLayerNorm: a residual is added and the sum is normalised.

    total = x + residual; normed = layer_norm(total, weight, bias)    ->    normed, total

Found in the forms of LayerNorm that have a weight and a bias. Left alone, beside what LayerNorm
leaves alone: a sum that broadcasts, or that is scaled by ``alpha``.
"""

from __future__ import annotations

from typing import Any

import torch

from xpu_graph.fx import aten
from xpu_graph.passes.patterns.predicates import why_not_shape
from xpu_graph.passes.patterns.structure import layer_norm
from xpu_graph.passes.patterns.structure.base import Form, Structure


def reference(x: Any, residual: Any, weight: Any, bias: Any, eps: Any) -> Any:
    """A sum, normalised, and the sum.

    Args:
        x: [..., N], floating point.
        residual: the same shape and dtype.
        weight: what is multiplied by, as a rule [N].
        bias: what is added, as a rule [N].
        eps: added to the variance.
    """
    total = x + residual
    return layer_norm.reference(total, weight, bias, eps), total


def affine(x: Any, residual: Any, weight: Any, bias: Any, eps: Any, dims: Any) -> Any:
    total = aten.add.Tensor(x, residual)
    return layer_norm.affine(total, weight, bias, eps, dims), total


def native(x: Any, residual: Any, weight: Any, bias: Any, eps: Any, shape: Any) -> Any:
    total = aten.add.Tensor(x, residual)
    return layer_norm.native(total, weight, bias, eps, shape), total


def why_not_affine(
    x: Any, residual: Any, weight: Any, bias: Any, eps: Any, dims: Any
) -> str | None:
    reason = why_not(x, residual, weight, bias, eps)
    return reason or layer_norm.why_not_affine(x, weight, bias, eps, dims)


def why_not_native(
    x: Any, residual: Any, weight: Any, bias: Any, eps: Any, shape: Any
) -> str | None:
    return layer_norm.why_not_native(x, weight, bias, eps, shape)


def why_not(x: Any, residual: Any, weight: Any, bias: Any, eps: Any) -> str | None:
    reason = layer_norm.why_not(x, weight, bias, eps)
    if reason is None and isinstance(residual, torch.Tensor) and residual.dtype == x.dtype:
        return why_not_shape("the residual", residual, x.shape)
    return reason or "the residual is no tensor of x's dtype"


def examples() -> tuple[Any, ...]:
    return torch.randn(2, 5, 16), torch.randn(2, 5, 16), torch.randn(16), torch.randn(16), 1e-5


ADD_LAYER_NORM = Structure(
    "AddLayerNorm",
    reference,
    examples,
    (Form(affine, why_not_affine), Form(native, why_not_native, is_fused=True)),
    conditions=(why_not,),
    benefit=30,
)
