"""SDPA by ``npu_fused_infer_attention_score``, the operator for inference that graphs may hold.

``npu_fusion_attention`` is documented for training alone and not for graphs, and its converter
for GE leaves the floating-point mask out; ``npu_prompt_flash_attention`` is on its way out. What
torch_npu makes of torch's own attention stays as it is: it is one kernel already.

Documented for float16 and bfloat16, contiguous operands, keys and values of one shape; up to 256
heads, 65536 batches, 512 places wide, or 128 where a row is no multiple of 32 bytes; 20971520
places, or 262144 for one query. A floating-point mask is ``pse_shift``, which is added after the
scores are scaled: of the query's dtype, written out for every head, and for every batch or for one.
Batches and places that are known at run time only are taken; where they go beyond, which scores of
that many places rarely fit into memory for, the vendor says so.
"""

from __future__ import annotations

from typing import Any

import torch

from xpu_graph.fx import same_size
from xpu_graph.passes.patterns.predicates import why_not_shape
from xpu_graph.passes.patterns.targets.npu.constraints import (
    HALVES,
    plain,
    why_not_at_most,
    why_not_dtype,
    why_not_here,
    why_not_rank,
    why_not_same_dtype,
)
from xpu_graph.passes.patterns.targets.npu.made import implementation

_ROW_BYTES = 32


def npu_fused_infer_attention_score(
    query: Any, key: Any, value: Any, mask: Any, scale: Any, is_causal: Any
) -> Any:
    has_heads = query.dim() == 4
    if not has_heads:
        query, key, value = (one.unsqueeze(1) for one in (query, key, value))
        mask = mask if mask is None or mask.dim() < 3 else mask.unsqueeze(1)
    batches, heads, queries, _ = query.shape
    if mask is not None:
        batches = 1 if mask.dim() < 4 or same_size(mask.shape[0], 1) else batches
        mask = plain(mask.expand(batches, heads, queries, key.shape[2]))
    result = torch.ops.npu.npu_fused_infer_attention_score(
        plain(query),
        plain(key),
        plain(value),
        pse_shift=mask,
        num_heads=heads,
        scale=float(scale),
        input_layout="BNSD",
    )[0]
    return result if has_heads else result.squeeze(1)


def check(query: Any, key: Any, value: Any, mask: Any, scale: Any, is_causal: Any) -> str | None:
    if is_causal:
        return "that later places are hidden is not said by a mask"
    reason = why_not_here(query, key, value, mask) or why_not_dtype("the query", query, HALVES)
    reason = reason or why_not_rank("the query", query, 3, 4)
    reason = reason or why_not_shape("the value", value, key.shape)
    reason = reason or why_not_shape("the query", query, _with_places(key, query.shape[-2]))
    reason = reason or _why_not_sizes(query, key)
    return reason if reason is not None or mask is None else _why_not_mask(query, key, mask)


def _with_places(key: torch.Tensor, places: Any) -> tuple[Any, ...]:
    return (*key.shape[:-2], places, key.shape[-1])


def _why_not_sizes(query: torch.Tensor, key: torch.Tensor) -> str | None:
    *_, queries, width = query.shape
    reason = why_not_at_most("the width of a head", width, 512)
    if reason is None and width * query.element_size() % _ROW_BYTES:
        reason = why_not_at_most(f"the width, no multiple of {_ROW_BYTES} bytes,", width, 128)
    if reason is None and query.dim() == 4:
        reason = why_not_at_most("the number of heads", query.shape[1], 256)
    most = 262144 if same_size(queries, 1) else 20971520
    limits = (
        ("the number of batches", query.shape[0], 65536),
        ("the number of queries", queries, most),
        ("the number of keys", key.shape[-2], most),
    )
    for name, size, limit in limits:
        if reason is None and isinstance(size, int):
            reason = why_not_at_most(name, size, limit)
    return reason


def _why_not_mask(query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor) -> str | None:
    reason = why_not_same_dtype("the mask", mask, query)
    reason = reason or why_not_rank("the mask", mask, 0, query.dim())
    if reason is not None:
        return reason
    scores = (*query.shape[:-1], key.shape[-2])
    for size, wanted in zip(reversed(mask.shape), reversed(scores), strict=False):
        if not (same_size(size, wanted) or same_size(size, 1)):
            return f"the mask is {tuple(mask.shape)}, which is not broadcast to {scores}"
    return None


SDPA = implementation(
    "SDPA", npu_fused_infer_attention_score, check, "npu_fused_infer_attention_score"
)
