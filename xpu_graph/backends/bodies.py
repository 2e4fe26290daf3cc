"""Tensors that the bodies of higher-order operators hold, handed over as operands instead.

A compiler that traces a graph again finds such a tensor outside of what it traces, and fails on it.
"""

from __future__ import annotations

import copy

import torch
from torch import fx

from xpu_graph.fx import aten, attribute

_BODIES: dict[str, tuple[tuple[int, ...], int]] = {
    "associative_scan": ((0,), 2),
    "cond": ((1, 2), 3),
    "map_impl": ((0,), 2),
    "scan": ((0,), 3),
    "while_loop": ((0, 1), 3),
    "while_loop_stack_output": ((0, 1), 3),
}
"""By operator: where its bodies are, and the sequence whose entries each takes as its last ones."""


def without_body_constants(gm: fx.GraphModule) -> fx.GraphModule:
    """A graph like this one, in which no body holds a tensor of its own, at any depth.

    Args:
        gm: the graph, which is not changed.

    Returns:
        ``gm`` itself where it calls no operator with bodies.
    """
    if not any(_positions(node) for node in gm.graph.nodes):
        return gm
    copied = fx.GraphModule(gm, copy.deepcopy(gm.graph))
    for node in list(copied.graph.nodes):
        if _positions(node):
            _lift(copied, node)
    copied.recompile()
    return copied


def _positions(node: fx.Node) -> tuple[int, ...]:
    target = node.target
    known = isinstance(target, torch._ops.HigherOrderOperator) and target.__name__ in _BODIES
    return _BODIES[target.__name__][0] if known else ()  # type: ignore[union-attr]


def _lift(gm: fx.GraphModule, node: fx.Node) -> None:
    """Make operands of one call of what its bodies hold."""
    positions, last = _BODIES[node.target.__name__]  # type: ignore[union-attr]
    args = list(node.args)
    getters = [args[position] for position in positions]
    # Each call has bodies of its own, since each takes what the others of the call hold, too.
    bodies = [_own(attribute(gm, str(getter.target))) for getter in getters]  # type: ignore[union-attr]
    held = [_constants(body) for body in bodies]
    if not any(held):
        return
    operands = list(args[last])  # type: ignore[arg-type]
    with gm.graph.inserting_before(node):
        for owner, reads in zip(bodies, held, strict=True):
            for name, readers in reads.items():
                place = f"{node.name}_constant{len(operands)}"
                setattr(gm, place, attribute(owner, name))
                constant = gm.graph.create_node("get_attr", place)
                operands.append(gm.graph.call_function(aten.lift_fresh_copy.default, (constant,)))
                for body in bodies:
                    _take(body, place, readers if body is owner else [])
        args[last] = tuple(operands)
        for position, body in zip(positions, bodies, strict=True):
            place = f"{node.name}_body{position}"
            body.recompile()
            setattr(gm, place, body)
            args[position] = gm.graph.create_node("get_attr", place)
    node.args = tuple(args)
    for getter in getters:
        if not getter.users:  # type: ignore[union-attr]
            gm.graph.erase_node(getter)  # type: ignore[arg-type]


def _own(body: fx.GraphModule) -> fx.GraphModule:
    inner = without_body_constants(body)
    return inner if inner is not body else fx.GraphModule(body, copy.deepcopy(body.graph))


def _constants(body: fx.GraphModule) -> dict[str, list[fx.Node]]:
    """The nodes that read a tensor of the body, by its name."""
    found: dict[str, list[fx.Node]] = {}
    for node in body.graph.find_nodes(op="get_attr"):
        if isinstance(attribute(body, str(node.target)), torch.Tensor):
            found.setdefault(str(node.target), []).append(node)
    return found


def _take(body: fx.GraphModule, name: str, reads: list[fx.Node]) -> None:
    """Give a body one more input, in the place of what read a tensor of its own."""
    end = next(node for node in body.graph.nodes if node.op != "placeholder")
    with body.graph.inserting_before(end):
        given = body.graph.placeholder(name)
    for node in reads:
        for user in list(node.users):
            if user.target == aten.lift_fresh_copy.default:
                user.target = aten.clone.default
            user.replace_input_with(node, given)
        body.graph.erase_node(node)
