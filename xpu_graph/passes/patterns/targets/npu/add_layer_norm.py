"""AddLayerNorm by ``npu_add_layer_norm``, which also gives two statistics and, if asked, the sum.

For float16, bfloat16 and float32, the addends, gamma and beta of one dtype, in up to 8 dimensions.
torchair has no converter for it: GE gets the sum and LayerNorm.
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


def npu_add_layer_norm(x: Any, residual: Any, weight: Any, bias: Any, eps: Any) -> Any:
    operands = plain(x), plain(residual), plain(weight), plain(bias)
    normed, _, _, total = torch.ops.npu.npu_add_layer_norm(*operands, float(eps), True)
    return normed, total


def check(x: Any, residual: Any, weight: Any, bias: Any, eps: Any) -> str | None:
    if weight is None or bias is None:
        return "it has no weight or no bias"
    reason = why_not_here(x, residual, weight, bias)
    reason = reason or why_not_dtype("x", x) or why_not_rank("x", x, 2, 8)
    for name, value in (("the weight", weight), ("the bias", bias)):
        reason = reason or why_not_same_dtype(name, value, x) or why_not_row(name, value, x)
    return reason


ADD_LAYER_NORM = implementation(
    "AddLayerNorm", npu_add_layer_norm, check, "npu_add_layer_norm", in_ge=False
)
