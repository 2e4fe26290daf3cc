"""The graph as the vendor gets it, and what is left around it.

    graph(x, w): a = x @ w; return a, a.t(), x.view(-1), 3

    inner(x, w): a = x @ w; return [a]
    outer(x, w, a): return a, a.t(), x.view(-1), 3

Vendors copy inputs into buffers of their own, so an output that is a view of an input would be a
view of a buffer; they return the object they captured; and they take tensors as outputs and nothing
else. So what needs no kernel (views, sizes, numbers, repetitions) moves behind the vendor's graph
and is computed on the caller's own tensors. Constants that the module owns become inputs, since the
vendor would write them into its text. A copied input that is dense and not contiguous is handed
over in the order of its memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from xpu_graph.backends.npu.contract import mutated_inputs
from xpu_graph.errors import BackendError
from xpu_graph.fx import attribute, call_fake, mark, marks, placeholders, storages_of
from xpu_graph.torch_compat import detect_fake_mode

RESERVED = frozenset({"device", "torch", "inf", "nan", "self", "math", "operator"})
"""Names that the vendor's generated text needs for itself."""


@dataclass
class VendorGraph:
    """A graph cut for a vendor.

    Attributes:
        inner: what the vendor compiles; returns a list of tensors.
        inputs: its fake inputs, in placeholder order; the constants come last.
        outer: takes the original inputs and the inner outputs, returns the original outputs; None
            where that is the inner outputs as they are.
        constants: tensors of the last inner inputs.
        orders: for inputs that are permuted before the call, the order of their dimensions.
        static: positions of inner inputs whose memory stays where it is, with what marked them.
        mutated: positions of inner inputs that the graph writes to.
    """

    inner: fx.GraphModule
    inputs: list[Any]
    outer: fx.GraphModule | None
    constants: list[torch.Tensor]
    orders: dict[int, tuple[int, ...]]
    static: dict[int, str]
    mutated: list[int]
    names: list[str] = field(default_factory=list)


