"""RMSNorm: ``x / sqrt(mean(x ** 2) + eps) * weight`` over the last dimension.

Found: with the mean of ``x ** 2`` or ``x * x``; with ``rsqrt``, division by ``sqrt``, or the power
of -0.5; with or without a weight; with casts to another floating-point dtype inside and after it;
and torch's own ``_fused_rms_norm``.

Left alone: a mean over another dimension than the last; an ``eps`` that is known at run time only.
"""

from __future__ import annotations

from typing import Any

import torch

from xpu_graph.fx import aten
from xpu_graph.passes.patterns.forms import ANY, cast, casted, either
from xpu_graph.passes.patterns.predicates import why_not_floating, why_not_last, why_not_number
from xpu_graph.passes.patterns.structure.base import Form, Structure


def reference(x: Any, weight: Any, eps: Any) -> Any:
    """Root mean square normalisation, https://arxiv.org/abs/1910.07467, in float32 at least.

    Args:
        x: [..., N], floating point.
        weight: what is multiplied by, as a rule [N]; None for nothing.
        eps: added to the mean of the squares.
    """
    wide = x if x.dtype == torch.float64 else x.float()
    normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (normed if weight is None else normed * weight).to(x.dtype)


def normalized(x: Any, eps: Any, dims: Any) -> Any:
    """The part before the weight, as it is written."""
    wide = cast(x)
    square = either(aten.mul.Tensor(wide, wide), aten.pow.Tensor_Scalar(wide, 2))
    mean = aten.mean.dim(square, dims, True, dtype=ANY)
    mean = either(aten.add.Tensor(mean, eps), aten.add.Scalar(mean, eps))
    inverse = either(aten.rsqrt.default(mean), aten.pow.Tensor_Scalar(mean, -0.5))
    return either(
        aten.mul.Tensor(wide, cast(inverse)),
        aten.div.Tensor(wide, cast(aten.sqrt.default(mean))),
    )


def weighted(x: Any, weight: Any, eps: Any, dims: Any) -> Any:
    return aten.mul.Tensor(cast(normalized(x, eps, dims)), cast(weight))


def weighted_and_cast(x: Any, weight: Any, eps: Any, dims: Any) -> Any:
    return casted(weighted(x, weight, eps, dims))


def plain_and_cast(x: Any, eps: Any, dims: Any) -> Any:
    return casted(normalized(x, eps, dims))


def fused(x: Any, weight: Any, eps: Any, shape: Any) -> Any:
    return aten._fused_rms_norm.default(x, shape, weight, eps)[0]


def why_not_weighted(x: Any, weight: Any, eps: Any, dims: Any) -> str | None:
    return why_not_last(dims, x) or why_not_floating("the weight", weight)


def why_not_plain(x: Any, eps: Any, dims: Any) -> str | None:
    return why_not_last(dims, x)


def why_not_fused(x: Any, weight: Any, eps: Any, shape: Any) -> str | None:
    return "it goes over several dimensions" if len(shape) != 1 else None


def why_not(x: Any, weight: Any, eps: Any) -> str | None:
    return why_not_floating("x", x) or why_not_number("eps", eps)


def examples() -> tuple[Any, ...]:
    return torch.randn(2, 5, 16), torch.randn(16), 1e-6


FORMS = (
    Form(weighted_and_cast, why_not_weighted),
    Form(weighted, why_not_weighted),
    Form(plain_and_cast, why_not_plain),
    Form(normalized, why_not_plain),
    Form(fused, why_not_fused, is_fused=True),
)
RMS_NORM = Structure("RMSNorm", reference, examples, FORMS, conditions=(why_not,), benefit=20)
