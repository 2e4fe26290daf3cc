"""Operators of the vendor that reach an aclnn function, each with what it must compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from aclnn_cases.maker import FLOATS, Maker

HALVES = ("float16", "bfloat16")
WHOLE = 2147483647


@dataclasses.dataclass(frozen=True)
class VendorCase:
    """One call of an operator of the vendor.

    Args:
        call: calls it, with inputs on the NPU.
        expected: what it must give, with the inputs on the CPU; a tuple gives the first results.
        inputs: makes them, of a :class:`~aclnn_cases.Maker`.
        dtypes: names of the data types it is called with.
    """

    call: Callable[..., Any]
    expected: Callable[..., Any]
    inputs: Callable[[Maker], tuple[Any, ...]]
    dtypes: tuple[str, ...] = FLOATS


def npu(name: str) -> Callable[..., Any]:
    return getattr(torch.ops.npu, name)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-6) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight.float()).to(
        x.dtype
    )


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.float().chunk(2, -1)
    turned = torch.cat([-right, left], -1)
    return (x.float() * cos.float() + turned * sin.float()).to(x.dtype)


def rotate_neighbours(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    even, odd = x.float()[..., ::2], x.float()[..., 1::2]
    turned = torch.stack([-odd, even], -1).flatten(-2)
    return (x.float() * cos.float() + turned * sin.float()).to(x.dtype)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, hidden: Any = None
) -> torch.Tensor:
    """Attention of [batch, heads, tokens, width]; key heads may be fewer."""
    repeats = q.shape[1] // k.shape[1]
    k, v = (x.float().repeat_interleave(repeats, 1) for x in (k, v))
    scores = q.float() @ k.transpose(-1, -2) * 0.5
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    return (scores.softmax(-1) @ v).to(q.dtype)


def causal(queries: int, keys: int) -> torch.Tensor:
    return torch.ones(queries, keys, dtype=torch.bool).triu(1 + keys - queries)


def qkv(m: Maker, heads: int = 2, key_heads: int = 2, queries: int = 5, keys: int = 6) -> Any:
    return m(2, heads, queries, 8), m(2, key_heads, keys, 8), m(2, key_heads, keys, 8)


def flat(x: torch.Tensor) -> torch.Tensor:
    """[batch, heads, tokens, width] as [batch, tokens, heads * width]."""
    return x.transpose(1, 2).flatten(2)


def infer(q: Any, k: Any, v: Any, **more: Any) -> Any:
    more = {"num_heads": 2, "scale": 0.5, "input_layout": "BNSD", **more}
    return torch.ops.npu.npu_fused_infer_attention_score(q, k, v, **more)[0]


def infer_v2(q: Any, k: Any, v: Any, **more: Any) -> Any:
    more = {"num_query_heads": 2, "softmax_scale": 0.5, "input_layout": "BNSD", **more}
    return torch.ops.npu.npu_fused_infer_attention_score_v2(q, k, v, **more)[0]


def by_length(q: Any, k: Any, v: Any) -> torch.Tensor:
    """The second sequence has four keys."""
    hidden = torch.arange(k.shape[2]) >= torch.tensor([k.shape[2], 4]).reshape(2, 1, 1, 1)
    return attention(q, k, v, hidden)


def packed(q: Any, k: Any, v: Any) -> torch.Tensor:
    """Sequences of two and three tokens, [tokens, heads, width], causal."""
    parts = []
    for rows in (slice(0, 2), slice(2, 5)):
        one = [x[rows].transpose(0, 1).unsqueeze(0) for x in (q, k, v)]
        count = rows.stop - rows.start
        parts.append(attention(*one, causal(count, count))[0].transpose(0, 1))
    return torch.cat(parts)


def paged(q: Any, k: Any, v: Any, table: torch.Tensor) -> torch.Tensor:
    """Keys of the sequences are five and three long, in blocks of four."""
    rows = []
    for batch, length in enumerate((5, 3)):
        one = [x[table[batch]].flatten(0, 1)[:length].unflatten(1, (2, 8)) for x in (k, v)]
        one = [x.transpose(0, 1).unsqueeze(0) for x in one]
        rows.append(
            flat(attention(q[batch : batch + 1].unflatten(2, (2, 8)).transpose(1, 2), *one))
        )
    return torch.cat(rows)


VENDOR_CASES = {
    "npu_rms_norm": VendorCase(npu("npu_rms_norm"), rms_norm, lambda m: (m(2, 3, 8), m(8))),
    "npu_gemma_rms_norm": VendorCase(
        npu("npu_gemma_rms_norm"),
        lambda x, w: rms_norm(x, w.float() + 1),
        lambda m: (m(3, 8), m(8)),
    ),
    "npu_add_rms_norm": VendorCase(
        npu("npu_add_rms_norm"),
        lambda x, y, w: rms_norm(x + y, w),
        lambda m: (m(3, 8), m(3, 8), m(8)),
    ),
    "npu_add_rms_norm_v2": VendorCase(
        lambda x, y, w: (torch.ops.npu.npu_add_rms_norm_v2(x, y, w), x, y)[1:],
        lambda x, y, w: (rms_norm(x + y, w), x + y),
        lambda m: (m(3, 8), m(3, 8), m(8)),
    ),
    "npu_add_layer_norm": VendorCase(
        npu("npu_add_layer_norm"),
        lambda x, y, w, b: F.layer_norm((x.float() + y.float()), (8,), w.float(), b.float()).to(
            x.dtype
        ),
        lambda m: (m(3, 8), m(3, 8), m(8), m(8)),
    ),
    "npu_group_norm_silu": VendorCase(
        lambda x, w, b: torch.ops.npu.npu_group_norm_silu(x, w, b, 2),
        lambda x, w, b: F.silu(F.group_norm(x.float(), 2, w.float(), b.float())).to(x.dtype),
        lambda m: (m(2, 4, 3, 3), m(4), m(4)),
    ),
    "npu_swiglu": VendorCase(
        npu("npu_swiglu"),
        lambda x: (F.silu(x.float()[..., :4]) * x.float()[..., 4:]).to(x.dtype),
        lambda m: (m(3, 8),),
    ),
    "npu_fast_gelu": VendorCase(
        npu("npu_fast_gelu"), lambda x: x * torch.sigmoid(1.702 * x), lambda m: (m(3, 8),)
    ),
    "npu_gelu tanh": VendorCase(
        lambda x: torch.ops.npu.npu_gelu(x, approximate="tanh"),
        lambda x: F.gelu(x, approximate="tanh"),
        lambda m: (m(3, 8),),
    ),
    "npu_gelu_mul": VendorCase(
        npu("npu_gelu_mul"), lambda x: F.gelu(x[:, :4]) * x[:, 4:], lambda m: (m(3, 8),)
    ),
    "npu_rotary_mul": VendorCase(
        npu("npu_rotary_mul"), rotate, lambda m: (m(2, 3, 2, 8), m(1, 3, 1, 8), m(1, 3, 1, 8))
    ),
    "npu_rotary_mul interleave": VendorCase(
        lambda x, c, s: torch.ops.npu.npu_rotary_mul(x, c, s, "interleave"),
        rotate_neighbours,
        lambda m: (m(2, 3, 2, 8), m(1, 3, 1, 8), m(1, 3, 1, 8)),
    ),
    "npu_apply_rotary_pos_emb": VendorCase(
        npu("npu_apply_rotary_pos_emb"),
        lambda q, k, c, s: (rotate(q, c, s), rotate(k, c, s)),
        lambda m: (m(2, 3, 2, 8), m(2, 3, 1, 8), m(2, 3, 1, 8), m(2, 3, 1, 8)),
    ),
    "npu_scatter_nd_update": VendorCase(
        npu("npu_scatter_nd_update"),
        lambda x, i, u: x.index_put((i[:, 0],), u),
        lambda m: (m(5, 4), m.places(5, 3).unsqueeze(1), m(3, 4)),
    ),
    "npu_scatter_nd_update_": VendorCase(
        npu("npu_scatter_nd_update_"),
        lambda x, i, u: x.index_put((i[:, 0], i[:, 1]), u),
        lambda m: (m(5, 3, 4), torch.stack([m.places(5, 3), m.places(3, 3)], 1), m(3, 4)),
    ),
    "scatter_update_": VendorCase(
        lambda x, i, u: torch.ops.npu.scatter_update_(x, i, u, -2),
        lambda x, i, u: torch.stack([x[b].index_copy(1, i[b : b + 1], u[b]) for b in range(2)]),
        lambda m: (m(2, 2, 5, 4), torch.tensor([1, 3]), m(2, 2, 1, 4)),
    ),
    "npu_dtype_cast": VendorCase(
        lambda x: torch.ops.npu.npu_dtype_cast(x, torch.float16),
        lambda x: x.half(),
        lambda m: (m(3),),
    ),
    "npu_linear": VendorCase(
        npu("npu_linear"), F.linear, lambda m: (m(3, 4), m(5, 4), m(5)), ("float32", "float16")
    ),
    # --- attention
    "npu_fusion_attention": VendorCase(
        lambda q, k, v: torch.ops.npu.npu_fusion_attention(q, k, v, 2, "BNSD", scale=0.5),
        attention,
        qkv,
    ),
    "npu_fusion_attention BSH": VendorCase(
        lambda q, k, v: torch.ops.npu.npu_fusion_attention(
            flat(q), flat(k), flat(v), 4, "BSH", scale=0.5
        ),
        lambda q, k, v: flat(attention(q, k, v)),
        lambda m: qkv(m, 4, 2),
    ),
    "npu_fusion_attention SBH": VendorCase(
        lambda *x: torch.ops.npu.npu_fusion_attention(
            *(flat(y).transpose(0, 1).contiguous() for y in x), 2, "SBH", scale=0.5
        ),
        lambda q, k, v: flat(attention(q, k, v)).transpose(0, 1),
        qkv,
    ),
    "npu_fusion_attention mask": VendorCase(
        lambda q, k, v, h: torch.ops.npu.npu_fusion_attention(
            q, k, v, 2, "BNSD", scale=0.5, atten_mask=h
        ),
        attention,
        lambda m: (*qkv(m), causal(5, 6)),
    ),
    "npu_fusion_attention causal": VendorCase(
        lambda q, k, v: torch.ops.npu.npu_fusion_attention(
            q,
            k,
            v,
            2,
            "BNSD",
            scale=0.5,
            sparse_mode=3,
            atten_mask=torch.ones(2048, 2048, dtype=torch.bool, device=q.device).triu(1),
        ),
        lambda q, k, v: attention(q, k, v, causal(5, 6)),
        qkv,
    ),
    "npu_fusion_attention sink": VendorCase(
        lambda q, k, v: torch.ops.npu.npu_fusion_attention(
            q, k, v, 2, "BNSD", scale=0.5, sink=torch.full((2,), -1e9, device=q.device)
        ),
        attention,
        qkv,
    ),
    "npu_fusion_attention packed": VendorCase(
        lambda q, k, v: torch.ops.npu.npu_fusion_attention(
            q,
            k,
            v,
            2,
            "TND",
            scale=0.5,
            sparse_mode=3,
            actual_seq_qlen=[2, 5],
            actual_seq_kvlen=[2, 5],
            atten_mask=torch.ones(2048, 2048, dtype=torch.bool, device=q.device).triu(1),
        ),
        packed,
        lambda m: (m(5, 2, 8), m(5, 2, 8), m(5, 2, 8)),
        HALVES,
    ),
    "npu_fusion_attention_v2": VendorCase(
        lambda q, k, v: torch.ops.npu.npu_fusion_attention_v2(q, k, v, 2, "BNSD", scale=0.5),
        attention,
        qkv,
    ),
    "fused_infer": VendorCase(infer, attention, qkv, HALVES),
    "fused_infer BSH": VendorCase(
        lambda q, k, v: infer(
            flat(q), flat(k), flat(v), num_heads=4, num_key_value_heads=2, input_layout="BSH"
        ),
        lambda q, k, v: flat(attention(q, k, v)),
        lambda m: qkv(m, 4, 2),
        HALVES,
    ),
    "fused_infer out layout": VendorCase(
        lambda q, k, v: infer(q, k, v, input_layout="BNSD_BSND"),
        lambda q, k, v: attention(q, k, v).transpose(1, 2),
        qkv,
        HALVES,
    ),
    "fused_infer mask": VendorCase(
        lambda q, k, v, h: infer(q, k, v, atten_mask=h),
        attention,
        lambda m: (*qkv(m), causal(5, 6).expand(2, 1, 5, 6).contiguous()),
        HALVES,
    ),
    "fused_infer causal": VendorCase(
        lambda q, k, v: infer(
            q,
            k,
            v,
            sparse_mode=3,
            atten_mask=torch.ones(2048, 2048, dtype=torch.bool, device=q.device).triu(1),
        ),
        lambda q, k, v: attention(q, k, v, causal(5, 6)),
        qkv,
        HALVES,
    ),
    "fused_infer decode": VendorCase(
        lambda q, k, v: infer(q, k, v, actual_seq_lengths_kv=[6, 4]),
        by_length,
        lambda m: qkv(m, queries=1),
        HALVES,
    ),
    "fused_infer packed": VendorCase(
        lambda q, k, v: infer(
            q,
            k,
            v,
            input_layout="TND",
            sparse_mode=3,
            actual_seq_lengths=[2, 5],
            actual_seq_lengths_kv=[2, 5],
            atten_mask=torch.ones(2048, 2048, dtype=torch.bool, device=q.device).triu(1),
        ),
        packed,
        lambda m: (m(5, 2, 8), m(5, 2, 8), m(5, 2, 8)),
        HALVES,
    ),
    "fused_infer paged": VendorCase(
        lambda q, k, v, t: infer(
            q,
            k,
            v,
            input_layout="BSH",
            block_table=t.int(),
            block_size=4,
            actual_seq_lengths_kv=[5, 3],
            num_key_value_heads=2,
        ),
        paged,
        lambda m: (m(2, 1, 16), m(6, 4, 16), m(6, 4, 16), torch.tensor([[4, 1], [2, 0]])),
        HALVES,
    ),
    "fused_infer_v2": VendorCase(infer_v2, attention, qkv, HALVES),
    "fused_infer_v2 decode": VendorCase(
        lambda q, k, v: infer_v2(q, k, v, actual_seq_kvlen=[6, 4]),
        by_length,
        lambda m: qkv(m, queries=1),
        HALVES,
    ),
}
