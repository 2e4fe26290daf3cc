"""The graph as the vendor gets it, and what is left around it.

    graph(x, w, s): a = x @ w * s.to(float32); return a, a.t(), x.view(-1), 3        s on the host

    before(x, w, s): return s.to(float32).to(device)
    inner(x, w, b): a = x @ w * b; return [a]
    after(x, w, s, b, a): return a, a.t(), x.view(-1), 3

Vendors copy inputs into buffers of their own, so an output that is a view of an input would be a
view of a buffer; they return the object they captured; they take tensors as outputs and nothing
else; and they replay copies from the host with the address of the first call. So what needs no
kernel of the device (views, sizes, numbers, repetitions, work on the host) moves before or behind
the vendor's graph and runs on the caller's own tensors. Constants that the module owns become
inputs, since the vendor would write them into its text. A copied input that is dense and not
contiguous is handed over in the order of its memory.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from xpu_graph.backends.npu.contract import DEVICE, mutated_inputs
from xpu_graph.backends.npu.host_part import NUMBERS, cut_before, is_on_host
from xpu_graph.errors import BackendError
from xpu_graph.fakes import call_fake
from xpu_graph.fx import attribute, mark, marks, placeholders, storages_of
from xpu_graph.torch_compat import detect_fake_mode

RESERVED = frozenset({"device", "torch", "inf", "nan", "self", "math", "operator"})
"""Names that the vendor's generated text needs for itself."""


@dataclass
class VendorGraph:
    """A graph cut for a vendor.

    All values at a call are, in this order: the inputs of the original graph, the results of
    ``before``, the constants.

    Attributes:
        before: takes the original inputs; None where nothing is to be done.
        inner: what the vendor compiles; takes some of all values, returns a list of tensors.
        after: takes all values and the inner outputs, returns the original outputs; None where
            those are the inner outputs as they are.
        constants: tensors that the original graph owned.
        taken: positions of the inner inputs among all values.
        inputs: fake values of the inner inputs.
        orders: for inner inputs that are permuted before the call, the order of dimensions.
        static: inner inputs whose memory stays where it is, with what marked them.
        mutated: inner inputs that the graph writes to.
    """

    before: fx.GraphModule | None
    inner: fx.GraphModule
    after: fx.GraphModule | None
    constants: list[torch.Tensor]
    taken: list[int]
    inputs: list[Any]
    orders: dict[int, tuple[int, ...]]
    static: dict[int, str]
    mutated: list[int]


