"""SwiGLU and GEGLU: one half of a projection, activated, gates the other.

    silu(gate) * up    ->    SwiGLU(gate, up)
    gelu(gate) * up    ->    GEGLU(gate, up, approximate)

SiLU is found as ``silu``, as ``x * sigmoid(x)`` and as ``x / (1 + exp(-x))``. Left alone: halves of
different shapes or dtypes, which would broadcast.
"""

from __future__ import annotations

from typing import Any

import torch

from xpu_graph.fx import aten
from xpu_graph.passes.patterns.forms import cast, either
from xpu_graph.passes.patterns.predicates import why_not_floating, why_not_shape
from xpu_graph.passes.patterns.structure.base import Form, Structure


def reference(gate: Any, up: Any) -> Any:
    """Gated linear unit with SiLU, https://arxiv.org/abs/2002.05202.

    Args:
        gate: floating point.
        up: the same shape and dtype.
    """
    return gate * torch.sigmoid(gate) * up


def gelu_reference(gate: Any, up: Any, approximate: Any) -> Any:
    """Gated linear unit with GELU, https://arxiv.org/abs/2002.05202.

    Args:
        gate: floating point.
        up: the same shape and dtype.
        approximate: as for GELU.
    """
    return torch.nn.functional.gelu(gate, approximate=approximate) * up


def swiglu(gate: Any, up: Any) -> Any:
    wide = cast(gate)
    silu = either(
        aten.silu.default(wide),
        aten.mul.Tensor(wide, aten.sigmoid.default(wide)),
        aten.div.Tensor(wide, aten.add.Tensor(aten.exp.default(aten.neg.default(wide)), 1)),
    )
    return aten.mul.Tensor(cast(silu), up)


def geglu(gate: Any, up: Any, approximate: Any) -> Any:
    return aten.mul.Tensor(aten.gelu.default(gate, approximate=approximate), up)


def why_not(gate: Any, up: Any) -> str | None:
    reason = why_not_floating("the gate", gate) or why_not_floating("the other half", up)
    if reason is None and gate.dtype != up.dtype:
        return f"the halves are {gate.dtype} and {up.dtype}"
    return reason or why_not_shape("the gate", gate, up.shape)


def why_not_gelu(gate: Any, up: Any, approximate: Any) -> str | None:
    return why_not(gate, up)


def examples() -> tuple[Any, ...]:
    return torch.randn(3, 8), torch.randn(3, 8)


def gelu_examples() -> tuple[Any, ...]:
    return *examples(), "tanh"


SWIGLU = Structure(
    "SwiGLU", reference, examples, (Form(swiglu),), conditions=(why_not,), benefit=15
)
GEGLU = Structure(
    "GEGLU",
    gelu_reference,
    gelu_examples,
    (Form(geglu),),
    conditions=(why_not_gelu,),
    benefit=15,
)
