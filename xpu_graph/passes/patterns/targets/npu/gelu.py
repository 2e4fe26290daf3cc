"""GELU by one operator: torch's own for the exact one, ``npu_gelu`` for the one with ``tanh``.

On an NPU torch's own operator leaves out which of the two is asked for, and computes the exact one;
``npu_gelu`` does not. Documented for float16, bfloat16 and float32.
"""

from __future__ import annotations

from typing import Any

import torch

from xpu_graph.fx import aten
from xpu_graph.passes.patterns.targets.npu.constraints import plain, why_not_dtype, why_not_here
from xpu_graph.passes.patterns.targets.npu.made import implementation


def npu_gelu(x: Any, approximate: Any) -> Any:
    if approximate == "none":
        return aten.gelu.default(x)
    return torch.ops.npu.npu_gelu(plain(x), approximate=approximate)


def check(x: Any, approximate: Any) -> str | None:
    return why_not_here(x) or why_not_dtype("x", x)


GELU = implementation("GELU", npu_gelu, check, "npu_gelu")
