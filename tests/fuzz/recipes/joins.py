"""cat and stack, and what takes them apart again."""

import operator

from tests.fuzz.builder import Unfit
from tests.fuzz.case import aten
from tests.fuzz.recipes.registry import recipe
from tests.fuzz.recipes.views import MAX, parts_of, ranked, slice_of


@recipe("joins", 3)
def cat(g):
    node = g.pick(ranked(1))
    dim = g.dim(node)
    parts = [node]
    for _ in range(g.choose(0, 1, 1, 2, 3)):
        kind = g.choose("same", "like", "slice", "empty", "legacy")
        if kind == "same":
            parts.append(node)
        elif kind == "like":
            parts.append(g.like(node))
        elif kind == "slice":
            parts.append(g.call(aten.slice.Tensor, node, dim, g.choose(0, 1), g.choose(1, 2, MAX)))
        elif kind == "empty":
            parts.append(g.call(aten.slice.Tensor, node, dim, 0, 0))
        else:
            parts.append(g.call(aten.zeros.default, [0], dtype=node.meta["val"].dtype))
    g.rng.shuffle(parts)
    return g.call(aten.cat.default, parts, *((dim,) if dim or g.chance(0.5) else ()))


@recipe("joins", 3)
def cat_of_parts(g):
    """All parts of one tensor, put together again; now and then one is missing or misplaced."""
    node = g.pick(ranked(1))
    dim = g.dim(node)
    parts = parts_of(g, node, dim)
    if not parts:
        raise Unfit("no parts")
    if g.chance(0.2):
        g.rng.shuffle(parts)
    if g.chance(0.15) and len(parts) > 1:
        parts.pop()
    if g.chance(0.15):
        parts[0] = g.call(aten.relu.default, parts[0])
    if parts[0].meta["val"].dim() < node.meta["val"].dim():
        return g.call(aten.stack.default, parts, dim)
    return g.call(aten.cat.default, parts, dim if g.chance(0.9) else 0)


@recipe("joins", 3)
def part_of_cat(g):
    node, other = g.pick(ranked(1)), None
    other = g.like(node)
    dim = g.dim(node)
    joined = g.call(aten.cat.default, [node, other], dim)
    size = g.described_shape(node)[dim]
    start, end = g.choose((0, size), (size, MAX), (size, 2 * size), (0, size + 1), (1, size))
    if g.chance(0.25):
        sizes = [size, size]
        whole = g.call(aten.split_with_sizes.default, joined, sizes, dim)
        return g.call(operator.getitem, whole, g.choose(0, 1))
    return g.call(aten.slice.Tensor, joined, dim, start, end)


@recipe("joins", 2)
def stack(g):
    node = g.pick()
    parts = [node, *(g.choose(node, g.like(node)) for _ in range(g.choose(0, 1, 1, 2)))]
    rank = node.meta["val"].dim()
    dim = g.rng.randrange(-rank - 1, rank + 1)
    joined = g.call(aten.stack.default, parts, *((dim,) if dim or g.chance(0.5) else ()))
    kind = g.choose("none", "none", "select", "unbind", "slice")
    if kind == "select":
        return g.call(aten.select.int, joined, dim, g.rng.randrange(len(parts)))
    if kind == "unbind":
        whole = g.call(aten.unbind.int, joined, dim)
        return [g.call(operator.getitem, whole, i) for i in range(len(parts))]
    if kind == "slice":
        return slice_of(g, joined)
    return joined


@recipe("joins", 1.5)
def nested_cat(g):
    node = g.pick(ranked(1))
    dim = g.dim(node)
    inner = g.call(aten.cat.default, [node, g.like(node)], dim)
    parts = [inner, g.choose(node, g.like(node), inner)]
    g.rng.shuffle(parts)
    return g.call(aten.cat.default, parts, dim if g.chance(0.9) else g.dim(node))


@recipe("joins", 1)
def unsqueezed_cat(g):
    """What stack is made of."""
    node = g.pick()
    rank = node.meta["val"].dim()
    dim = g.rng.randrange(rank + 1)
    parts = [g.call(aten.unsqueeze.default, part, dim) for part in (node, g.like(node))]
    return g.call(aten.cat.default, parts, dim)


@recipe("joins", 1)
def repeated(g):
    node = g.pick(ranked(0, 3))
    rank = node.meta["val"].dim()
    times = [g.choose(1, 1, 2) for _ in range(rank + g.choose(0, 0, 1))]
    return g.call(aten.repeat.default, node, times)


@recipe("joins", 1)
def padded(g):
    node = g.pick(ranked(1))
    widths = [g.choose(0, 0, 1, -1) for _ in range(2 * g.choose(1, 1, 2))]
    return g.call(aten.constant_pad_nd.default, node, widths, *((1,) if g.chance(0.3) else ()))


@recipe("joins", 1)
def flipped(g):
    node = g.pick(ranked(1))
    dims = [d for d in range(node.meta["val"].dim()) if g.chance(0.6)]
    there = g.call(aten.flip.default, node, dims)
    return g.call(aten.flip.default, there, dims) if g.chance(0.5) else there


@recipe("joins", 1)
def indexed(g):
    node = g.pick(ranked(1))
    dim = g.dim(node)
    size = g.described_shape(node)[dim]
    index = (
        g.call(aten.arange.default, size)
        if g.chance(0.6)
        else g.call(
            aten.full.default, [g.choose(0, 1, 2)], 0, dtype=g.real[node].new_zeros(0).long().dtype
        )
    )
    if g.chance(0.5):
        return g.call(aten.index_select.default, node, dim, index)
    rank = node.meta["val"].dim()
    return g.call(aten.index.Tensor, node, [None] * (dim % rank) + [index])
