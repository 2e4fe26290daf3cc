"""Functions that torchair converts to graphs of the graph engine, by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from aclnn_cases import Maker


@dataclasses.dataclass(frozen=True)
class Case:
    """A function of tensors, and what makes its inputs for a data type."""

    call: Callable[..., Any]
    inputs: Callable[[Maker], tuple[torch.Tensor, ...]]


def one(make: Maker) -> tuple[torch.Tensor, ...]:
    return (make(3, 4),)


def positive(make: Maker) -> tuple[torch.Tensor, ...]:
    return (make.positive(3, 4),)


def two(make: Maker) -> tuple[torch.Tensor, ...]:
    return make.positive(3, 4), make.positive(4)


def whole(make: Maker) -> tuple[torch.Tensor, ...]:
    return make.index(9, 3, 4) + 1, make.index(9, 3, 4) + 1


def masks(make: Maker) -> tuple[torch.Tensor, ...]:
    return make.mask(3, 4), make.mask(3, 4)


def row(make: Maker) -> tuple[torch.Tensor, ...]:
    return (make(3, 8),)


def image(make: Maker) -> tuple[torch.Tensor, ...]:
    return (make(1, 2, 6, 6),)


def rows_written(make: Maker) -> tuple[torch.Tensor, ...]:
    return make(5, 4), make.places(5, 2), make(2, 4)


UNARY = (
    "abs", "ceil", "cos", "erf", "exp", "expm1", "floor", "neg", "relu", "round", "sigmoid",
    "sign", "sin", "sinh", "cosh", "tan", "tanh", "asinh", "atan", "isinf", "hardswish",
    "hardsigmoid", "mish", "elu", "leaky_relu", "logsigmoid", "square", "selu", "gelu", "silu",
    "relu6",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "maximum", "minimum", "pow", "eq", "ne", "lt", "le", "gt", "ge",
    "remainder",
)  # fmt: skip
WHOLE = (
    "add", "sub", "mul", "div", "eq", "lt", "remainder", "floor_divide", "bitwise_and",
    "bitwise_or",
)  # fmt: skip

CASES: dict[str, Case] = {}
for name in UNARY:
    CASES[name] = Case(getattr(torch, name, None) or getattr(F, name), one)
for name in ("rsqrt", "sqrt", "log", "log1p", "log2", "log10", "reciprocal"):
    CASES[name] = Case(getattr(torch, name), positive)
for name in BINARY:
    CASES[name] = Case(getattr(torch, name), two)
for name in WHOLE:
    CASES[f"{name} int"] = Case(getattr(torch, name), whole)
for name in ("logical_and", "logical_or", "bitwise_and", "bitwise_or"):
    CASES[f"{name} bool"] = Case(getattr(torch, name), masks)

CASES |= {
    "add number": Case(lambda x: x + 2, one),
    "add alpha": Case(lambda x, y: torch.add(x, y, alpha=2), two),
    "sub alpha": Case(lambda x, y: torch.sub(x, y, alpha=2), two),
    "rsub": Case(lambda x: 1 - x, one),
    "div number": Case(lambda x: x / 3, one),
    "div trunc": Case(lambda x, y: torch.div(x, y, rounding_mode="trunc"), two),
    "pow number": Case(lambda x: x**2, one),
    "pow of number": Case(lambda x: 2**x, one),
    "mixed types": Case(lambda x, y: x * y, lambda make: (make(3, 4), make.index(4, 3, 4))),
    "clamp": Case(lambda x: x.clamp(-0.5, 0.5), one),
    "clamp min": Case(lambda x: x.clamp_min(0), one),
    "where": Case(torch.where, lambda make: (make.mask(3, 4), make(3, 4), make(3, 4))),
    "where number": Case(lambda x: torch.where(x > 0, x, 0.0), one),
    "masked_fill": Case(
        lambda x, m: x.masked_fill(m, -1e4), lambda make: (make(3, 4), make.mask(3, 4))
    ),
    "invert": Case(lambda x, y: ~x, masks),
    "to float32": Case(lambda x: x.float(), one),
    "to int64": Case(lambda x: x.long(), one),
    "to bool": Case(lambda x: x.bool(), one),
    "addcmul": Case(
        lambda x, y, z: torch.addcmul(x, y, z, value=0.5),
        lambda make: (make(3, 4), make(3, 4), make(3, 4)),
    ),
    "lerp": Case(lambda x, y: torch.lerp(x, y, 0.5), two),
    # Matrices
    "mm": Case(torch.mm, lambda make: (make(3, 4), make(4, 5))),
    "bmm": Case(torch.bmm, lambda make: (make(2, 3, 4), make(2, 4, 5))),
    "addmm": Case(torch.addmm, lambda make: (make(5), make(3, 4), make(4, 5))),
    "addmm scaled": Case(
        lambda c, x, y: torch.addmm(c, x, y, alpha=2, beta=0.5),
        lambda make: (make(3, 5), make(3, 4), make(4, 5)),
    ),
    "linear": Case(F.linear, lambda make: (make(2, 3, 4), make(5, 4), make(5))),
    "matmul": Case(torch.matmul, lambda make: (make(2, 2, 3, 4), make(2, 2, 4, 5))),
    # Reductions
    "sum": Case(torch.sum, one),
    "sum int": Case(lambda x, y: x.sum(), whole),
    "sum bool": Case(lambda x, y: x.sum(-1), masks),
    "sum dim": Case(lambda x: x.sum(1, keepdim=True), one),
    "mean": Case(torch.mean, one),
    "mean dim": Case(lambda x: x.mean(-1, keepdim=True), one),
    "mean type": Case(lambda x: x.mean(-1, dtype=torch.float32), one),
    "max": Case(torch.max, one),
    "max dim": Case(lambda x: x.max(-1), row),
    "argmax": Case(lambda x: x.argmax(-1), row),
    "argmax all": Case(torch.argmax, row),
    "any": Case(lambda x, y: x.any(), masks),
    "any dim": Case(lambda x, y: x.any(-1), masks),
    "all": Case(lambda x, y: x.all(), masks),
    "norm": Case(lambda x: torch.linalg.vector_norm(x, dim=-1, keepdim=True), one),
    "cumsum": Case(lambda x, y: x.cumsum(0), whole),
    "topk": Case(lambda x: x.topk(2), row),
    "sort": Case(lambda x: x.sort(-1), row),
    "softmax": Case(lambda x: F.softmax(x, -1), one),
    "log_softmax": Case(lambda x: F.log_softmax(x, -1), one),
    # Networks
    "layer_norm": Case(
        lambda x, w, b: F.layer_norm(x, (4,), w, b), lambda make: (make(3, 4), make(4), make(4))
    ),
    "batch_norm": Case(
        lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b),
        lambda make: (make(3, 4), make(4), make(4), make(4), make.positive(4)),
    ),
    "group_norm": Case(
        lambda x, w, b: F.group_norm(x, 2, w, b),
        lambda make: (make(2, 4, 3, 3), make(4), make(4)),
    ),
    "embedding": Case(F.embedding, lambda make: (make.index(9, 2, 3), make(9, 4))),
    "embedding_bag mean": Case(F.embedding_bag, lambda make: (make.index(9, 3, 2), make(9, 4))),
    "conv2d": Case(
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        lambda make: (make(1, 2, 6, 6), make(3, 2, 3, 3), make(3)),
    ),
    "max_pool2d": Case(lambda x: F.max_pool2d(x, 2), image),
    "avg_pool2d": Case(lambda x: F.avg_pool2d(x, 2), image),
    "mse_loss": Case(F.mse_loss, lambda make: (make(3, 4), make(3, 4))),
    "cross_entropy": Case(F.cross_entropy, lambda make: (make(3, 4), make.index(4, 3))),
    # Shapes
    "cat": Case(lambda x, y: torch.cat([x, y], 1), lambda make: (make(3, 4), make(3, 2))),
    "stack": Case(lambda x, y: torch.stack([x, y], 1), lambda make: (make(3, 4), make(3, 4))),
    "split": Case(lambda x: x.split(3, -1), row),
    "split sizes": Case(lambda x: x.split([2, 6], -1), row),
    "unbind": Case(lambda x: x.unbind(0), row),
    "slice": Case(lambda x: x[:, 1:3] * 1, row),
    "slice step": Case(lambda x: x[:, ::2] * 1, row),
    "slice to the end": Case(lambda x: x[..., :-1] * 1, row),
    "select": Case(lambda x: x[:, -1] * 1, row),
    "reshape": Case(lambda x: x.t().reshape(2, 6) + 0, one),
    "permute": Case(lambda x: x.permute(2, 0, 1) + 0, lambda make: (make(2, 3, 4),)),
    "unsqueeze": Case(lambda x: x.unsqueeze(1) + 0, one),
    "squeeze": Case(lambda x: x.squeeze(1) + 0, lambda make: (make(3, 1, 4),)),
    "expand": Case(lambda x: x.expand(3, 4) + 0, lambda make: (make(1, 4),)),
    "repeat": Case(lambda x: x.repeat(2, 2), one),
    "flip": Case(lambda x: x.flip(0), one),
    "pad": Case(lambda x: F.pad(x, (1, 2), value=1.0), one),
    "tril": Case(torch.tril, one),
    "triu": Case(lambda x: x.triu(1), one),
    "as_strided": Case(lambda x: x.as_strided((2, 2), (4, 1), 1) + 0, one),
    "arange": Case(lambda x: x + torch.arange(4, device=x.device), one),
    "arange step": Case(lambda x: x + torch.arange(1, 9, 2, device=x.device), one),
    "full": Case(lambda x: x + torch.full((3, 4), 2.0, device=x.device), one),
    "ones_like": Case(lambda x: x + torch.ones_like(x), one),
    "size in arithmetic": Case(lambda x: x.view(x.shape[0] * x.shape[1]) + x.shape[0] // 2, one),
    # Indices
    "gather": Case(lambda x, i: x.gather(1, i), lambda make: (make(3, 4), make.index(4, 3, 2))),
    "index_select": Case(
        lambda x, i: x.index_select(0, i), lambda make: (make(5, 4), make.index(5, 3))
    ),
    "index": Case(lambda x, i: x[i], lambda make: (make(5, 4), make.index(5, 3))),
    "index two": Case(
        lambda x, i, j: x[i, j], lambda make: (make(5, 4), make.index(5, 3), make.index(4, 3))
    ),
    "index second": Case(lambda x, i: x[:, i], lambda make: (make(3, 5, 4), make.index(5, 3))),
    "scatter": Case(lambda x, i, s: x.scatter(0, i.unsqueeze(1).expand(2, 4), s), rows_written),
    "scatter_add": Case(
        lambda x, i, s: x.scatter_add(1, i, s),
        lambda make: (make(3, 4), make.index(4, 3, 4), make(3, 4)),
    ),
    "index_add": Case(lambda x, i, s: x.index_add(0, i, s), rows_written),
    "slice_scatter": Case(
        lambda x, s: torch.slice_scatter(x, s, 1, 1, 3), lambda make: (make(3, 4), make(3, 2))
    ),
    "select_scatter": Case(
        lambda x, s: torch.select_scatter(x, s, 0, 1), lambda make: (make(3, 4), make(4))
    ),
    # Inputs that are written
    "copy_": Case(lambda x, y: x.copy_(y) * 2, lambda make: (make(3, 4), make(3, 4))),
    "add_": Case(lambda x, y: x.add_(y) * 2, lambda make: (make(3, 4), make(3, 4))),
    "copy_ into slice": Case(
        lambda x, y: x[:, 1:3].copy_(y) * 1, lambda make: (make(3, 4), make(3, 2))
    ),
}

NO_CONVERTER: dict[str, Case] = {
    "aten.amax.default": Case(lambda x: x.amax(-1), one),
    "aten.index_put.default": Case(lambda x, i, s: x.index_put((i,), s), rows_written),
    "aten.index_copy.default": Case(lambda x, i, s: x.index_copy(0, i, s), rows_written),
    "aten.isnan.default": Case(torch.isnan, one),
    "aten.min.dim": Case(lambda x: x.min(-1), one),
    "aten.var.correction": Case(lambda x: x.var(-1), one),
    "aten.cumprod.default": Case(lambda x: x.cumprod(-1), one),
    "aten.repeat_interleave.self_int": Case(lambda x: x.repeat_interleave(2, 1), one),
    "aten.roll.default": Case(lambda x: x.roll(1, -1), one),
    "aten.softplus.default": Case(F.softplus, one),
    "aten.rand_like.default": Case(torch.rand_like, one),
}
"""What torchair has no converter for, and common programs use."""
