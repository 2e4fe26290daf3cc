"""Target ``npu``: Ascend.

Options (``vendor_compiler_config``), all of them in ``docs/npu.md``:

    compiler    "ge" (default), "device_graph" or "inductor"
    mode        of "ge": "reduce-overhead" (aclgraph through torchair; the default where nothing is
                given), "max-autotune" (GE through torchair; the default of an explicit "ge") or
                "npugraph_ex" (aclgraph through npugraph_ex)

``npu_compile`` can be used alone, as ``fw_compiler`` of ``aot_module_simplified``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from xpu_graph.artifact import SerializableArtifact
from xpu_graph.backends import inductor
from xpu_graph.backends.device_graph import DeviceGraphOptions, device_graph_compiler
from xpu_graph.backends.npu import identity, vendor
from xpu_graph.backends.npu.artifact import NpuSerializableArtifact
from xpu_graph.backends.npu.ge import compile_with_ge, has_triton_kernel
from xpu_graph.backends.npu.option_checks import Plan, read_options
from xpu_graph.backends.npu.triton_ascend import inductor_compiler, why_not_triton
from xpu_graph.backends.npu.vendor import attach
from xpu_graph.backends.npu.vendor_surroundings import surroundings_of
from xpu_graph.backends.surroundings import Surroundings
from xpu_graph.errors import BackendError
from xpu_graph.fx import mark, marks, placeholders
from xpu_graph.torch_compat import static_inputs

__all__ = [
    "NpuSerializableArtifact",
    "attach",
    "check_options",
    "fingerprint",
    "ge_compiler",
    "has_triton_kernel",
    "inductor_compiler",
    "npu_compile",
    "surroundings",
    "why_not",
    "why_not_training",
]


def why_not(config: Mapping[str, Any] | None = None) -> str | None:
    """What is missing here, in one sentence."""
    reason = vendor.missing()
    if reason is None and read_options(config or {}).compiler == "inductor":
        reason = why_not_triton()
    return reason


def check_options(config: Mapping[str, Any]) -> None:
    """Check the options of the target; imports no vendor package.

    Raises:
        ConfigError: an option is unknown, has an illegal value, or does not go with another.
    """
    read_options(config)


def why_not_training(config: Mapping[str, Any]) -> str | None:
    """Why graphs that need gradients cannot be compiled: the vendor's graphs are for inference."""
    compiler = read_options(config).compiler
    if compiler == "inductor":
        return None
    return f"compiler {compiler!r} of Target.npu compiles inference graphs alone"


def fingerprint(config: Mapping[str, Any]) -> str | None:
    """Versions of the vendor's packages and of CANN, the device, and what the process set."""
    if vendor.missing() is not None:
        return None
    plan = read_options(config)
    found = identity.fingerprint(plan)
    if plan.compiler == "inductor":
        return f"{found} {inductor.fingerprint(plan.inductor)}"
    return found


def surroundings(config: Mapping[str, Any]) -> Surroundings:
    """What the vendor's own backend does around its compiler."""
    return surroundings_of(read_options(config))


def npu_compile(
    gm: fx.GraphModule,
    fake_inputs: Sequence[Any],
    *,
    is_inference: bool = True,
    is_backward: bool = False,
    **config: Any,
) -> SerializableArtifact:
    """Compile a graph whose tensors live on an NPU.

    Args:
        gm: an ATen graph.
        fake_inputs: its inputs as fake tensors and SymInts, in placeholder order.
        is_inference: whether the graph runs without gradients.
        is_backward: whether it computes gradients.
        config: the options of the target.

    Raises:
        ConfigError: an option is not legal.
        BackendUnavailable: a vendor package, CANN or a device is missing.
        BackendError: the graph is not for inference, or cannot be compiled.
    """
    plan = read_options(config)
    reason = None if is_inference and not is_backward else why_not_training(config)
    if reason is not None:
        raise BackendError(
            f"{reason}, and this graph needs gradients; call under torch.no_grad() or "
            "torch.inference_mode(), or choose compiler 'inductor'"
        )
    _mark_static_inputs(gm)
    if plan.compiler == "inductor":
        return inductor_compiler(gm, fake_inputs, **plan.inductor)
    if plan.compiler == "device_graph":
        return device_graph_compiler(
            gm,
            fake_inputs,
            device_type="npu",
            static_inputs=_static_positions(gm, plan),
            options=DeviceGraphOptions(**plan.compiler_options),
        )
    return compile_with_ge(gm, fake_inputs, plan)


def ge_compiler(
    gm: fx.GraphModule, fake_inputs: Sequence[Any], **config: Any
) -> NpuSerializableArtifact:
    """Compile an inference graph with compiler ``ge``.

    Args:
        gm: an ATen graph.
        fake_inputs: its inputs, in placeholder order.
        config: the options of the target, without ``compiler``; no mode is ``max-autotune``.

    Raises:
        ConfigError: an option is not legal.
        BackendError: the graph cannot be compiled.
    """
    _mark_static_inputs(gm)
    return compile_with_ge(gm, fake_inputs, read_options({**config, "compiler": "ge"}))


def _mark_static_inputs(gm: fx.GraphModule) -> None:
    """Find the parameters where nobody has: the caller is AOTAutograd itself."""
    if not any("static" in marks(node) for node in placeholders(gm.graph)):
        for node in static_inputs(gm.graph):
            mark(node, "static", "given")


def _static_positions(gm: fx.GraphModule, plan: Plan) -> list[int]:
    """Inputs whose memory stays; what the fold part makes moves when it is folded again."""
    frozen = plan.value("frozen_parameter")
    kinds = [marks(node).get("static") for node in placeholders(gm.graph)]
    return [i for i, kind in enumerate(kinds) if kind == "given" or (kind and not frozen)]
