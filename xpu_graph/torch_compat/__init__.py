"""Every private torch name the project needs; nothing else imports them. Inductor's are beside.

Each entry says what it is for. A torch release that moves one is answered here and nowhere else.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from functorch.compile import default_partition, min_cut_rematerialization_partition
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import RestartAnalysis, SkipFrame
from torch._guards import TracingContext, detect_fake_mode
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
    in_kernel_invocation_manager,
)
from torch._subclasses.fake_tensor import disable_fake_tensor_cache as uncached
from torch.fx.graph import _BoxedCodeGen
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from xpu_graph.torch_compat.guards import (
    NeedsGuard,
    free_unbacked_symbols,
    refused_guards,
    statically_known_true,
    suppressed_guards,
)
from xpu_graph.torch_compat.modes import (
    custom_operators_unchecked,
    fake_tracing,
    functionalized,
    no_dispatch_modes,
)
from xpu_graph.torch_compat.predispatch import (
    Trace,
    another,
    copy_dynamo_metadata,
    fake_inputs,
    pre_dispatch,
    trace_before_autograd,
    traced_on_fakes,
)
from xpu_graph.torch_compat.replay import (
    CHECKPOINT,
    NotLowered,
    enter_autocast,
    exit_autocast,
    set_grad_enabled,
)
from xpu_graph.torch_compat.shapes import (
    evaluate_shape_guards,
    guard_count,
    shape_facts,
    shape_guards,
    symbol_ranges,
)

__all__ = [
    "CHECKPOINT",
    "DYNAMO_CONTROL_FLOW",
    "FakeTensor",
    "FakeTensorMode",
    "NeedsGuard",
    "NotLowered",
    "Trace",
    "add_tensor_metadata",
    "another",
    "aot_autograd",
    "boxed_forward",
    "call_factory",
    "call_view",
    "copy_dynamo_metadata",
    "custom_operators_unchecked",
    "debug_directory",
    "default_partition",
    "detect_fake_mode",
    "enter_autocast",
    "evaluate_shape_guards",
    "exit_autocast",
    "fake_inputs",
    "fake_tracing",
    "fake_view",
    "foreach_copy",
    "forget_fake_results",
    "free_unbacked_symbols",
    "functionalized",
    "guard_count",
    "has_fake_kernel",
    "has_symbolic_sizes",
    "input_name",
    "input_origin",
    "is_gathered",
    "is_static_input",
    "is_traceable_wrapper_subclass",
    "may_be_a_copy",
    "min_cut_rematerialization_partition",
    "mutated_outside",
    "neg_view",
    "no_dispatch_modes",
    "opaque_kind",
    "pre_dispatch",
    "refused_guards",
    "set_grad_enabled",
    "shape_facts",
    "shape_guards",
    "static_inputs",
    "statically_known_true",
    "storage_has_expired",
    "storage_id",
    "suppressed_guards",
    "symbol_ranges",
    "torch_decompositions",
    "trace_artifact",
    "trace_before_autograd",
    "traced_on_fakes",
    "uncached",
]


def storage_id(tensor: torch.Tensor) -> int | None:
    """A number for the storage of a tensor, equal for two that share one.

    None for a tensor without a storage of the usual kind (sparse, opaque).
    """
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


storage_has_expired: Callable[..., Any] = torch.UntypedStorage._expired
"""Whether the storage of a ``StorageWeakRef``, given by its ``cdata``, is gone."""


neg_view: Callable[[torch.Tensor], torch.Tensor] = torch._neg_view
"""A view with the lazy negative bit flipped."""


foreach_copy: Callable[[list[torch.Tensor], list[torch.Tensor]], None] = torch._foreach_copy_
"""Copy each tensor of the second list into the one at its place in the first, at one go."""


def fake_view(base: FakeTensor, like: FakeTensor, mode: FakeTensorMode) -> FakeTensor:
    """A fake tensor of the geometry of ``like`` in the memory of ``base``, made without dispatch.

    Both have one dtype and device, and static sizes.
    """
    with torch.no_grad(), in_kernel_invocation_manager(mode):
        meta = torch.as_strided(base, like.shape, like.stride(), like.storage_offset())
    return FakeTensor(mode, meta, like.device)


def call_view(
    view: torch._ops.OpOverload, base: FakeTensor, args: Sequence[Any], mode: FakeTensorMode
) -> FakeTensor:
    """A view operator of torch's own on a fake tensor of static sizes, made without dispatch.

    Raises:
        RuntimeError, IndexError, TypeError: the operator does not take these arguments.
    """
    with torch.no_grad(), in_kernel_invocation_manager(mode):
        meta = view(base, *args)
    return FakeTensor(mode, meta, base.device)


def call_factory(
    factory: torch._ops.OpOverload,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    mode: FakeTensorMode,
) -> FakeTensor:
    """A fake tensor that an operator of no tensor argument makes, made without dispatch.

    ``kwargs`` names the device.
    """
    with torch.no_grad(), in_kernel_invocation_manager(mode):
        meta = factory(*args, **{**kwargs, "device": torch.device("meta")})
    return FakeTensor(mode, meta, kwargs["device"])


def fake_like(value: FakeTensor, mode: FakeTensorMode) -> FakeTensor:
    """A fake tensor of the geometry of another in memory of its own, made without dispatch."""
    with torch.no_grad(), in_kernel_invocation_manager(mode):
        meta = torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device=torch.device("meta")
        )
    return FakeTensor(mode, meta, value.device)


def fake_contiguous(value: FakeTensor, mode: FakeTensorMode) -> FakeTensor:
    """A contiguous fake tensor of the shape of another, made without dispatch."""
    with torch.no_grad(), in_kernel_invocation_manager(mode):
        meta = torch.empty(value.shape, dtype=value.dtype, device=torch.device("meta"))
    return FakeTensor(mode, meta, value.device)


def has_symbolic_sizes(tensor: torch.Tensor) -> bool:
    """Whether a size, stride or offset of the tensor is symbolic."""
    return tensor._has_symbolic_sizes_strides


def may_be_a_copy(operator: torch._ops.OpOverload) -> bool:
    """Whether a view operator is one made of others, such as ``reshape``, that copies at need."""
    return bool(operator._can_decompose())


DYNAMO_CONTROL_FLOW: tuple[type[Exception], ...] = (RestartAnalysis, SkipFrame)
"""What Dynamo raises to itself, through a backend that runs it again: no errors, let them pass."""


def has_fake_kernel(operator: torch._ops.OpOverload) -> bool:
    """Whether an operator can say what it returns for fake tensors."""
    keys = ("Meta", "CompositeExplicitAutograd", "CompositeImplicitAutograd")
    name = operator.name()  # type: ignore[no-untyped-call]
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)


def boxed_forward(gm: fx.GraphModule) -> Callable[[list[Any]], Any]:
    """The graph as a function of one list, which it empties, so that inputs are freed early."""
    gm.graph.set_codegen(_BoxedCodeGen())
    gm.recompile()
    return gm.forward


# --- what dispatch has to know of a graph that Dynamo and AOTAutograd made ------------------------


def is_static_input(placeholder: fx.Node) -> bool:
    """Whether Dynamo lifted this placeholder from a parameter, a buffer or a module attribute."""
    return "_dynamo_static_input_type" in placeholder.meta.get("tensor_dict", {})


def input_origin(placeholder: fx.Node) -> int | None:
    """Which input of the Dynamo graph an AOT placeholder stands for; None if for none of them."""
    origin = placeholder.meta.get("desc")
    index = getattr(origin, "idx", None)
    return index if type(origin).__name__ == "PlainAOTInput" else None


def input_name(placeholder: fx.Node) -> str | None:
    """The name of the user's variable that a placeholder of Dynamo's graph stands for."""
    source = getattr(placeholder.meta.get("grapharg"), "source", None)
    return getattr(source, "local_name", None)


def is_gathered(placeholder: fx.Node) -> bool:
    """Whether FSDP gathers this parameter of Dynamo's graph, always into one and the same object.

    Neither the object, nor its version, nor always its address says that it holds something new.
    """
    source = getattr(placeholder.meta.get("grapharg"), "source", None)
    return source is not None and bool(source.guard_source.is_fsdp_module())


def opaque_kind(value: Any) -> str | None:
    """The class of an object that a graph only hands on, such as a mesh; None for other values."""
    from torch._library.fake_class_registry import FakeScriptObject

    return value.script_class_name if isinstance(value, FakeScriptObject) else None


def torch_decompositions(operators: Iterable[Any]) -> dict[Any, Callable[..., Any]]:
    """Torch's own decompositions of those operators that it has one for."""
    from torch._decomp import decomposition_table

    return {
        operator: decomposition_table[operator]
        for operator in operators
        if operator in decomposition_table
    }


