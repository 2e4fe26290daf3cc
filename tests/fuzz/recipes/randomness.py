"""Operators that draw numbers."""

import operator

import torch

from tests.fuzz.builder import FLOATS
from tests.fuzz.case import aten
from tests.fuzz.recipes.registry import recipe


@recipe("randomness", 2)
def fresh(g):
    shape = [g.choose(1, 2, 3) for _ in range(g.choose(0, 1, 2))]
    kind = g.choose("rand", "randn", "randint", "randperm")
    if kind == "randint":
        return g.call(aten.randint.default, 5, shape)
    if kind == "randperm":
        return g.call(aten.randperm.default, g.choose(1, 3))
    return g.call(getattr(aten, kind).default, shape)


@recipe("randomness", 2)
def like(g):
    node = g.pick(lambda value: value.dtype in FLOATS)
    return g.call(g.choose(aten.rand_like.default, aten.randn_like.default), node)


@recipe("randomness", 2)
def dropout(g):
    node = g.pick(lambda value: value.dtype in FLOATS)
    rate = g.choose(0.0, 0.5, 1.0)
    whole = g.call(aten.native_dropout.default, node, rate, g.choose(True, True, False))
    first = g.call(operator.getitem, whole, 0)
    return g.call(operator.getitem, whole, 1) if g.chance(0.3) else first


@recipe("randomness", 1)
def coins(g):
    node = g.pick(lambda value: value.dtype in (torch.float32, torch.float64))
    if g.chance(0.5):
        return g.call(aten.bernoulli.p, node, g.choose(0.0, 0.5, 1.0))
    return g.call(aten.bernoulli.default, g.call(aten.rand_like.default, node))
