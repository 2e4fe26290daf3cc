"""Assertions that stay in a graph."""

import operator

import torch

from tests.fuzz.case import aten
from tests.fuzz.recipes.registry import recipe


@recipe("checks", 2)
def metadata(g):
    node = g.pick()
    value = node.meta["val"]
    sizes = None
    if all(isinstance(size, int) for size in (*value.shape, *value.stride())) and g.chance(0.5):
        sizes = list(value.shape), list(value.stride())
    dtype = value.dtype if g.chance(0.8) else None
    more = {"device": torch.device("cpu"), "layout": torch.strided} if g.chance(0.6) else {}
    return g.call(
        aten._assert_tensor_metadata.default, node, *(sizes or (None, None)), dtype, **more
    )


@recipe("checks", 1)
def size(g):
    if g.size_node is None:
        return g.call(aten._assert_scalar.default, True, "always")
    least = g.choose(1, 2, 2, 3)
    holds = g.call(operator.ge, g.size_node, least)
    return g.call(aten._assert_scalar.default, holds, f"at least {least}")


@recipe("checks", 1)
def condition(g):
    node = g.call(aten.full.default, [], True, dtype=torch.bool)
    if g.chance(0.5):
        node = g.call(aten.all.default, g.call(aten.eq.Tensor, node, node))
    return g.call(aten._assert_async.msg, node, "must hold")


@recipe("checks", 1)
def size_arithmetic(g):
    if g.size_node is None:
        return g.call(aten.scalar_tensor.default, 3)
    doubled = g.call(g.choose(operator.mul, operator.add), g.size_node, g.choose(1, 2, 0))
    back = g.call(operator.floordiv, doubled, g.choose(1, 2))
    return g.call(aten.full.default, [g.choose(doubled, back, g.size_node), 2], 1.0)
