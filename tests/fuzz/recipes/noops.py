"""Operators that give what they were given, or nearly: the arguments decide."""

import math

import torch
from torch import fx

from tests.fuzz.builder import FLOATS
from tests.fuzz.case import aten
from tests.fuzz.recipes.arithmetic import with_negative_zero
from tests.fuzz.recipes.registry import recipe
from tests.fuzz.recipes.views import MAX, ranked, some_shape

ROUNDINGS = ("ceil", "floor", "round", "trunc")
EXTREMES = (aten.maximum.default, aten.minimum.default, aten.fmax.default, aten.fmin.default)


@recipe("noops", 2)
def view_copy(g):
    """The copying twin of a view, often of one that changes nothing."""
    node = g.pick(ranked(1))
    kind = g.choose("expand", "view", "reshape", "squeeze", "slice", "narrow", "alias", "detach")
    if kind == "expand":
        return g.call(aten.expand_copy.default, node, g.choose(g.sizes(node), [2, *g.sizes(node)]))
    if kind == "view":
        return g.call(aten.view_copy.default, node, some_shape(g, node))
    if kind == "reshape":
        return g.call(aten._reshape_copy.default, node, some_shape(g, node))
    if kind == "squeeze":
        if g.chance(0.5):
            return g.call(aten.squeeze_copy.default, node)
        return g.call(aten.squeeze_copy.dim, node, g.dim(node))
    if kind == "slice":
        bounds = g.choose((0, MAX), (0, MAX, 2), (1, MAX))
        return g.call(aten.slice_copy.Tensor, node, g.dim(node), *bounds)
    if kind == "narrow":
        dim = g.dim(node)
        return g.call(aten.narrow_copy.default, node, dim, g.choose(0, 0, 1), g.size(node, dim))
    return g.call(g.choose(aten.alias_copy.default, aten.detach_copy.default), node)


@recipe("noops", 2)
def moved(g):
    """Elements moved by nothing, by all of a dimension, or by less."""
    node = g.pick(ranked(1))
    kind = g.choose("roll", "roll", "rot90", "flip")
    if kind == "roll":
        dim = g.dim(node)
        shift = g.choose(0, 0, 1, g.described_shape(node)[dim])
        return g.call(aten.roll.default, node, [shift], *g.choose(([dim],), ([dim],), ()))
    if kind == "flip":
        return g.call(aten.flip.default, node, [g.dim(node)])
    node = g.pick(ranked(2))
    return g.call(aten.rot90.default, node, g.choose(0, 4, -4, 1, 2), [0, 1])


@recipe("noops", 1)
def padded_by_little(g):
    rank = g.choose(1, 1, 2)
    node = g.pick(ranked(rank + 1, rank + 2))
    name = f"{g.choose('reflection', 'replication')}_pad{rank}d"
    widths = [g.choose(0, 0, 0, 1) for _ in range(2 * rank)]
    return g.call(getattr(aten, name).default, node, widths)


@recipe("noops", 0.5)
def shuffled(g):
    node = g.pick(ranked(3, 4))
    target = g.choose(aten.pixel_shuffle.default, aten.pixel_unshuffle.default)
    return g.call(target, node, g.choose(1, 1, 2))


@recipe("noops", 3)
def bounded(g):
    """Bounds at the end of what the dtype holds, or within it; as literals and as tensors."""
    node = g.pick()
    dtype = node.meta["val"].dtype
    low, high = -math.inf, math.inf
    if not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool):
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        if g.chance(0.1):
            low, high = low - 1, high + 1
    low, high = g.choose(
        (low, high), (low, high), (low, None), (None, high), (0, high), (high, low)
    )
    kind = g.choose("clamp", "clamp", "tensors", "one", "extreme")
    if kind == "clamp":
        return g.call(aten.clamp.default, node, low, high)
    low, high = (
        None if b is None else g.call(aten.full.default, [], b, dtype=dtype) for b in (low, high)
    )
    if kind == "tensors":
        return g.call(aten.clamp.Tensor, node, low, high)
    if kind == "one":
        if low is None:
            return g.call(aten.clamp_max.Tensor, node, high)
        return g.call(aten.clamp_min.Tensor, node, low)
    operands = [node, high if low is None else low]
    if g.chance(0.5):
        operands.reverse()
    return g.call(g.choose(*EXTREMES), *operands)


@recipe("noops", 2)
def rounded(g):
    node = g.pick()
    for name in (g.choose(*ROUNDINGS) for _ in range(g.choose(1, 2))):
        node = g.call(getattr(aten, name).default, node)
    return node


@recipe("noops", 1)
def numbers_for_nan(g):
    return g.call(aten.nan_to_num.default, g.pick(), *g.choose((), (0.0,), (1.0, 2.0)))


@recipe("noops", 1)
def embedded(g):
    """Rows taken by an index that counts, or counts otherwise."""
    node = g.pick(ranked(2, 2))
    size = g.described_shape(node)[0]
    if not size:
        return None
    index = g.choose(
        (aten.arange.default, size),
        (aten.arange.start, 0, size),
        (aten.arange.start_step, 0, size, 1),
        (aten.arange.start_step, 0, size, 2),
        (aten.arange.default, max(1, size - 1)),
    )
    if g.chance(0.2):
        return g.call(aten.embedding.default, node, g.call(index[0], *index[1:], dtype=torch.int32))
    return g.call(aten.embedding.default, node, g.call(*index))


@recipe("noops", 2)
def of_one_operand(g):
    node = g.pick()
    target = g.choose(
        *EXTREMES,
        aten.lt.Tensor,
        aten.le.Tensor,
        aten.eq.Tensor,
        aten.ne.Tensor,
        aten.sub.Tensor,
        aten.div.Tensor,
        aten.bitwise_xor.Tensor,
        aten.logical_xor.default,
    )
    return g.call(target, node, node)


@recipe("noops", 4)
def never_negative(g):
    """What has no sign, and operators that then change nothing."""
    node = g.pick(lambda value: value.dtype.is_floating_point)
    if g.chance(0.5):
        node = with_negative_zero(g)
    source = g.choose("abs", "exp", "sigmoid", "relu", "square", "sqrt", "rsqrt", "cosh", "exp2")
    current = g.call(getattr(aten, source).default, node)
    if g.chance(0.3):
        target = g.choose(aten.add.Tensor, aten.sub.Tensor)
        operands = [current, g.choose(current, 1, -1, node)]
        if isinstance(operands[1], fx.Node) and g.chance(0.5):
            operands.reverse()
        current = g.call(target, *operands)
    if g.chance(0.3):
        current = g.call(aten._to_copy.default, current, dtype=g.choose(*FLOATS))
    kind = g.choose("abs", "relu", "add", "sum", "mean", "cumsum")
    if kind in ("abs", "relu"):
        return g.call(getattr(aten, kind).default, current)
    if kind == "add":
        return g.call(aten.add.Tensor, current, g.choose(0.0, 0, -0.0))
    current = g.call(aten.unsqueeze.default, current, 0)
    if kind == "cumsum":
        return g.call(aten.cumsum.default, current, 0)
    target = aten.sum.dim_IntList if kind == "sum" else aten.mean.dim
    return g.call(target, current, [0], g.chance(0.5))