def cut(gm: fx.GraphModule, *, permute: bool) -> VendorGraph:
    """Cut a graph for a vendor; the graph itself stays as it is.

    Args:
        gm: an ATen graph with fake values.
        permute: whether the vendor copies inputs into contiguous buffers.

    Raises:
        BackendError: the graph holds something that is no tensor.
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    constants = _constant_nodes(gm)
    for node in placeholders(gm.graph):
        copies[node] = _copy_input(graph, node)
    for node in constants:
        copies[node] = _constant_input(graph, node)
    for node in gm.graph.nodes:
        if node.op not in ("placeholder", "output") and node not in constants:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    returned = pytree.tree_map_only(fx.Node, copies.__getitem__, gm.graph.output_node().args[0])
    leaves = pytree.tree_leaves(returned, is_leaf=lambda leaf: leaf is None)
    graph.output(leaves)
    before, values = cut_before(gm, graph, len(placeholders(gm.graph)))
    leaves = pytree.tree_leaves(graph.output_node().args[0], is_leaf=lambda leaf: leaf is None)
    after = _cut_after(gm, graph, values, leaves)
    taken = _drop_unused(graph, values)
    inputs = [values[position] for position in taken]
    mutated = [i for i, node in enumerate(inputs) if node in mutated_inputs(graph)]
    static = {i: marks(node)["static"] for i, node in enumerate(inputs) if "static" in marks(node)}
    orders = {
        i: order
        for i, node in enumerate(inputs)
        if permute and i not in static and i not in mutated and (order := _memory_order(node))
    }
    for position, order in orders.items():
        _permute_input(graph, inputs[position], order)
    inner = fx.GraphModule(gm, graph)
    fakes = [node.meta["val"] for node in inputs]
    tensors = list(constants.values())
    return VendorGraph(before, inner, after, tensors, taken, fakes, orders, static, mutated)


def _constant_nodes(gm: fx.GraphModule) -> dict[fx.Node, torch.Tensor]:
    found = {}
    for node in gm.graph.find_nodes(op="get_attr"):
        value = attribute(gm, node.target)
        if isinstance(value, torch.Tensor):
            found[node] = value
        elif any(user.op == "call_function" for user in node.users):
            streams = (
                "; streams and events need mode 'npugraph_ex'" if "_event" in node.name else ""
            )
            raise BackendError(
                f"node {node.name!r} is a {type(value).__name__} that the graph holds; the vendor "
                f"compilers take graphs of operators alone, without graphs inside{streams}"
            )
    return found


def _copy_input(graph: fx.Graph, node: fx.Node) -> fx.Node:
    name = f"{node.target}_" if node.target in RESERVED else str(node.target)
    copy = graph.placeholder(name)
    copy.meta = dict(node.meta)
    return copy


def _constant_input(graph: fx.Graph, node: fx.Node) -> fx.Node:
    copy = graph.placeholder(f"constant_{node.name}")
    copy.meta = dict(node.meta)
    mark(copy, "static", "given")
    return copy


def _drop_unused(graph: fx.Graph, values: list[fx.Node]) -> list[int]:
    """Erase inputs that are on the host and no longer needed; gives the positions of the others."""
    taken = []
    for position, node in enumerate(values):
        if is_on_host(node) and not node.users:
            graph.erase_node(node)
        else:
            taken.append(position)
    return taken


# --- outputs --------------------------------------------------------------------------------------


def _cut_after(
    gm: fx.GraphModule, graph: fx.Graph, values: list[fx.Node], leaves: list[Any]
) -> fx.GraphModule | None:
    """Let the graph return what takes a kernel; gives the graph that makes the outputs of it."""
    after = fx.Graph()
    known: dict[fx.Node, fx.Node] = {node: _copy_input(after, node) for node in values}
    results: list[fx.Node] = []
    for leaf in leaves:
        if isinstance(leaf, fx.Node):
            _move(leaf, after, known, results)
    output = graph.output_node()
    output.args = (results,)
    for node in reversed(graph.nodes):
        if not node.users and _needs_no_kernel(node):
            graph.erase_node(node)
    if leaves == results:
        return None
    after.output([known[leaf] if isinstance(leaf, fx.Node) else leaf for leaf in leaves])
    return fx.GraphModule(gm, after)


def _move(
    leaf: fx.Node, after: fx.Graph, known: dict[fx.Node, fx.Node], results: list[fx.Node]
) -> None:
    """Give a node, and what it is made of, stand-ins behind the graph; kernels stay inside."""
    pending = [leaf]
    while pending:
        node = pending[-1]
        if node in known:
            pending.pop()
        elif (target := _written_and_returned(node)) is not None:
            if target in known:
                known[node] = known[target]
            else:
                pending.append(target)
        elif not _needs_no_kernel(node):
            known[node] = _result(after, node, len(results))
            results.append(node)
        elif unknown := [argument for argument in node.all_input_nodes if argument not in known]:
            pending += unknown
        else:
            known[node] = after.node_copy(node, known.__getitem__)


def _result(graph: fx.Graph, node: fx.Node, number: int) -> fx.Node:
    inputs = placeholders(graph)
    first = next(iter(graph.nodes), None)
    place: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    if inputs:
        place = graph.inserting_after(inputs[-1])
    elif first is not None:
        place = graph.inserting_before(first)
    with place:
        made = graph.placeholder(f"result_{number}")
    made.meta = dict(node.meta)
    return made


def _needs_no_kernel(node: fx.Node) -> bool:
    """Whether an operator gives a view of its argument, a number made of sizes, or host data."""
    if node.op != "call_function":
        return False
    value = node.meta.get("val")
    if isinstance(value, NUMBERS):
        return not _reads_values(node)
    if not isinstance(value, torch.Tensor) or not isinstance(node.target, torch._ops.OpOverload):
        return False
    if is_on_host(node):
        return True
    schema = node.target._schema
    is_view = any(result.alias_info and not result.alias_info.is_write for result in schema.returns)
    sources = {storage for argument in node.all_input_nodes for storage in storages_of(argument)}
    return node.target.namespace == "aten" and is_view and set(storages_of(node)) <= sources


def _written_and_returned(node: fx.Node) -> fx.Node | None:
    """The argument that an in-place operator returns."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or len(target._schema.returns) != 1:
        return None
    result = target._schema.returns[0].alias_info
    if result is None or not result.is_write or not node.args:
        return None
    return node.args[0] if isinstance(node.args[0], fx.Node) else None


def _reads_values(node: fx.Node) -> bool:
    """Whether a number comes from the content of a tensor rather than from its sizes."""
    is_size = str(node.target).startswith(
        ("aten.sym_size", "aten.sym_stride", "aten.sym_storage_offset", "aten.sym_numel")
    )
    takes_tensor = any(isinstance(a.meta.get("val"), torch.Tensor) for a in node.all_input_nodes)
    return takes_tensor and not is_size


# --- inputs ---------------------------------------------------------------------------------------


def _memory_order(node: fx.Node) -> tuple[int, ...] | None:
    """The order of dimensions in which a dense tensor lies in memory; None where it is as usual."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    if value.device.type != DEVICE:
        return None
    if not all(isinstance(size, int) for size in (*value.shape, *value.stride())):
        return None
    if value.is_contiguous() or not value.numel():
        return None
    strides = value.stride()
    order = sorted(range(value.dim()), key=lambda d: (-strides[d], value.shape[d] == 1))
    expected = 1
    for dimension in reversed(order):
        if value.shape[dimension] != 1 and strides[dimension] != expected:
            return None  # there are gaps, or several elements share a place
        expected *= value.shape[dimension]
    return tuple(order)


def _permute_input(graph: fx.Graph, node: fx.Node, order: tuple[int, ...]) -> None:
    """Let the graph take the input in memory order."""
    value = node.meta["val"]
    mode = detect_fake_mode([value])
    back = sorted(range(len(order)), key=order.__getitem__)
    with graph.inserting_after(node):
        restored = graph.call_function(torch.ops.aten.permute.default, (node, back))
    node.replace_all_uses_with(restored, delete_user_cb=lambda user: user is not restored)
    restored.meta = {k: v for k, v in node.meta.items() if k in ("val", "stack_trace")}
    node.meta["val"] = call_fake(torch.ops.aten.permute.default, (value, list(order)), {}, mode)
