"""Compiler ``ge`` in its three modes: check, cut, compile, wrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from xpu_graph import effects
from xpu_graph.artifact import SerializableGraphModule
from xpu_graph.backends.npu import engines
from xpu_graph.backends.npu.artifact import CallPlan, NpuSerializableArtifact
from xpu_graph.backends.npu.call_checks import describe_inputs
from xpu_graph.backends.npu.contract import check_graph, check_host_inputs
from xpu_graph.backends.npu.option_checks import Plan
from xpu_graph.backends.npu.option_table import MAX_AUTOTUNE
from xpu_graph.backends.npu.vendor_graph import VendorGraph, cut
from xpu_graph.errors import BackendError, NotCacheable
from xpu_graph.fx import placeholders, shallow_copy, tensors_of, user_line
from xpu_graph.torch_compat import add_tensor_metadata

MODE_OF_EMBEDDING_BAG = 4
"""Position of the argument ``mode``; weight, indices and offsets are always given."""


def compile_with_ge(
    gm: fx.GraphModule, fake_inputs: Sequence[Any], plan: Plan
) -> NpuSerializableArtifact:
    """Compile a graph with torchair or npugraph_ex.

    Args:
        gm: an ATen graph; it stays as it is.
        fake_inputs: its inputs as fake tensors and SymInts, in placeholder order.
        plan: the checked options; its ``mode`` is one of the three.

    Raises:
        BackendError: the graph breaks the vendor's contract, or the vendor failed.
    """
    mode = plan.mode
    assert mode is not None
    captures = mode != MAX_AUTOTUNE
    clones = captures and plan.value("clone_input")
    frozen = bool(plan.value("frozen_parameter"))
    check_host_inputs(gm)
    graph = cut(gm, permute=clones)
    if frozen and not captures:
        graph.static = {i: kind for i, kind in graph.static.items() if kind == "given"}
    nodes = placeholders(graph.inner.graph)
    own = {*graph.static, *graph.mutated}
    copied = [node for i, node in enumerate(nodes) if i not in own]
    static = [graph.taken[i] for i in graph.static]
    check_graph(graph.inner, mode, copied if clones else [])
    _check_mutation_limit(graph, plan)
    add_tensor_metadata(graph.inner)
    device = _device_of(graph)
    plan = _without_unsafe_writes(graph, _without_unsafe_cats(graph, plan))
    if not captures:
        _say_defaults(graph)
    if captures and not frozen:
        plan = _without_shared_memory(graph, plan)
    with torch.get_device_module("npu").device(device):
        compiled = engines.compile_graph(graph, plan)
    call = CallPlan(
        mode=mode,
        device=device,
        inputs=describe_inputs(list(fake_inputs), static),
        taken=graph.taken,
        copied=[i for i, node in enumerate(nodes) if node in copied and tensors_of(node)],
        orders=graph.orders,
        mutated=graph.mutated,
        folded=[i for i, kind in graph.static.items() if kind == "folded"],
        trusts_addresses=frozen and captures,
        keeps_inputs=captures and not clones,
        runs_twice=captures and plan.value("static_kernel_compile"),
        lines={n.name: line for n in graph.inner.graph.nodes if (line := user_line(n))},
    )
    code = _code_of(compiled, _why_not_kept(graph.inner, plan))
    return NpuSerializableArtifact(
        call,
        compiled,
        code,
        before=_runnable(graph.before),
        eager=SerializableGraphModule(shallow_copy(graph.inner)),
        after=_runnable(graph.after),
        constants=graph.constants,
    )


def _runnable(gm: fx.GraphModule | None) -> SerializableGraphModule | None:
    return None if gm is None else SerializableGraphModule(gm)


def has_triton_kernel(gm: fx.GraphModule) -> bool:
    """Whether a graph calls a Triton kernel: through torch, or as an operator of torch_npu's."""
    return any(
        node.op == "call_function"
        and ("triton_kernel" in str(node.target) or str(node.target).startswith("torch_npu_triton"))
        for node in gm.graph.nodes
    )


def _code_of(compiled: Callable[..., Any], why_not: str | None) -> Callable[[], str]:
    text: list[str] = []

    def code() -> str:
        if why_not is not None:
            raise NotCacheable(why_not)
        if not text:
            text.append(engines.code_of(compiled))
        return text[0]

    return code


