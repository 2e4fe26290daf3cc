"""GELU by ``npu_gelu``, exactly and with ``tanh``.

Used in place of torch's own operator, too: torch_npu's kernel for that one, and torchair's
converter, are not told which of the two is asked for. For float16, bfloat16 and float32.
"""

from __future__ import annotations

from typing import Any

import torch

from xpu_graph.passes.patterns.targets.npu.constraints import plain, why_not_dtype, why_not_here
from xpu_graph.passes.patterns.targets.npu.made import implementation


def npu_gelu(x: Any, approximate: Any) -> Any:
    return torch.ops.npu.npu_gelu(plain(x), approximate=approximate)


def check(x: Any, approximate: Any) -> str | None:
    return why_not_here(x) or why_not_dtype("x", x)


GELU = implementation("GELU", npu_gelu, check, "npu_gelu")
