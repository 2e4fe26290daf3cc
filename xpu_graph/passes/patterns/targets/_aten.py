"""Structures as torch's own fused operators, for what runs on the CPU.

Which of them pay, and with which compiler, ``benchmarks/patterns.py`` measures and docs/patterns.md
tells. What loses is not wanted there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from xpu_graph.config import XpuGraphConfig
from xpu_graph.fx import aten
from xpu_graph.passes.patterns.predicates import why_not_row
from xpu_graph.passes.patterns.structure.base import BUILT_IN_PRIORITY, Implementation
from xpu_graph.target import Target

_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _layer_norm(x: Any, weight: Any, bias: Any, eps: Any) -> Any:
    return aten.native_layer_norm.default(x, [x.shape[-1]], weight, bias, eps)[0]


def _why_not_layer_norm(x: Any, weight: Any, bias: Any, eps: Any) -> str | None:
    for name, row in (("the weight", weight), ("the bias", bias)):
        reason = why_not_row(name, row, x)
        if reason is not None:
            return reason
        if row is not None and row.dtype != x.dtype:
            return f"{name} is {row.dtype}, x {x.dtype}"
    return _why_not_floats(x)


def _gelu(x: Any, approximate: Any) -> Any:
    return aten.gelu.default(x, approximate=approximate)


def _why_not_gelu(x: Any, approximate: Any) -> str | None:
    if approximate != "tanh":  # torch 2.13's vectorised kernel
        return "torch's kernel gives NaN for infinity"
    return _why_not_floats(x)


def _attention(query: Any, key: Any, value: Any, mask: Any, scale: Any, is_causal: Any) -> Any:
    if query.dim() == 3:
        query, key, value = (one.unsqueeze(0) for one in (query, key, value))
        mask = mask if mask is None or mask.dim() < 3 else mask.unsqueeze(0)
        return _attention(query, key, value, mask, scale, is_causal).squeeze(0)
    return aten._scaled_dot_product_flash_attention_for_cpu.default(
        query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale
    )[0]


def _why_not_attention(
    query: Any, key: Any, value: Any, mask: Any, scale: Any, is_causal: Any
) -> str | None:
    """What the kernel asks for, and what torch asks before it chooses the kernel."""
    if query.dim() not in (3, 4):
        return f"the query has {query.dim()} dimensions"
    if query.shape[-1] != value.shape[-1]:
        return "the heads of query and value are of different sizes"
    if any(one.stride(-1) != 1 for one in (query, key, value)):
        return "the last dimension is not contiguous"
    sizes = (*query.shape, *key.shape)
    if any(isinstance(size, int) and size == 0 for size in sizes):
        return "there is nothing to attend to"
    if mask is not None and mask.dim() not in (2, query.dim()):
        return f"the mask has {mask.dim()} dimensions"
    if mask is not None and mask.dtype != query.dtype:
        return f"the mask is {mask.dtype}"
    return _why_not_floats(query)


def _why_not_floats(x: Any) -> str | None:
    if x.device.type != "cpu":
        return f"it runs on {x.device.type}"
    return None if x.dtype in _FLOATS else f"x is {x.dtype}"


_LAYER_NORM_ELEMENTS = 6144
_ATTENTION_SCORES = 64 * 64
"""From here on they gain with Inductor, which fuses what is smaller as well or better."""


def _why_not_large_layer_norm(x: Any, weight: Any, bias: Any, eps: Any) -> str | None:
    return _why_not_large(x.shape, _LAYER_NORM_ELEMENTS) or _why_not_layer_norm(
        x, weight, bias, eps
    )


def _why_not_large_attention(
    query: Any, key: Any, value: Any, mask: Any, scale: Any, is_causal: Any
) -> str | None:
    scores = (query.shape[-2], key.shape[-2])
    return _why_not_large(scores, _ATTENTION_SCORES) or _why_not_attention(
        query, key, value, mask, scale, is_causal
    )


def _why_not_large(shape: Sequence[Any], least: int) -> str | None:
    """Whether something has as many elements, where that is known."""
    if all(isinstance(size, int) for size in shape) and math.prod(shape) < least:
        return f"below {least} elements it does not pay"
    return None


def _without_vendor(config: XpuGraphConfig) -> bool:
    return config.vendor_compiler_config is None


def _with_vendor(config: XpuGraphConfig) -> bool:
    return config.vendor_compiler_config is not None


def implementations(target: Target) -> tuple[Implementation, ...]:
    """What serves a target whose tensors are on the CPU."""

    def made(
        structure: str,
        function: Callable[..., Any],
        check: Callable[..., Any],
        wanted: Callable[[XpuGraphConfig], bool],
        label: str = "aten",
    ) -> Implementation:
        return Implementation(
            structure,
            target,
            function,
            check,
            BUILT_IN_PRIORITY,
            takes_fused=False,
            label=label,
            wanted=wanted,
        )

    large = "aten_large"
    return (
        made("GELU", _gelu, _why_not_gelu, _without_vendor),
        made("LayerNorm", _layer_norm, _why_not_layer_norm, _without_vendor),
        made("LayerNorm", _layer_norm, _why_not_large_layer_norm, _with_vendor, large),
        made("SDPA", _attention, _why_not_attention, _without_vendor),
        made("SDPA", _attention, _why_not_large_attention, _with_vendor, large),
    )
