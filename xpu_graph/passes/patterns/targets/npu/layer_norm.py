"""LayerNorm by torch's own operator, which torch_npu and torchair map to one kernel.

What is written as ``native_layer_norm`` stays as it is. The kernel takes float16, bfloat16 and
float32, weight and bias of x's dtype: where they have another one, it is computed in what holds
all.
"""

from __future__ import annotations

from typing import Any

from xpu_graph.fx import aten
from xpu_graph.passes.patterns.predicates import why_not_row
from xpu_graph.passes.patterns.targets.npu.constraints import why_not_dtype, why_not_here, wide_of
from xpu_graph.passes.patterns.targets.npu.made import implementation


def native_layer_norm(x: Any, weight: Any, bias: Any, eps: Any) -> Any:
    wide = wide_of(x, weight, bias)
    affine = [None if one is None else one.to(wide) for one in (weight, bias)]
    return aten.native_layer_norm.default(x.to(wide), x.shape[-1:], *affine, float(eps))[0]


def check(x: Any, weight: Any, bias: Any, eps: Any) -> str | None:
    reason = why_not_here(x, weight, bias) or why_not_dtype("x", x)
    for name, value in (("the weight", weight), ("the bias", bias)):
        if reason is None and value is not None:
            reason = why_not_dtype(name, value) or why_not_row(name, value, x)
    return reason


LAYER_NORM = implementation("LayerNorm", native_layer_norm, check)
