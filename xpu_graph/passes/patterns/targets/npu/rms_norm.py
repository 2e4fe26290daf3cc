"""RMSNorm by ``npu_rms_norm``.

Documented for float16, bfloat16 and float32 in 2 to 8 dimensions, with a gamma of x's dtype: where
the weight has another one, it is computed in what holds both.
"""

from __future__ import annotations

from typing import Any

import torch

from xpu_graph.passes.patterns.predicates import why_not_row
from xpu_graph.passes.patterns.targets.npu.constraints import (
    plain,
    why_not_dtype,
    why_not_here,
    why_not_rank,
    wide_of,
)
from xpu_graph.passes.patterns.targets.npu.made import implementation


def npu_rms_norm(x: Any, weight: Any, eps: Any) -> Any:
    wide = wide_of(x, weight)
    if weight is None:
        weight = torch.ones(x.shape[-1:], dtype=wide, device=x.device)
    operands = plain(x).to(wide), plain(weight).to(wide)
    return torch.ops.npu.npu_rms_norm(*operands, float(eps))[0]


def check(x: Any, weight: Any, eps: Any) -> str | None:
    reason = why_not_here(x, weight) or why_not_dtype("x", x) or why_not_rank("x", x, 2, 8)
    if reason is None and weight is not None:
        reason = why_not_dtype("the weight", weight) or why_not_row("the weight", weight, x)
    return reason


RMS_NORM = implementation("RMSNorm", npu_rms_norm, check, "npu_rms_norm")
