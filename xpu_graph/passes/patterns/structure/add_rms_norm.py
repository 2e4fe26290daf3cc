"""AddRMSNorm: a residual is added and the sum is normalised; both results are used.

    total = x + residual; normed = rms_norm(total) * weight    ->    normed, total

Found in the forms of RMSNorm that have a weight. Left alone, beside what RMSNorm leaves alone: a
sum that broadcasts, or that is scaled by ``alpha``.
"""

from __future__ import annotations

from typing import Any

import torch

from xpu_graph.fx import aten
from xpu_graph.passes.patterns.predicates import why_not_shape
from xpu_graph.passes.patterns.structure import rms_norm
from xpu_graph.passes.patterns.structure.base import Form, Structure


def reference(x: Any, residual: Any, weight: Any, eps: Any) -> Any:
    """A sum, normalised, and the sum.

    Args:
        x: [..., N], floating point.
        residual: the same shape and dtype.
        weight: what is multiplied by, as a rule [N].
        eps: added to the mean of the squares.
    """
    total = x + residual
    return rms_norm.reference(total, weight, eps), total


def with_sum(x: Any, residual: Any, weight: Any, eps: Any, dims: Any) -> Any:
    total = aten.add.Tensor(x, residual)
    return rms_norm.weighted(total, weight, eps, dims), total


def with_sum_and_cast(x: Any, residual: Any, weight: Any, eps: Any, dims: Any) -> Any:
    total = aten.add.Tensor(x, residual)
    return rms_norm.weighted_and_cast(total, weight, eps, dims), total


def why_not_form(x: Any, residual: Any, weight: Any, eps: Any, dims: Any) -> str | None:
    return why_not(x, residual, weight, eps) or rms_norm.why_not_weighted(x, weight, eps, dims)


def why_not(x: Any, residual: Any, weight: Any, eps: Any) -> str | None:
    reason = rms_norm.why_not(x, weight, eps)
    if reason is None and isinstance(residual, torch.Tensor) and residual.dtype == x.dtype:
        return why_not_shape("the residual", residual, x.shape)
    return reason or "the residual is no tensor of x's dtype"


def examples() -> tuple[Any, ...]:
    return torch.randn(2, 5, 16), torch.randn(2, 5, 16), torch.randn(16), 1e-6


ADD_RMS_NORM = Structure(
    "AddRMSNorm",
    reference,
    examples,
    (Form(with_sum_and_cast, why_not_form), Form(with_sum, why_not_form)),
    conditions=(why_not,),
    benefit=30,
)
