"""Reductions, over dimensions of size 1 above all, and matrix products."""

import operator
from contextlib import suppress

import torch

from tests.fuzz.builder import Unfit, number
from tests.fuzz.case import aten
from tests.fuzz.recipes.copies import cast
from tests.fuzz.recipes.pointwise import UNARY
from tests.fuzz.recipes.registry import recipe
from tests.fuzz.recipes.views import RESHAPES, ranked

OVER_DIMS = (aten.sum.dim_IntList, aten.mean.dim, aten.amax.default, aten.amin.default)
OVER_DIM = (
    aten.prod.dim_int,
    aten.any.dim,
    aten.all.dim,
    aten.argmax.default,
    aten.argmin.default,
    aten.cumsum.default,
    aten.cumprod.default,
    aten.logsumexp.default,
)
WHOLE = tuple(
    getattr(aten, name).default for name in ("sum", "mean", "prod", "any", "all", "max", "min")
)
OVER_THESE = (aten.any.dims, aten.all.dims)


def has_one(value):
    return 1 in [number(size) for size in value.shape]


@recipe("reductions", 4)
def over_ones(g):
    node = g.pick(has_one)
    ones = [d for d, size in enumerate(g.described_shape(node)) if size == 1]
    return reduced(g, node, ones if g.chance(0.4) else [g.choose(*ones)])


@recipe("reductions", 1)
def over_some(g):
    node = g.pick(ranked(1))
    rank = node.meta["val"].dim()
    return reduced(g, node, [d - rank * g.chance(0.3) for d in range(rank) if g.chance(0.5)])


def reduced(g, node, dims):
    keep = g.chance(0.5)
    if dims and g.chance(0.5):
        target, where = g.choose(*OVER_DIM), dims[0]
        if target in (aten.cumsum.default, aten.cumprod.default):
            return g.call(target, node, where)
        if target is aten.logsumexp.default:
            return g.call(target, node, [where], keep)
        return g.call(target, node, where, keep)
    target = g.choose(*OVER_DIMS, *OVER_THESE)
    more = {}
    if target in OVER_DIMS[:2] and g.chance(0.15):
        more = {"dtype": g.choose(torch.float64, torch.float32, torch.float16, torch.int64)}
    return g.call(target, node, dims, keep, **more)


@recipe("reductions", 0.7)
def of_all(g):
    return g.call(g.choose(*WHOLE), g.pick())


@recipe("reductions", 0.7)
def with_two_results(g):
    node = g.pick(ranked(1))
    target = g.choose(aten.max.dim, aten.min.dim, aten.var_mean.correction, aten.sort.default)
    if target is aten.var_mean.correction:
        whole = g.call(target, node, [g.dim(node)], correction=0, keepdim=g.chance(0.5))
    elif target is aten.sort.default:
        whole = g.call(target, node, g.dim(node))
    else:
        whole = g.call(target, node, g.dim(node), g.chance(0.5))
    first = g.call(operator.getitem, whole, 0)
    return g.call(operator.getitem, whole, 1) if g.chance(0.5) else first


@recipe("reductions", 1)
def softmax(g):
    node = g.pick(ranked(1))
    target = g.choose(aten._softmax.default, aten._log_softmax.default)
    return g.call(target, node, g.dim(node), False)


@recipe("reductions", 0.5)
def layer_norm(g):
    node = g.pick(lambda value: value.dim() and value.dtype == torch.float32)
    whole = g.call(
        aten.native_layer_norm.default, node, [g.size(node, -1)], None, None, g.choose(0.0, 1e-5)
    )
    return g.call(operator.getitem, whole, 0)


def matrix(g, rank, dtypes=(torch.float32, torch.float32, torch.int64)):
    """A tensor of a rank, made from another if there is none."""
    dtype = g.choose(*dtypes)
    if g.chance(0.6):
        with suppress(Unfit):
            return g.pick(lambda value: value.dim() == rank and value.dtype == dtype)
    node = g.pick()
    if node.meta["val"].dtype != dtype:
        node = cast(g, node, dtype)
    for _ in range(node.meta["val"].dim(), rank):
        node = g.call(aten.unsqueeze.default, node, 0)
    if node.meta["val"].dim() > rank:
        sizes = g.sizes(node)
        joined = g.product(sizes[: len(sizes) - rank + 1])
        node = g.call(aten.reshape.default, node, [joined, *sizes[len(sizes) - rank + 1 :]])
    return node


@recipe("reductions", 1.5)
def mm(g):
    left = matrix(g, 2)
    right = g.call(aten.t.default, g.choose(left, g.like(left)))
    kind = g.choose("mm", "addmm", "addmm")
    if kind == "mm":
        return g.call(aten.mm.default, left, right)
    bias = g.choose(
        g.call(aten.zeros.default, [1], dtype=left.meta["val"].dtype),
        g.pick(lambda value: value.dim() <= 2),
    )
    scaled = {"beta": g.choose(0, 1, 2), "alpha": g.choose(1, 2)} if g.chance(0.3) else {}
    return g.call(aten.addmm.default, bias, left, right, **scaled)


@recipe("reductions", 1)
def bmm(g):
    left = matrix(g, 3)
    right = g.call(aten.transpose.int, g.choose(left, g.like(left)), 1, 2)
    if g.chance(0.3):
        size = number(left.meta["val"].shape[0])
        left = g.call(aten.expand.default, left, [size, -1, -1])
    return g.call(aten.bmm.default, left, right)


@recipe("reductions", 1.5)
def linear(g):
    """A layer on three dimensions: a product between two views, and what follows it."""
    node = matrix(g, 3, [torch.float32])
    batch, rows, columns = g.sizes(node)
    flat = g.call(aten.view.default, node, [g.product([batch, rows]), columns])
    weights = g.call(aten.t.default, g.choose(flat, g.like(flat)))
    width = g.size(weights, 1)
    result = g.call(aten.mm.default, flat, weights)
    current = g.call(g.choose(*RESHAPES), result, [batch, rows, width])
    for _ in range(g.choose(1, 1, 2, 3)):
        if g.chance(0.3):
            current = g.call(g.choose(aten.add.Tensor, aten.mul.Tensor), current, g.choose(0, 1, 2))
        elif g.chance(0.1):
            current = g.call(aten._to_copy.default, current, dtype=torch.float64)
        else:
            current = g.call(g.choose(*UNARY), current)
    if g.chance(0.5):
        return g.call(aten.view.default, current, [g.product([batch, rows]), width])
    return current
