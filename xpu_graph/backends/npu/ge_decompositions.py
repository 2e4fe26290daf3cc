"""Operators that torchair has no converter for, computed from operators that it has one for.

Used while AOTAutograd traces for mode ``max-autotune``. ``tests/npu/test_ge.py`` holds every entry
against the installed torchair. A function returns NotImplemented for arguments that it does not
cover; the operator then stays, and the vendor's refusal names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from xpu_graph.torch_compat import torch_decompositions

aten = torch.ops.aten


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Operator -> the function that computes it."""
    return {**torch_decompositions(_BY_TORCH), **_OWN}


# --- least and greatest ---------------------------------------------------------------------------


def _reversed_order(x: Tensor) -> Tensor:
    """A value of the same type for which less is greater, without rounding or overflow."""
    return -x if x.is_floating_point() else torch.bitwise_not(x)


def _amax(x: Tensor, dim: Sequence[int] = (), keepdim: bool = False) -> Tensor:
    dims = sorted({d % x.dim() for d in dim} or range(x.dim())) if x.dim() else []
    for d in reversed(dims):
        x = aten.max.dim(x, d, keepdim)[0]
    return x


def _amin(x: Tensor, dim: Sequence[int] = (), keepdim: bool = False) -> Tensor:
    return _reversed_order(_amax(_reversed_order(x), dim, keepdim))


def _min(x: Tensor) -> Tensor:
    return _reversed_order(aten.max.default(_reversed_order(x)))


def _min_dim(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = aten.max.dim(_reversed_order(x), dim, keepdim)
    return _reversed_order(values), indices


def _all_dim(x: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    return torch.logical_not(aten.any.dim(torch.logical_not(x), dim, keepdim))


# --- moments --------------------------------------------------------------------------------------


def _var(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Any:
    return _var_mean(x, dim, correction=correction, keepdim=keepdim)[0]


def _std(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Any:
    """Torchair has a converter, which fails for the last dimension without ``keepdim``."""
    if x.is_complex():
        return NotImplemented
    wide = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    return torch.sqrt(_var(wide, dim, correction=correction, keepdim=keepdim)).to(x.dtype)


def _var_mean(
    x: Tensor,
    dim: Sequence[int] | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
) -> Any:
    if x.is_complex():
        return NotImplemented, NotImplemented
    dims = sorted({d % x.dim() for d in dim or range(x.dim())}) if x.dim() else []
    wide = x.to(torch.float32) if x.dtype in (torch.float16, torch.bfloat16) else x
    mean = aten.mean.dim(wide, dims, True)
    count: Any = 1
    for d in dims:
        count = count * x.shape[d]
    rest = count - (1 if correction is None else correction)
    difference = wide - mean
    variance = aten.sum.dim_IntList(difference * difference, dims, keepdim) / rest
    if not keepdim:
        mean = aten.sum.dim_IntList(mean, dims, False)
    return variance.to(x.dtype), mean.to(x.dtype)


# --- elements -------------------------------------------------------------------------------------


def _isnan(x: Tensor) -> Tensor:
    return torch.ne(x, x)


def _square(x: Tensor) -> Tensor:
    return x * x


def _repeat_interleave(
    x: Tensor, repeats: int, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    if dim is None:
        x, dim = x.reshape(-1), 0
    dim %= x.dim()
    shape = list(x.shape)
    wider = x.unsqueeze(dim + 1).expand([*shape[: dim + 1], repeats, *shape[dim + 1 :]])
    shape[dim] = shape[dim] * repeats
    return wider.reshape(shape)


# --- writing by index -----------------------------------------------------------------------------


def _index_copy(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    if not x.dim():
        return source.reshape(x.shape).clone()
    dim %= x.dim()
    shape = [1] * x.dim()
    shape[dim] = -1
    spread = index.reshape(shape).expand_as(source)
    return aten.scatter.src(x, dim, spread, source)  # type: ignore[no-any-return]


def _index_put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Any:
    """One scatter into the flattened tensor, at places computed from all indices.

    The layout of what is written follows the rules of NumPy's advanced indexing.
    """
    if any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
        return NotImplemented  # a mask: how many elements it chooses is data
    known = [*indices, *([None] * (x.dim() - len(indices)))]
    places = [d for d, index in enumerate(known) if index is not None]
    given = [index for index in known if index is not None]
    chosen = torch.broadcast_tensors(*given)  # type: ignore[no-untyped-call]
    width = chosen[0].dim()
    together = places == list(range(places[0], places[-1] + 1))
    start = places[0] if together else 0
    free = [d for d in range(x.dim()) if d not in places]
    before = [d for d in free if together and d < start]
    after = [d for d in free if d not in before]
    rank = width + len(free)
    linear: Any = 0
    stride: Any = 1
    for d in reversed(range(x.dim())):
        if d in places:
            index = chosen[places.index(d)]
            index = torch.where(index < 0, index + x.shape[d], index)
            index = index.reshape([1] * len(before) + list(index.shape) + [1] * len(after))
        else:
            axis = before.index(d) if d in before else len(before) + width + after.index(d)
            shape = [1] * rank
            shape[axis] = -1
            index = torch.arange(x.shape[d], device=x.device).reshape(shape)
        linear = linear + index * stride
        stride = stride * x.shape[d]
    source = values.expand(linear.shape).reshape(-1).to(x.dtype)
    flat = x.reshape(-1)
    scatter = aten.scatter_add.default if accumulate else aten.scatter.src
    return scatter(flat, 0, linear.reshape(-1), source).reshape(x.shape)


_OWN: dict[Any, Callable[..., Any]] = {
    aten.all.dim: _all_dim,
    aten.amax.default: _amax,
    aten.amin.default: _amin,
    aten.index_copy.default: _index_copy,
    aten.index_put.default: _index_put,
    aten.isnan.default: _isnan,
    aten.min.default: _min,
    aten.min.dim: _min_dim,
    aten.repeat_interleave.self_int: _repeat_interleave,
    aten.square.default: _square,
    aten.std.correction: _std,
    aten.var.correction: _var,
    aten.var_mean.correction: _var_mean,
}

_BY_TORCH = (
    aten.softplus.default,
    aten.hardshrink.default,
    aten.logit.default,
    aten.roll.default,
    aten.unfold_copy.default,
    aten.native_batch_norm.default,
    aten._safe_softmax.default,
    aten.norm.ScalarOpt_dim,
    aten.norm.Scalar,
)
"""What torch itself decomposes, into operators that torchair converts."""
