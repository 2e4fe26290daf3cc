"""Calls that are there already, exactly or nearly, and calls that undo the last ones."""

import operator

import torch
from torch import fx

from tests.fuzz.builder import Unfit
from tests.fuzz.case import aten
from tests.fuzz.recipes.copies import cast
from tests.fuzz.recipes.registry import recipe

TWINS = {0: (0, 0.0, -0.0, False), 1: (1, 1.0, True)}  # 0.0 and False are found under 0, too
VIEWS = (aten.view.default, aten._unsafe_view.default, aten.reshape.default)
UNDONE = {
    aten.add.Tensor: aten.sub.Tensor,
    aten.sub.Tensor: aten.add.Tensor,
    aten.mul.Tensor: aten.div.Tensor,
    aten.div.Tensor: aten.mul.Tensor,
}


def calls_of(g):
    return [node for node in g.graph.nodes if node.op == "call_function"]


def twin(g, value):
    choices = TWINS.get(value) if isinstance(value, (bool, int, float)) else None
    return g.choose(*choices) if choices and g.chance(0.3) else value


@recipe("repeats", 4)
def again(g):
    """The same call, or one that differs in the type of a literal only."""
    calls = [node for node in calls_of(g) if node.target is not aten.empty_like.default]
    if not calls:
        raise Unfit("no call")
    node = g.choose(*calls[-8:])
    args = tuple(twin(g, argument) for argument in node.args)
    return g.call(node.target, *args, **node.kwargs)


@recipe("repeats", 2)
def chain_again(g):
    """Two calls in a row, repeated as a pair."""
    chained = [
        node
        for node in calls_of(g)
        if node.args
        and isinstance(node.args[0], fx.Node)
        and node.args[0].op == "call_function"
        and aten.empty_like.default not in (node.target, node.args[0].target)
    ]
    if not chained:
        raise Unfit("no chain")
    node = g.choose(*chained[-6:])
    first = node.args[0]
    repeated = g.call(first.target, *first.args, **first.kwargs)
    return g.call(node.target, repeated, *node.args[1:], **node.kwargs)


@recipe("repeats", 4)
def undo(g):
    """What a recent call did, undone."""
    node = g.pick(lambda value: True)
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], fx.Node):
        raise Unfit("nothing to undo")
    target, source = node.target, node.args[0]
    before = source.meta.get("val")
    if not isinstance(before, torch.Tensor):
        raise Unfit("nothing to undo")
    if target in VIEWS:
        return g.call(g.choose(*VIEWS), node, g.sizes(source))
    if target is aten._to_copy.default:
        return cast(g, node, before.dtype)
    if target in (aten.t.default, aten.neg.default, aten.reciprocal.default, aten.alias.default):
        return g.call(target, node)
    if target is aten.unsqueeze.default:
        return g.call(aten.squeeze.dim, node, node.args[1])
    if target is aten.transpose.int:
        return g.call(target, node, *node.args[1:])
    if target is aten.permute.default:
        rank = before.dim()
        order = [dim % rank for dim in node.args[1]] if rank else []
        return g.call(target, node, sorted(range(rank), key=order.__getitem__))
    if target in UNDONE and len(node.args) == 2:
        return g.call(UNDONE[target], node, node.args[1])
    if target is operator.getitem:
        raise Unfit("a part")
    if before.dtype == node.meta["val"].dtype:
        return g.call(aten.copy.default, source, node)
    return cast(g, node, before.dtype)
