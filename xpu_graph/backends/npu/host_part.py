"""What a graph computes on the host from its inputs, cut out and run before it.

Dynamo hands numbers that may vary to a graph as scalars on the host, and programs make tensors
there and send them to the device. A captured copy from the host keeps reading the address of the
first call, so it is done before every call, and its result is an input.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from xpu_graph import effects
from xpu_graph.backends.npu.contract import DEVICE
from xpu_graph.fakes import call_fake
from xpu_graph.fx import placeholders, tensors_of
from xpu_graph.torch_compat import detect_fake_mode

aten = torch.ops.aten
_COPIES = (aten._to_copy.default, torch.ops.prims.device_put.default)
"""Operators that send a tensor to another device."""


NUMBERS = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
"""What a node's value may be where it computes with sizes."""


def is_on_host(node: fx.Node) -> bool:
    """Whether the node's value is a tensor on the host."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.device.type == "cpu"


def cut_before(
    gm: fx.GraphModule, graph: fx.Graph, inputs: int
) -> tuple[fx.GraphModule | None, list[fx.Node]]:
    """Cut out what runs on the host, in place.

    Args:
        gm: owner of the graph's constants.
        graph: the graph; its first placeholders are the inputs of the program, then constants.
        inputs: how many inputs the program has.

    Returns:
        The graph of the host's part, which takes the program's inputs and returns tensors on the
        device, or None; and the placeholders of all values: the inputs, those tensors, constants.
    """
    given = placeholders(graph)
    host = set(given[:inputs])
    moved = []
    for node in graph.nodes:
        if node.op == "call_function" and _runs_before(node, host):
            host.add(node)
            moved.append(node)
    frontier = [
        node
        for node in [*given[:inputs], *moved]
        if tensors_of(node)
        and (is_on_host(node) or node in moved)
        and any(user not in host and user.op != "output" for user in node.users)
        and _can_be_sent(node)
    ]
    if not frontier:
        return None, given
    before = _graph_of(frontier, given[:inputs], moved)
    added: list[fx.Node] = []
    for number, node in enumerate(frontier):
        added.append(_take_as_input(graph, node, host, [*given[:inputs], *added], number))
    for node in reversed(moved):
        if not node.users:
            graph.erase_node(node)
    return fx.GraphModule(gm, before), [*given[:inputs], *added, *given[inputs:]]


def _runs_before(node: fx.Node, host: set[fx.Node]) -> bool:
    if not all(argument in host for argument in node.all_input_nodes):
        return False
    if isinstance(node.meta.get("val"), NUMBERS):
        return effects.is_size_arithmetic(node) or str(node.target).startswith("aten.sym_")
    if not effects.is_deterministic(node) or not tensors_of(node):
        return False
    takes_host_data = all(
        is_on_host(argument) for argument in node.all_input_nodes if tensors_of(argument)
    )
    return takes_host_data and (is_on_host(node) or node.target in _COPIES)


def _can_be_sent(node: fx.Node) -> bool:
    """Operators of the device take scalars of the host, and nothing else of it."""
    value = node.meta["val"]
    return bool(value.device.type == DEVICE or value.dim() == 0)


def _graph_of(frontier: list[fx.Node], inputs: list[fx.Node], moved: list[fx.Node]) -> fx.Graph:
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in inputs:
        copies[node] = graph.placeholder(str(node.target))
        copies[node].meta = dict(node.meta)
    for node in moved:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([_sent(graph, copies[node]) for node in frontier])
    graph.eliminate_dead_code()
    return graph


def _sent(graph: fx.Graph, node: fx.Node) -> fx.Node:
    if not is_on_host(node):
        return node
    device = torch.device(DEVICE, torch.get_device_module(DEVICE).current_device())
    sent = graph.call_function(aten._to_copy.default, (node,), {"device": device})
    sent.meta = {"val": _on_device(node.meta["val"], device)}
    return sent


def _on_device(value: Any, device: torch.device) -> Any:
    mode = detect_fake_mode([value])
    return call_fake(aten._to_copy.default, (value,), {"device": device}, mode)


def _take_as_input(
    graph: fx.Graph, node: fx.Node, host: set[fx.Node], inputs: list[fx.Node], number: int
) -> fx.Node:
    with graph.inserting_after(inputs[-1]):
        taken = graph.placeholder(f"sent_{number}")
    value = node.meta["val"]
    if is_on_host(node):
        device = torch.device(DEVICE, torch.get_device_module(DEVICE).current_device())
        value = _on_device(value, device)
    taken.meta = {"val": value}
    node.replace_all_uses_with(
        taken, delete_user_cb=lambda user: user not in host and user.op != "output"
    )
    return taken