def forget_fake_results() -> None:
    """Empty torch's cache of fake results: an operator's fake implementation was replaced."""
    FakeTensorMode.cache_clear()


def add_tensor_metadata(gm: fx.GraphModule) -> None:
    """Give every tensor node the ``tensor_meta`` that shape propagation would."""
    from torch.fx.passes.shape_prop import _extract_tensor_metadata

    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and "tensor_meta" not in node.meta:
            node.meta["tensor_meta"] = _extract_tensor_metadata(value)


def static_inputs(graph: fx.Graph) -> set[fx.Node]:
    """The placeholders of an AOT graph whose memory stays where it is from call to call.

    Parameters, buffers, and what ``torch._dynamo.mark_static_address`` marked.
    """
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return set()
    nodes = _listed_placeholders(graph)
    return {nodes[i] for i in metadata.static_input_indices or () if i < len(nodes)}


def _listed_placeholders(graph: fx.Graph) -> list[fx.Node]:
    """The placeholders that AOTAutograd's lists speak of: effect tokens are not in them."""
    return [
        node
        for node in graph.find_nodes(op="placeholder")
        if "Token" not in type(node.meta.get("desc")).__name__
    ]


def mutated_outside(graph: fx.Graph) -> set[fx.Node]:
    """The placeholders of an AOT graph that the runtime around it mutates.

    All of them, where one is mutated and AOTAutograd's list does not match the placeholders.
    """
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return set()
    mutated = [
        info.mutates_data or info.mutates_metadata or info.mutates_storage_metadata
        for info in metadata.input_info
    ]
    nodes = _listed_placeholders(graph)
    if len(nodes) != len(mutated):
        return set(nodes) if any(mutated) else set()
    return {node for node, is_mutated in zip(nodes, mutated, strict=True) if is_mutated}


