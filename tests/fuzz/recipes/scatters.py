"""A part of a tensor replaced, functionally."""

from tests.fuzz.case import aten
from tests.fuzz.recipes.registry import recipe
from tests.fuzz.recipes.views import MAX, ranked


@recipe("scatters", 3)
def slice_scatter(g):
    node = g.pick(ranked(1))
    dim = g.dim(node)
    size = g.described_shape(node)[dim]
    bounds = g.choose(
        (0, MAX), (0, size), (1, MAX), (0, 1), (-1, MAX), (0, MAX, 2), (0, 0), (-MAX, MAX)
    )
    part = g.call(aten.slice.Tensor, node, dim, *bounds)
    if g.chance(0.5):
        part = g.call(g.choose(aten.neg.default, aten.clone.default), part)
    elif g.chance(0.5):
        part = g.like(part)
    base = node if g.chance(0.7) else g.like(node)
    whole = g.call(aten.slice_scatter.default, base, part, dim, *bounds)
    if g.chance(0.3):
        return g.call(aten.slice.Tensor, whole, dim, *bounds)
    if g.chance(0.2):
        return g.call(aten.slice_scatter.default, whole, g.like(part), dim, *bounds)
    return whole


@recipe("scatters", 2)
def select_scatter(g):
    node = g.pick(ranked(1))
    dim, at = g.dim(node), g.choose(0, -1, 0)
    part = g.call(aten.select.int, node, dim, at)
    if g.chance(0.5):
        part = g.call(aten.neg.default, part)
    whole = g.call(aten.select_scatter.default, node, part, dim, at)
    return g.call(aten.select.int, whole, dim, at) if g.chance(0.3) else whole


@recipe("scatters", 1)
def other_scatter(g):
    node = g.pick(ranked(2, 2))
    if g.chance(0.5):
        part = g.call(aten.diagonal.default, node)
        return g.call(aten.diagonal_scatter.default, node, g.choose(part, g.like(part)))
    value = node.meta["val"]
    if not all(isinstance(size, int) for size in value.shape):
        return None
    part = g.call(aten.clone.default, node)
    return g.call(aten.as_strided_scatter.default, node, part, list(value.shape), [*value.stride()])


@recipe("scatters", 1)
def index_put(g):
    node = g.pick(ranked(1))
    size = g.described_shape(node)[0]
    if g.chance(0.5):
        index = g.call(aten.arange.default, size)
        values = g.like(node)
    else:
        index = g.call(aten.full.default, [1], 0, dtype=g.real[node].new_zeros(0).long().dtype)
        values = g.call(aten.slice.Tensor, g.like(node), 0, 0, 1)
    return g.call(aten.index_put.default, node, [index], values, g.chance(0.2))
