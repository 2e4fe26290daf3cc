"""How the implementations of this target are declared, and which configurations want them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from xpu_graph.config import XpuGraphConfig
from xpu_graph.passes.patterns.structure.base import BUILT_IN_PRIORITY, Implementation
from xpu_graph.target import Target
from xpu_graph.torch_compat import has_fake_kernel

_INDUCTOR = "inductor"
_MAX_AUTOTUNE = "max-autotune"


def implementation(
    structure: str,
    function: Callable[..., Any],
    check: Callable[..., Any],
    operator: str | None = None,
    in_ge: bool = True,
) -> Implementation:
    """An implementation for this target.

    Args:
        structure: the name of the structure.
        function: of its operands.
        check: of its operands; why they do not fit, or None.
        operator: what of ``torch.ops.npu`` it calls.
        in_ge: whether torchair converts the operator for GE, which is mode ``max-autotune``.
    """

    def wanted(config: XpuGraphConfig) -> bool:
        engine = engine_of(config.vendor_compiler_config)
        # Inductor makes kernels of its own of these, and takes each operator as a wall.
        if engine == _INDUCTOR or (engine == _MAX_AUTOTUNE and not in_ge):
            return False
        return operator is None or is_there(operator)

    return Implementation(
        structure=structure,
        target=Target("npu"),
        function=function,
        check=check,
        priority=BUILT_IN_PRIORITY,
        takes_fused=operator is not None,  # torch's own operator needs nothing in its place
        label=function.__name__,
        wanted=wanted,
    )


def is_there(name: str) -> bool:
    """Whether the installed torch_npu has an operator, and says what it returns."""
    packet = getattr(torch.ops.npu, name, None)
    return packet is not None and has_fake_kernel(packet.default)


def engine_of(options: dict[str, Any] | None) -> str | None:
    """The mode of ``ge``, or the compiler; None for no vendor compiler."""
    if options is None:
        return None
    compiler: str = options.get("compiler", "ge")
    if compiler != "ge":
        return compiler
    mode: str = options.get("mode", _MAX_AUTOTUNE if "compiler" in options else "reduce-overhead")
    return mode
