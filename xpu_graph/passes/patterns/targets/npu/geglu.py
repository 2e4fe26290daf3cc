"""GEGLU by ``npu_geglu``, which takes both halves in one tensor, the gate on either side.

Documented for float16, bfloat16 and float32 in 1 to 8 dimensions. Used only where the halves are
those of one tensor, as for SwiGLU.
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


def npu_geglu(gate: Any, up: Any, approximate: Any) -> Any:
    is_left = gate.storage_offset() < up.storage_offset()
    whole = torch.cat([gate, up] if is_left else [up, gate], -1)
    kind = 1 if approximate == "tanh" else 0
    return torch.ops.npu.npu_geglu(whole, -1, kind, is_left)[0]


def check(gate: Any, up: Any, approximate: Any) -> str | None:
    reason = why_not_here(gate, up)
    reason = reason or why_not_dtype("the gate", gate) or why_not_rank("the gate", gate, 2, 8)
    if reason is None and not (is_left_half(gate, up) or is_left_half(up, gate)):
        reason = "gate and factor are not the halves of one tensor"
    return reason


GEGLU = implementation("GEGLU", npu_geglu, check, "npu_geglu")