# --- where torch's own tools look -----------------------------------------------------------------


def trace_artifact(name: str, payload: Callable[[], str]) -> None:
    """Add a text to the structured trace (``TORCH_TRACE``); ``payload`` runs only if one is on."""
    from torch._logging import trace_structured  # type: ignore[attr-defined]

    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": "string"},
        payload_fn=payload,
    )


def debug_directory() -> str | None:
    """The run's debug directory where ``TORCH_COMPILE_DEBUG=1``, else None."""
    if os.environ.get("TORCH_COMPILE_DEBUG") != "1":
        return None
    from torch._dynamo.utils import get_debug_dir

    return str(get_debug_dir())


# --- facts about this process that change what a compiler makes -----------------------------------


def process_state() -> dict[str, str]:
    """Settings of this process that change generated code or the operators chosen."""
    return {
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
        "deterministic_fill": str(torch.utils.deterministic.fill_uninitialized_memory),  # type: ignore[attr-defined]
        "default_dtype": str(torch.get_default_dtype()),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "threads": str(torch.get_num_threads()),
        "mkldnn": str(torch.backends.mkldnn.enabled),
    }


def torch_identity() -> str:
    """The exact build of torch."""
    return f"{torch.__version__} {torch.version.git_version}"


def cpu_identity() -> str:
    """The instruction sets of this CPU as torch sees them, as a digest with a readable head."""
    head = torch.backends.cpu.get_cpu_capability()
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    flags = ",".join(f"{name}={capabilities[name]}" for name in sorted(capabilities))
    return f"{head} {hashlib.sha256(flags.encode()).hexdigest()[:16]}"
