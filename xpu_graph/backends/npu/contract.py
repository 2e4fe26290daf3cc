"""What the vendor's compilers take for granted of a graph, checked before they are called.

They turn the graph into Python text again, with only torch's names in reach, and look at in-place
operators by their names. A graph that breaks this compiles, and then fails at its first run or
loses a write, so each break is an error here that names the node and the user's line.
"""

from __future__ import annotations

import operator
from collections.abc import Collection

import torch
from torch import fx

from xpu_graph import effects
from xpu_graph.errors import BackendError
from xpu_graph.fx import placeholders, storages_of, tensors_of, user_line

DEVICE = "npu"


def check_graph(gm: fx.GraphModule, engine: str, copied: Collection[fx.Node]) -> None:
    """Refuse what a vendor compiler would get wrong.

    Args:
        gm: the graph that is about to be handed over.
        engine: a mode of compiler ``ge``: ``"max-autotune"``, ``"reduce-overhead"`` or
            ``"npugraph_ex"``.
        copied: the inputs that are copied into buffers of the vendor's at every call.

    Raises:
        BackendError: names the first node that cannot be handed over, and why.
    """
    outer = {storage for node in placeholders(gm.graph) for storage in storages_of(node)}
    captured = engine != "max-autotune"
    for node in gm.graph.nodes:
        reason = _wrong_kind(node) or _wrong_device(node) or _wrong_operator(node, engine)
        if reason is None and captured:
            reason = _lost_write(node, outer) or _wrong_strides(node, copied)
        if reason is not None:
            raise BackendError(
                f"compiler 'ge' in mode {engine!r} cannot take node {node.name!r}: {reason}"
                f"{user_line(node)}"
            )


def check_host_inputs(gm: fx.GraphModule) -> None:
    """Refuse a graph that writes to a tensor on the host: what runs there runs apart.

    Raises:
        BackendError: names the node and the input.
    """
    inputs = {
        storage: node
        for node in placeholders(gm.graph)
        for value, storage in zip(tensors_of(node), storages_of(node), strict=True)
        if value.device.type != DEVICE
    }
    for node in gm.graph.nodes:
        for argument in effects.written_args(node):
            for storage in storages_of(argument):
                if storage in inputs:
                    raise BackendError(
                        f"compiler 'ge' cannot take node {node.name!r}: it writes to the input "
                        f"{inputs[storage].name!r}, which is not on the NPU; move it there, or "
                        f"choose compiler 'device_graph'{user_line(node)}"
                    )


def mutated_inputs(graph: fx.Graph) -> list[fx.Node]:
    """The placeholders that the graph writes to."""
    written = {
        storage
        for node in graph.nodes
        for argument in effects.written_args(node)
        for storage in storages_of(argument)
    }
    return [node for node in placeholders(graph) if written & set(storages_of(node))]


def _wrong_kind(node: fx.Node) -> str | None:
    if node.op in ("placeholder", "output"):
        return None
    if node.op != "call_function":
        return f"it is a {node.op} of {node.target!r}, and only operators can be handed over"
    target = node.target
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return None
    if isinstance(target, torch._ops.HigherOrderOperator):
        name = str(target)
        if name in ("auto_functionalized", "auto_functionalized_v2"):
            return None
        return f"{name!r} runs a graph of its own, which the vendor cannot convert"
    module = getattr(target, "__module__", None) or ""
    known = module in (operator.__name__, "_operator", "math") or module.split(".")[0] == "torch"
    if callable(target) and known:
        return None
    name = getattr(target, "__name__", repr(target))
    return f"it calls the Python function {name!r}, and only operators of torch.ops can be called"


def _wrong_device(node: fx.Node) -> str | None:
    for value in tensors_of(node):
        if value.device.type != DEVICE:
            what = "the input" if node.op == "placeholder" else "its result"
            return (
                f"{what} is on {value.device}; move it to the NPU, or choose compiler "
                "'device_graph', which leaves out of the captured pieces what is not there"
            )
    return None


def _wrong_operator(node: fx.Node, engine: str) -> str | None:
    name = str(node.target)
    if engine == "npugraph_ex" and name.startswith("npu.npu_weight_quant_batchmatmul"):
        return f"npugraph_ex fails on {name}; choose mode 'reduce-overhead' or 'max-autotune'"
    interleaved = "interleave" in (*node.args, *node.kwargs.values())
    if engine == "max-autotune" and name.startswith("npu.npu_rotary_mul") and interleaved:
        return f"torchair turns {name} with 'interleave' into the one that rotates halves"
    if name in ("npugraph_ex.wait.default", "npugraph_ex.record.default"):
        return (
            f"npugraph_ex drops {name} without a word, so nothing would wait; use torch.npu.Event, "
            "or torch.ops.npugraph_ex.tagged_event_record and tagged_event_wait"
        )
    return None


def _lost_write(node: fx.Node, outer: Collection[int | None]) -> str | None:
    """The vendor finds a written input only as the first argument of ``<operator>_``."""
    for argument in effects.written_args(node):
        if not set(storages_of(argument)) & set(outer):
            continue
        if argument.op != "placeholder":
            return f"it writes to {argument.name!r}, a view of an input; the write would be lost"
        is_first = bool(node.args) and node.args[0] is argument
        if not is_first or not str(node.target).split(".")[1].endswith("_"):
            return (
                f"it writes to the input {argument.name!r}, which the vendor sees only as the "
                "first argument of an operator whose name ends in '_'"
            )
    return None


def _wrong_strides(node: fx.Node, copied: Collection[fx.Node]) -> str | None:
    """Copied inputs are contiguous; what reads an input in the order of its memory goes wrong."""
    if "as_strided" not in str(node.target):
        return None
    for argument in node.all_input_nodes:
        if argument in copied and not all(t.is_contiguous() for t in tensors_of(argument)):
            return (
                f"it reads the input {argument.name!r} in the order of its memory, and that input "
                "is not contiguous; call .contiguous() before"
            )
    return None
