"""Views, and views that undo views."""

import operator

import torch

from tests.fuzz.builder import Unfit, number
from tests.fuzz.case import aten
from tests.fuzz.recipes.registry import recipe

MAX = 9223372036854775807
RESHAPES = (aten.view.default, aten.view.default, aten._unsafe_view.default, aten.reshape.default)


def ranked(low, high=9):
    return lambda value: low <= value.dim() <= high


def some_shape(g, node):
    """A shape with as many elements: dimensions joined, split, added, or none changed."""
    sizes = g.sizes(node)
    for _ in range(g.choose(0, 1, 1, 2)):
        rank = len(sizes)
        kind = g.choose("join", "split", "one", "drop", "flat")
        if kind == "join" and rank > 1:
            at = g.rng.randrange(rank - 1)
            sizes[at : at + 2] = [g.product(sizes[at : at + 2])]
        elif kind == "split" and rank:
            at = g.rng.randrange(rank)
            divisor = g.choose(2, 3)
            if isinstance(sizes[at], int) and sizes[at] and sizes[at] % divisor == 0:
                sizes[at : at + 1] = [divisor, sizes[at] // divisor]
        elif kind == "one":
            sizes.insert(g.rng.randrange(rank + 1), 1)
        elif kind == "drop":
            sizes = [size for size in sizes if size != 1]
        elif kind == "flat":
            sizes = [g.product(sizes)]
    if sizes and g.chance(0.15) and 0 not in sizes:
        sizes[g.rng.randrange(len(sizes))] = -1
    return sizes


@recipe("views", 3)
def reshape(g):
    node = g.pick()
    return g.call(g.choose(*RESHAPES), node, some_shape(g, node))


@recipe("views", 2)
def reshape_there_and_back(g):
    node = g.pick()
    there = g.call(g.choose(*RESHAPES), node, some_shape(g, node))
    if g.chance(0.4):
        there = g.call(g.choose(aten.relu.default, aten.neg.default, aten.clone.default), there)
    return g.call(g.choose(*RESHAPES), there, g.sizes(node))


@recipe("views", 2)
def permute(g):
    node = g.pick(ranked(1))
    rank = node.meta["val"].dim()
    dims = list(range(rank))
    if g.chance(0.8):
        g.rng.shuffle(dims)
    return g.call(aten.permute.default, node, [d - rank * g.chance(0.2) for d in dims])


@recipe("views", 2)
def transpose(g):
    node = g.pick(ranked(1))
    return g.call(aten.transpose.int, node, g.dim(node), g.dim(node))


@recipe("views", 2)
def t(g):
    return g.call(aten.t.default, g.pick(ranked(0, 2)))


@recipe("views", 2)
def permute_back(g):
    node = g.pick(ranked(2))
    rank = node.meta["val"].dim()
    order = list(range(rank))
    g.rng.shuffle(order)
    there = g.call(aten.permute.default, node, order)
    if g.chance(0.3):
        there = g.call(g.choose(aten.sin.default, aten.clone.default), there)
    back = sorted(range(rank), key=order.__getitem__)
    if rank == 2 and g.chance(0.5):
        return g.call(aten.t.default, there)
    return g.call(aten.permute.default, there, back)


@recipe("views", 2)
def expand(g):
    node = g.pick()
    sizes = [
        g.choose(1, 2, 3, -1) if size == 1 and g.chance(0.7) else (-1 if g.chance(0.3) else size)
        for size in g.sizes(node)
    ]
    leading = [g.choose(1, 2) for _ in range(g.choose(0, 0, 0, 1, 2))]
    return g.call(aten.expand.default, node, leading + sizes)


@recipe("views", 2)
def squeeze(g):
    node = g.pick(lambda value: g.chance(0.1) or 1 in [number(size) for size in value.shape])
    kind = g.choose("all", "dim", "dims")
    if kind == "all":
        return g.call(aten.squeeze.default, node)
    if kind == "dim":
        ones = [d for d, size in enumerate(g.described_shape(node)) if size == 1 or g.chance(0.1)]
        return g.call(aten.squeeze.dim, node, g.choose(*ones) if ones else 0)
    dims = [d for d in range(node.meta["val"].dim()) if g.chance(0.5)]
    return g.call(aten.squeeze.dims, node, dims)


@recipe("views", 2)
def unsqueeze(g):
    node = g.pick(ranked(0, 4))
    rank = node.meta["val"].dim()
    at = g.rng.randrange(-rank - 1, rank + 1)
    there = g.call(aten.unsqueeze.default, node, at)
    if g.chance(0.4):
        return g.call(aten.squeeze.dim, there, at)
    return there


@recipe("views", 4)
def slices(g):
    return slice_of(g, g.pick(ranked(1)))


def slice_of(g, node):
    dim = g.dim(node)
    size = g.described_shape(node)[dim]
    form = g.choose("whole", "whole", "tail", "head", "step", "odd", "none")
    if form == "whole":
        start = g.choose(0, 0, -size, -MAX, None)
        end = g.choose(MAX, MAX, size, size + 3, None)
        if g.chance(0.2):
            end = g.size(node, dim)
        return g.call(aten.slice.Tensor, node, dim, start, end)
    if form == "tail":
        return g.call(aten.slice.Tensor, node, dim, g.rng.randrange(-size - 1, size + 2), MAX)
    if form == "head":
        return g.call(aten.slice.Tensor, node, dim, 0, g.rng.randrange(-size - 1, size + 2))
    if form == "step":
        return g.call(aten.slice.Tensor, node, dim, g.choose(0, 0, 1), MAX, g.choose(1, 2, 3))
    if form == "odd":
        bounds = [g.rng.randrange(-size - 2, size + 3) for _ in range(2)]
        return g.call(aten.slice.Tensor, node, dim, *bounds, g.choose(1, 1, 2))
    return g.call(aten.slice.Tensor, node, *g.choose((), (dim,)))


@recipe("views", 1)
def slice_of_slice(g):
    node = g.pick(ranked(1))
    return slice_of(g, slice_of(g, node))


@recipe("views", 2)
def select(g):
    node = g.pick(ranked(1))
    dim = g.dim(node)
    size = g.described_shape(node)[dim]
    if not size:
        raise Unfit("nothing to select")
    return g.call(aten.select.int, node, dim, g.rng.randrange(-size, size))


def parts_of(g, node, dim):
    """All parts of a tensor cut along a dimension, in order."""
    size = number(node.meta["val"].shape[dim])
    kind = g.choose("split", "sizes", "unbind", "slices")
    if kind == "slices":
        cut = g.rng.randrange(size + 1)
        return [
            g.call(aten.slice.Tensor, node, dim, 0, cut),
            g.call(aten.slice.Tensor, node, dim, cut, g.choose(MAX, size)),
        ]
    if kind == "split":
        whole = g.call(aten.split.Tensor, node, g.rng.randrange(1, size + 2), dim)
    elif kind == "unbind":
        whole = g.call(aten.unbind.int, node, dim)
    else:
        cut = g.rng.randrange(size + 1)
        sizes = [cut, size - cut]
        if g.chance(0.2):
            sizes.insert(g.rng.randrange(3), 0)
        whole = g.call(aten.split_with_sizes.default, node, sizes, dim)
    return [g.call(operator.getitem, whole, i) for i in range(len(whole.meta["val"]))]


@recipe("views", 2)
def split(g):
    node = g.pick(ranked(1))
    parts = parts_of(g, node, g.dim(node))
    if parts and g.chance(0.3):  # the same item, taken again
        source = parts[-1]
        if source.target is operator.getitem:
            g.call(operator.getitem, *source.args)
    return parts


@recipe("views", 1)
def same_tensor(g):
    return g.call(g.choose(aten.alias.default, aten.detach.default), g.pick())


@recipe("views", 1)
def as_strided(g):
    node = g.pick(lambda value: all(isinstance(size, int) for size in value.shape))
    value = node.meta["val"]
    if g.chance(0.4):  # where it lies anyway
        offset = g.choose((), (value.storage_offset(),))
        return g.call(aten.as_strided.default, node, list(value.shape), [*value.stride()], *offset)
    rank = g.choose(0, 1, 2)
    size = [g.choose(1, 2, 3) for _ in range(rank)]
    stride = [g.choose(0, 1, 2, 3) for _ in range(rank)]
    return g.call(aten.as_strided.default, node, size, stride, g.choose(0, 0, 1))


@recipe("views", 1)
def diagonal(g):
    node = g.pick(ranked(2))
    first, second = g.rng.sample(range(node.meta["val"].dim()), 2)
    return g.call(aten.diagonal.default, node, g.choose(0, 0, 1, -1), first, second)


@recipe("views", 1.5)
def other_reading(g):
    """The same bytes as numbers of another kind."""
    kind = g.choose("complex", "real", "conj", "bits")
    if kind == "complex":
        node = g.pick(lambda value: value.dtype == torch.float32 and value.dim())
        return g.call(aten.view_as_complex.default, node)
    if kind in ("real", "conj"):
        node = g.pick(lambda value: value.dtype.is_complex)
        if kind == "real":
            return g.call(aten.view_as_real.default, node)
        return g.call(g.choose(aten._conj.default, aten.conj_physical.default), node)
    node = g.pick(lambda value: value.dtype in (torch.float32, torch.int32))
    other = torch.int32 if node.meta["val"].dtype == torch.float32 else torch.float32
    there = g.call(aten.view.dtype, node, other)
    return g.call(aten.view.dtype, there, node.meta["val"].dtype) if g.chance(0.5) else there
