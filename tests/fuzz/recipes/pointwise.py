"""Pointwise functions, comparisons, and functions applied twice."""

import torch

from tests.fuzz.case import aten
from tests.fuzz.recipes.registry import recipe

NAMES = (
    "abs acos atan ceil cos erf exp expm1 floor gelu hardswish isinf isnan leaky_relu log log1p "
    "logical_not neg reciprocal relu round rsqrt sigmoid sign signbit silu sin softplus sqrt "
    "square tanh trunc positive sgn"
)
UNARY = tuple(getattr(aten, name).default for name in NAMES.split())
TWICE_NAMES = ("neg", "abs", "relu", "ceil", "logical_not", "bitwise_not", "sign")
TWICE = tuple(getattr(aten, name).default for name in TWICE_NAMES)
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@recipe("pointwise", 6)
def unary(g):
    return g.call(g.choose(*UNARY), g.pick())


@recipe("pointwise", 2)
def twice(g):
    target = g.choose(*TWICE)
    return g.call(target, g.call(target, g.pick()))


@recipe("pointwise", 1)
def clamped(g):
    node = g.pick()
    if g.chance(0.3):
        return g.call(g.choose(aten.clamp_min.default, aten.clamp_max.default), node, 0)
    low, high = g.choose((None, 1), (0, None), (-1, 1), (0.0, 6.0), (-float("inf"), float("inf")))
    return g.call(aten.clamp.default, node, low, high)


@recipe("pointwise", 2)
def compared(g):
    node = g.pick()
    name = g.choose(*COMPARISONS)
    if g.chance(0.4):
        return g.call(getattr(aten, name).Scalar, node, g.choose(0, 1, 0.0, float("nan"), True))
    return g.call(getattr(aten, name).Tensor, node, g.choose(node, g.like(node)))


@recipe("pointwise", 1)
def logical(g):
    node = g.pick(lambda value: value.dtype == torch.bool or g.chance(0.2))
    target = g.choose(
        aten.logical_and.default,
        aten.logical_or.default,
        aten.bitwise_and.Tensor,
        aten.bitwise_or.Tensor,
        aten.bitwise_xor.Tensor,
    )
    return g.call(target, node, g.choose(node, g.like(node)))


@recipe("pointwise", 1)
def under_a_view(g):
    """A view, a pointwise function, and the view undone: work for what moves views about."""
    node = g.pick(lambda value: value.dim() >= 2)
    rank = node.meta["val"].dim()
    order = list(range(rank))
    g.rng.shuffle(order)
    current = g.call(aten.permute.default, node, order)
    for _ in range(g.choose(1, 1, 2)):
        current = g.call(g.choose(*UNARY), current)
    return g.call(aten.permute.default, current, sorted(range(rank), key=order.__getitem__))
