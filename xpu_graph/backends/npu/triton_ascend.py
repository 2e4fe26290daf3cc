"""Inductor for NPUs: torch_npu brings its code generator, triton-ascend compiles what it makes."""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Sequence
from typing import Any

from torch import fx

from xpu_graph.backends import check_devices, inductor
from xpu_graph.errors import BackendUnavailable
from xpu_graph.target import Target

KERNEL_COMPILER = "bishengir-compile"
"""The program of CANN that triton-ascend calls for every kernel."""


def why_not_triton() -> str | None:
    """What compiler ``inductor`` misses here, in one sentence; None if nothing."""
    try:
        importlib.metadata.version("triton-ascend")
    except importlib.metadata.PackageNotFoundError:
        return (
            "compiler 'inductor' of Target.npu needs the package triton-ascend, which is not "
            "installed here; compilers 'ge' and 'device_graph' do without it"
        )
    if shutil.which(KERNEL_COMPILER) is None:
        return (
            f"compiler 'inductor' of Target.npu needs the program {KERNEL_COMPILER}, which is not "
            "in PATH; it comes with the CANN toolkit, whose set_env.sh puts it there"
        )
    return None


def inductor_compiler(
    gm: fx.GraphModule, fake_inputs: Sequence[Any], **options: Any
) -> inductor.SerializableCompiledFxGraph:
    """Compile a graph with torch_npu's Inductor.

    Args:
        gm: an ATen graph.
        fake_inputs: its inputs, in placeholder order.
        options: ``mode``, and Inductor options by name.

    Raises:
        BackendUnavailable: triton-ascend or its kernel compiler is missing.
        BackendError: Inductor failed.
    """
    reason = why_not_triton()
    if reason is not None:
        raise BackendUnavailable(reason)
    check_devices(gm, Target.npu, "npu", "cpu")
    return inductor.inductor_compiler(gm, fake_inputs, **options)
