"""AddRMSNorm by ``npu_add_rms_norm``, which gives the normalised sum, a statistic and the sum.

Documented for float16, bfloat16 and float32, the addends and gamma of one shape and dtype, in up
to 8 dimensions. Whether the normalised sum was rounded before is the kernel's.
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
    why_not_same_dtype,
)
from xpu_graph.passes.patterns.targets.npu.made import implementation


def npu_add_rms_norm(x: Any, residual: Any, weight: Any, eps: Any) -> Any:
    operands = plain(x), plain(residual), plain(weight)
    normed, _, total = torch.ops.npu.npu_add_rms_norm(*operands, float(eps))
    return normed, total


def check(x: Any, residual: Any, weight: Any, eps: Any) -> str | None:
    reason = why_not_here(x, residual, weight)
    reason = reason or why_not_dtype("x", x) or why_not_rank("x", x, 2, 8)
    reason = reason or why_not_same_dtype("the weight", weight, x)
    return reason or why_not_row("the weight", weight, x)


ADD_RMS_NORM = implementation("AddRMSNorm", npu_add_rms_norm, check, "npu_add_rms_norm")