def cut(gm: fx.GraphModule, fake_inputs: list[Any], *, permute: bool) -> VendorGraph:
    """Cut a graph for a vendor; the graph itself stays as it is.

    Args:
        gm: an ATen graph with fake values.
        fake_inputs: its inputs, in placeholder order.
        permute: whether the vendor copies inputs into contiguous buffers.

    Raises:
        BackendError: a constant is no tensor, or an output is nothing that a graph can return.
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    constants = _constant_nodes(gm)
    for node in placeholders(gm.graph):
        copies[node] = _copy_input(graph, node)
    for node, tensor in constants.items():
        copies[node] = _new_input(graph, node, tensor)
    inputs = list(graph.nodes)
    for node in gm.graph.nodes:
        if node.op not in ("placeholder", "output") and node not in constants:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    returned = pytree.tree_map_only(fx.Node, copies.__getitem__, gm.graph.output_node().args[0])
    leaves = pytree.tree_leaves(returned, is_leaf=lambda leaf: leaf is None)
    inner_outputs, outer = _cut_outputs(gm, graph, inputs, leaves)
    graph.output(inner_outputs)
    for node in reversed(graph.nodes):
        if not node.users and _needs_no_kernel(node):
            graph.erase_node(node)
    inner = fx.GraphModule(gm, graph)
    values = [*fake_inputs, *(node.meta["val"] for node in inputs[len(fake_inputs) :])]
    mutated = mutated_inputs(graph)
    static = {i: marks(node)["static"] for i, node in enumerate(inputs) if "static" in marks(node)}
    orders = {}
    if permute:
        for position, node in enumerate(inputs):
            if position not in static and node not in mutated and (order := _memory_order(node)):
                orders[position] = order
                values[position] = _permute_input(graph, node, order)
    inner.recompile()
    return VendorGraph(
        inner,
        values,
        outer,
        list(constants.values()),
        orders,
        static,
        [i for i, node in enumerate(inputs) if node in mutated],
        [node.name for node in inputs],
    )


def _constant_nodes(gm: fx.GraphModule) -> dict[fx.Node, torch.Tensor]:
    found = {}
    for node in gm.graph.find_nodes(op="get_attr"):
        value = attribute(gm, node.target)
        if isinstance(value, torch.Tensor):
            found[node] = value
        elif any(user.op == "call_function" for user in node.users):
            raise BackendError(
                f"node {node.name!r} is a {type(value).__name__} that the graph holds; the vendor "
                "compilers take graphs of operators alone, without graphs inside"
            )
    return found


def _copy_input(graph: fx.Graph, node: fx.Node) -> fx.Node:
    name = f"{node.target}_" if node.target in RESERVED else str(node.target)
    copy = graph.placeholder(name)
    copy.meta = dict(node.meta)
    return copy


def _new_input(graph: fx.Graph, node: fx.Node, tensor: torch.Tensor) -> fx.Node:
    copy = graph.placeholder(f"constant_{node.name}")
    copy.meta = dict(node.meta)
    copy.meta.setdefault("val", tensor)
    mark(copy, "static", "given")
    return copy


# --- outputs --------------------------------------------------------------------------------


def _cut_outputs(
    gm: fx.GraphModule, graph: fx.Graph, inputs: list[fx.Node], leaves: list[Any]
) -> tuple[list[fx.Node], fx.GraphModule | None]:
    """What the vendor returns, and the graph that makes the outputs out of it."""
    outer_graph = fx.Graph()
    known: dict[fx.Node, fx.Node] = {}
    for node in inputs:
        known[node] = _copy_input(outer_graph, node)
    inner_outputs: list[fx.Node] = []

    def moved(node: fx.Node) -> fx.Node:
        """The node's stand-in in the outer graph; what needs a kernel becomes an inner output."""
        pending = [node]
        while pending:
            current = pending[-1]
            if current in known:
                pending.pop()
            elif (target := _written_and_returned(current)) is not None:
                if target in known:
                    known[current] = known[target]
                else:
                    pending.append(target)
            elif not _needs_no_kernel(current):
                inner_outputs.append(current)
                known[current] = stand_in(current)
            elif unknown := [arg for arg in current.all_input_nodes if arg not in known]:
                pending += unknown
            else:
                known[current] = outer_graph.node_copy(current, known.__getitem__)
        return known[node]

    last = [known[inputs[-1]]] if inputs else []

    def stand_in(node: fx.Node) -> fx.Node:
        place = outer_graph.inserting_after(last[-1]) if last else _at_start(outer_graph)
        with place:
            made = outer_graph.placeholder(f"result_{len(inner_outputs) - 1}")
        made.meta = dict(node.meta)
        last.append(made)
        return made

    returned = [moved(leaf) if isinstance(leaf, fx.Node) else leaf for leaf in leaves]
    if leaves == inner_outputs:
        return inner_outputs, None
    outer_graph.output(returned)
    return inner_outputs, fx.GraphModule(gm, outer_graph)


def _at_start(graph: fx.Graph) -> Any:
    return graph.inserting_before(next(iter(graph.nodes)))


def _needs_no_kernel(node: fx.Node) -> bool:
    """Whether an operator gives a view of its argument, or a number made of sizes."""
    if node.op != "call_function":
        return False
    value = node.meta.get("val")
    if isinstance(value, (int, torch.SymInt)):
        return all(
            isinstance(argument.meta.get("val"), (int, torch.SymInt, torch.Tensor))
            for argument in node.all_input_nodes
        ) and not _reads_values(node)
    if not isinstance(value, torch.Tensor) or not isinstance(node.target, torch._ops.OpOverload):
        return False
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


# --- inputs --------------------------------------------------------------------------------


def _memory_order(node: fx.Node) -> tuple[int, ...] | None:
    """The order of dimensions in which a dense tensor lies in memory; None where it is as usual."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
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


def _permute_input(graph: fx.Graph, node: fx.Node, order: tuple[int, ...]) -> Any:
    """Let the graph take the input in memory order; returns the fake value it then has."""
    value = node.meta["val"]
    mode = detect_fake_mode([value])
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    with graph.inserting_after(node):
        restored = graph.call_function(torch.ops.aten.permute.default, (node, list(back)))
    node.replace_all_uses_with(restored, delete_user_cb=lambda user: user is not restored)
    restored.meta = {k: v for k, v in node.meta.items() if k in ("val", "stack_trace")}
    node.meta["val"] = call_fake(torch.ops.aten.permute.default, (value, list(order)), {}, mode)
    return node.meta["val"]