def _why_not_kept(gm: fx.GraphModule, plan: Plan) -> str | None:
    """Why the vendor's text of this graph means something in this process alone."""
    if has_triton_kernel(gm):
        return "the graph calls a Triton kernel, whose code is not in the vendor's text"
    for node in gm.graph.nodes:
        name = str(node.target)
        if node.op != "call_function":
            continue
        if effects.is_random(node):
            return f"operator {name} draws random numbers, and the generator is this process's"
        if "stream" in name or "tagged_event" in name or "_user_stream" in str(node.args):
            return f"operator {name} names a stream or an event of this process"
        if plan.mode == MAX_AUTOTUNE and name.startswith(("_c10d_functional", "npu_define")):
            return f"operator {name} needs this process's groups, which GE's text does not make"
    return None


def _check_mutation_limit(graph: VendorGraph, plan: Plan) -> None:
    """The vendor counts a graph captured again, for a moved input, against the limit."""
    if graph.mutated and plan.value("capture_limit") == 1:
        names = ", ".join(placeholders(graph.inner.graph)[i].name for i in graph.mutated)
        raise BackendError(
            f"capture_limit=1 is not legal for a graph that writes to its inputs ({names}): when "
            "one moves the graph is captured again, which is beyond the limit; give 2 or more"
        )


def _without_unsafe_cats(graph: VendorGraph, plan: Plan) -> Plan:
    """Turn the vendor's elimination of ``cat`` off where it would change a result."""
    returned = set(graph.inner.graph.output_node().all_input_nodes)
    for node in graph.inner.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default):
        parts = node.all_input_nodes
        dtypes = {tensor.dtype for part in parts for tensor in tensors_of(part)}
        if len(dtypes) > 1 or returned & set(parts):
            return plan.with_option("remove_cat_ops", False)
    return plan


def _without_unsafe_writes(graph: VendorGraph, plan: Plan) -> Plan:
    """Turn off what goes wrong where a graph writes to its inputs.

    The vendor's removal of no-ops drops a copy of an input that is written to afterwards; and an
    output whose value is also written to an input would lie in the caller's memory.
    """
    if not graph.mutated:
        return plan
    plan = plan.with_option("remove_noop_ops", False)
    returned = set(graph.inner.graph.output_node().all_input_nodes)
    for copy in graph.inner.graph.find_nodes(
        op="call_function", target=torch.ops.aten.copy_.default
    ):
        if plan.mode != MAX_AUTOTUNE and copy.args[1] in returned:
            return plan.with_option("input_inplace_pass", False)
    return plan


def _without_shared_memory(graph: VendorGraph, plan: Plan) -> Plan:
    """Let captures for other parameters have memory of their own, unless the user chose.

    Two modules of one class share a compiled graph and are captured each. In shared memory, a call
    of one would overwrite the output of the other that it is given.
    """
    chosen = {"reuse_graph_pool_in_same_fx", "use_graph_pool"} & set(plan.options)
    if chosen or "given" not in graph.static.values():
        return plan
    return plan.with_option("reuse_graph_pool_in_same_fx", False)


def _say_defaults(graph: VendorGraph) -> None:
    """Write out the mode of embedding bags: by default it is the sum, for torchair the mean."""
    for node in graph.inner.graph.nodes:
        if not str(node.target).startswith("aten._embedding_bag"):
            continue
        if len(node.args) <= MODE_OF_EMBEDDING_BAG and "mode" not in node.kwargs:
            missing = (False, 0)[len(node.args) - 3 :]  # scale_grad_by_freq, mode
            node.args = (*node.args, *missing)


def _device_of(graph: VendorGraph) -> int:
    """The one device of a graph.

    Raises:
        BackendError: there are several.
    """
    devices: dict[int, fx.Node] = {}
    for node in graph.inner.graph.nodes:
        for tensor in tensors_of(node):
            devices.setdefault(tensor.device.index or 0, node)
    if len(devices) > 1:
        places = " and ".join(f"npu:{index} ({node.name!r})" for index, node in devices.items())
        raise BackendError(f"compiler 'ge' compiles for one device, and the graph is on {places}")
    if devices:
        return next(iter(devices))
    return int(torch.get_device_module("npu").current_device())
