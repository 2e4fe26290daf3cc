"""SwiGLU by ``npu_swiglu``, which takes both halves in one tensor, the gate on the left.

Documented for float16, bfloat16 and float32 in 1 to 8 dimensions.

Used only where the halves are those of one tensor. Two tensors would have to be joined first: that
reads and writes both once more, and takes as many launches as ``silu`` and ``mul`` do.
"""

from __future__ import annotations

from typing import Any

import torch

from xpu_graph.passes.patterns.targets.npu.constraints import (
    is_left_half,
    why_not_dtype,
    why_not_here,
    why_not_rank,
)
from xpu_graph.passes.patterns.targets.npu.made import implementation


def npu_swiglu(gate: Any, up: Any) -> Any:
    return torch.ops.npu.npu_swiglu(torch.cat([gate, up], -1), -1)


def check(gate: Any, up: Any) -> str | None:
    reason = why_not_here(gate, up)
    reason = reason or why_not_dtype("the gate", gate) or why_not_rank("the gate", gate, 2, 8)
    if reason is None and not is_left_half(gate, up):
        reason = "gate and factor are not the left and the right half of one tensor"
    return reason


SWIGLU = implementation("SwiGLU", npu_swiglu, check, "npu_swiglu")
