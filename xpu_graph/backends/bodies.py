"""Tensors that the bodies of higher-order operators hold, handed over as operands instead.

A compiler that traces a graph again finds such a tensor outside of what it traces, and fails on it.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import fx

from xpu_graph.fx import aten, attribute

_Path = tuple[int, ...]
_BODIES: dict[str, list[tuple[list[_Path], int | None]]] = {
    "associative_scan": [([(0,)], 2)],
    "cond": [([(1,), (2,)], 3)],
    "flex_attention": [([(3,)], 7), ([(4, -1)], 8)],
    "invoke_subgraph": [([(0,)], None)],
    "map_impl": [([(0,)], 2)],
    "scan": [([(0,)], 3)],
    "while_loop": [([(0,), (1,)], 3)],
    "while_loop_stack_output": [([(0,), (1,)], 3)],
}
"""By operator: bodies that take the same, and the argument whose entries are the last they take.

A body is given by its place among the arguments; None stands for the arguments themselves.
"""


def without_body_constants(gm: fx.GraphModule) -> fx.GraphModule:
    """A graph like this one, in which no body holds a tensor of its own, at any depth.

    Args:
        gm: the graph, which is not changed.

    Returns:
        ``gm`` itself where it calls no operator with bodies.
    """
    if not any(_bodies(node) for node in gm.graph.nodes):
        return gm
    copied = fx.GraphModule(gm, copy.deepcopy(gm.graph))
    for node in list(copied.graph.nodes):
        for places, last in _bodies(node):
            _lift(copied, node, places, last)
    copied.recompile()
    return copied


def _bodies(node: fx.Node) -> list[tuple[list[_Path], int | None]]:
    target = node.target
    is_known = isinstance(target, torch._ops.HigherOrderOperator)
    return _BODIES.get(target.__name__, []) if is_known else []  # type: ignore[union-attr]


def _lift(gm: fx.GraphModule, node: fx.Node, places: list[_Path], last: int | None) -> None:
    """Make operands of one call of what its bodies hold."""
    getters = [_entry(node.args, place) for place in places]
    # Each call has bodies of its own, since each takes what the others of the call hold, too.
    bodies = [_own(attribute(gm, str(getter.target))) for getter in getters]
    held = [_constants(body) for body in bodies]
    if not any(held):
        return
    operands: list[fx.Node] = []
    args: Any = node.args
    with gm.graph.inserting_before(node):
        for owner, reads in zip(bodies, held, strict=True):
            for name, readers in reads.items():
                made = f"{node.name}_{last}_constant{len(operands)}"
                setattr(gm, made, attribute(owner, name))
                constant = gm.graph.create_node("get_attr", made)
                operands.append(gm.graph.call_function(aten.lift_fresh_copy.default, (constant,)))
                for body in bodies:
                    _take(body, made, readers if body is owner else [])
        for number, (place, body) in enumerate(zip(places, bodies, strict=True)):
            body.recompile()
            made = f"{node.name}_{last}_body{number}"
            setattr(gm, made, body)
            args = _replaced(args, place, gm.graph.create_node("get_attr", made))
    if last is None:
        node.args = (*args, *operands)
    else:
        node.args = _replaced(args, (last,), (*args[last], *operands))
    for getter in getters:
        if not getter.users:
            gm.graph.erase_node(getter)


def _entry(args: Any, place: _Path) -> Any:
    for index in place:
        args = args[index]
    return args


def _replaced(args: Any, place: _Path, value: Any) -> tuple[Any, ...]:
    index, *rest = place
    changed = list(args)
    changed[index] = _replaced(args[index], tuple(rest), value) if rest else value
    return tuple(changed)


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
