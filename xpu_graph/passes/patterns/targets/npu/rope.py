"""RoPE by ``npu_rotary_mul``, mode half.

Documented, with kernels that are not compiled for each shape: float16, bfloat16 and float32, all
operands of four dimensions; the last one even and below 896, batches and heads below 1000; cos and
sin of one shape, broadcast over the batches or heads, or over none. Which dimension is which is
seen from that shape. With the heads before the places it does not pay where a row is no multiple
of 32 bytes. That cos and sin lie in [-1, 1] is not looked at.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from xpu_graph.fx import same_size
from xpu_graph.passes.patterns.targets.npu.constraints import (
    why_not_at_most,
    why_not_dtype,
    why_not_here,
    why_not_rank,
    why_not_same_dtype,
)
from xpu_graph.passes.patterns.targets.npu.made import implementation


class _Layout(NamedTuple):
    """Which dimension has the batches, and which the heads."""

    name: str
    batch: int
    heads: int


_LAYOUTS = (_Layout("BNSD", 0, 1), _Layout("BSND", 0, 2), _Layout("SBND", 1, 2))
_ROW_BYTES = 32


def npu_rotary_mul(x: Any, cos: Any, sin: Any) -> Any:
    return torch.ops.npu.npu_rotary_mul(x, cos, sin)


def check(x: Any, cos: Any, sin: Any) -> str | None:
    reason = why_not_here(x, cos, sin) or why_not_dtype("x", x)
    for name, value in (("x", x), ("cos", cos), ("sin", sin)):
        reason = reason or why_not_same_dtype(name, value, x) or why_not_rank(name, value, 4, 4)
    if reason is not None:
        return reason
    reason = why_not_at_most("the last dimension", x.shape[-1], 895)
    if reason is None and x.shape[-1] % 2:
        reason = "the last dimension is odd"
    if reason is None and not all(map(same_size, cos.shape, sin.shape)):
        reason = "cos and sin have different shapes"
    if reason is not None:
        return reason
    reasons = [_why_not_limits(layout, x) for layout in _LAYOUTS if _is_broadcast(layout, x, cos)]
    if not reasons:
        return f"cos is {tuple(cos.shape)}, which is not broadcast to {tuple(x.shape)}"
    return None if None in reasons else reasons[0]


def _is_broadcast(layout: _Layout, x: torch.Tensor, cos: torch.Tensor) -> bool:
    """Whether cos has all of x, or is one for all heads, or for all batches and heads."""
    missing = [dim for dim in range(4) if not same_size(cos.shape[dim], x.shape[dim])]
    one_head = same_size(cos.shape[layout.heads], 1)
    legal = {layout.heads, layout.batch} if one_head else set()
    return set(missing) <= legal and all(same_size(cos.shape[dim], 1) for dim in missing)


def _why_not_limits(layout: _Layout, x: torch.Tensor) -> str | None:
    if layout.name == "BNSD" and x.shape[-1] * x.element_size() % _ROW_BYTES:
        return f"a row of x is no multiple of {_ROW_BYTES} bytes"
    batches = why_not_at_most("the number of batches", x.shape[layout.batch], 999)
    return batches or why_not_at_most("the number of heads", x.shape[layout.heads], 999)


ROPE = implementation("RoPE", npu_rotary_mul, check, "npu_rotary_mul")
