"""LayerNorm: ``(x - mean(x)) / sqrt(var(x) + eps) * weight + bias`` over the last dimension.

Found: with the variance as the mean of the squared differences, in either spelling, or as ``var``
without correction; with ``rsqrt``, division by ``sqrt``, or the power of -0.5; with weight and
bias, one of them, or neither; with casts to another floating-point dtype inside; and torch's own
``native_layer_norm``.

Left alone: several dimensions; a corrected variance; ``eps`` added to the standard deviation;
the variance as ``mean(x ** 2) - mean(x) ** 2``; an ``eps`` that is known at run time only.
"""

from __future__ import annotations

from typing import Any

import torch

from xpu_graph.fx import aten
from xpu_graph.passes.patterns.forms import ANY, cast, casted, either
from xpu_graph.passes.patterns.predicates import why_not_floating, why_not_last, why_not_number
from xpu_graph.passes.patterns.structure.base import Form, Structure


def reference(x: Any, weight: Any, bias: Any, eps: Any) -> Any:
    """Layer normalisation, https://arxiv.org/abs/1607.06450, in float32 at least.

    Args:
        x: [..., N], floating point.
        weight: what is multiplied by, as a rule [N]; None for nothing.
        bias: what is added, as a rule [N]; None for nothing.
        eps: added to the variance.
    """
    wide = x if x.dtype == torch.float64 else x.float()
    centred = wide - wide.mean(-1, keepdim=True)
    normed = centred * torch.rsqrt(centred.square().mean(-1, keepdim=True) + eps)
    normed = normed if weight is None else normed * weight
    return (normed if bias is None else normed + bias).to(x.dtype)


def normalized(x: Any, eps: Any, dims: Any) -> Any:
    """The part before weight and bias, as it is written."""
    wide = cast(x)
    centred = cast(aten.sub.Tensor(wide, aten.mean.dim(wide, dims, True, dtype=ANY)))
    square = either(aten.mul.Tensor(centred, centred), aten.pow.Tensor_Scalar(centred, 2))
    variance = either(
        aten.mean.dim(square, dims, True, dtype=ANY),
        aten.var.correction(wide, dims, correction=0, keepdim=True),
    )
    shifted = either(aten.add.Tensor(variance, eps), aten.add.Scalar(variance, eps))
    inverse = either(aten.rsqrt.default(shifted), aten.pow.Tensor_Scalar(shifted, -0.5))
    return either(
        aten.mul.Tensor(centred, cast(inverse)),
        aten.div.Tensor(centred, cast(aten.sqrt.default(shifted))),
    )


def plain(x: Any, eps: Any, dims: Any) -> Any:
    return normalized(x, eps, dims)


def plain_and_cast(x: Any, eps: Any, dims: Any) -> Any:
    return casted(normalized(x, eps, dims))


def weighted(x: Any, weight: Any, eps: Any, dims: Any) -> Any:
    return aten.mul.Tensor(cast(normalized(x, eps, dims)), cast(weight))


def affine(x: Any, weight: Any, bias: Any, eps: Any, dims: Any) -> Any:
    return aten.add.Tensor(cast(weighted(x, weight, eps, dims)), cast(bias))


def affine_and_cast(x: Any, weight: Any, bias: Any, eps: Any, dims: Any) -> Any:
    return casted(affine(x, weight, bias, eps, dims))


def native(x: Any, weight: Any, bias: Any, eps: Any, shape: Any) -> Any:
    return aten.native_layer_norm.default(x, shape, weight, bias, eps)[0]


def why_not_plain(x: Any, eps: Any, dims: Any) -> str | None:
    return why_not_last(dims, x)


def why_not_weighted(x: Any, weight: Any, eps: Any, dims: Any) -> str | None:
    return why_not_last(dims, x) or why_not_floating("the weight", weight)


def why_not_affine(x: Any, weight: Any, bias: Any, eps: Any, dims: Any) -> str | None:
    return why_not_weighted(x, weight, eps, dims) or why_not_floating("the bias", bias)


def why_not_native(x: Any, weight: Any, bias: Any, eps: Any, shape: Any) -> str | None:
    return "it goes over several dimensions" if len(shape) != 1 else None


def why_not(x: Any, weight: Any, bias: Any, eps: Any) -> str | None:
    return why_not_floating("x", x) or why_not_number("eps", eps)


def examples() -> tuple[Any, ...]:
    return torch.randn(2, 5, 16), torch.randn(16), torch.randn(16), 1e-5


LAYER_NORM = Structure(
    "LayerNorm",
    reference,
    examples,
    (
        Form(affine_and_cast, why_not_affine),
        Form(affine, why_not_affine),
        Form(weighted, why_not_weighted),
        Form(plain_and_cast, why_not_plain),
        Form(plain, why_not_plain),
        Form(native, why_not_native, is_fused=True),
    ),
    conditions=(why_not,),
    benefit=20,
)
