"""Chains of values that no input has a part in."""

import torch

from tests.fuzz.builder import DTYPES, Unfit
from tests.fuzz.case import Storage, aten
from tests.fuzz.recipes.arithmetic import TENSOR_OPS, literal
from tests.fuzz.recipes.copies import cast
from tests.fuzz.recipes.pointwise import UNARY
from tests.fuzz.recipes.registry import recipe
from tests.fuzz.recipes.views import slice_of, some_shape

MAKERS = ("full", "zeros", "ones", "arange", "scalar", "eye", "owned", "owned", "linspace")


def maker(g):
    kind = g.choose(*MAKERS)
    dtype = {"dtype": g.choose(*DTYPES)} if g.chance(0.6) else {}
    shape = [g.choose(1, 2, 3, 0, 4) for _ in range(g.choose(0, 1, 1, 2))]
    if g.size_node is not None and g.chance(0.4):
        shape.insert(0, g.size_node)
    if kind == "full":
        return g.call(aten.full.default, shape, literal(g), **dtype)
    if kind in ("zeros", "ones"):
        return g.call(getattr(aten, kind).default, shape, **dtype)
    if kind == "arange":
        if g.chance(0.5):
            return g.call(aten.arange.default, shape[0] if shape else 3, **dtype)
        return g.call(aten.arange.start_step, 0, g.choose(3, 4), g.choose(1, 2), **dtype)
    if kind == "scalar":
        return g.call(aten.scalar_tensor.default, literal(g), **dtype)
    if kind == "eye":
        return g.call(aten.eye.default, g.choose(1, 2, 3))
    if kind == "linspace":
        return g.call(aten.linspace.default, 0, 1, g.choose(1, 3))
    return owned(g)


def owned(g):
    dtype = g.choose(torch.float32, torch.float32, *DTYPES)
    shape = [g.choose(1, 2, 3) for _ in range(g.choose(0, 1, 2))]
    length = 1
    for size in shape:
        length *= size
    storage = Storage(dtype, length, g.choose("special", "small", "ones", "zeros"), g.rng.random())
    return g.constant(storage.tensor().view(shape))


@recipe("constants", 3)
def one(g):
    return maker(g)


@recipe("constants", 4)
def chain(g):
    node = maker(g)
    for _ in range(g.choose(1, 2, 3)):
        node = step(g, node)
    return node


def step(g, node):
    kind = g.choose("cast", "slice", "view", "unary", "binary", "like", "clone", "expand")
    if kind == "cast":
        return cast(g, node, g.choose(*DTYPES))
    if kind == "slice":
        return slice_of(g, node)
    if kind == "view":
        return g.call(aten.view.default, node, some_shape(g, node))
    if kind == "unary":
        return g.call(g.choose(*UNARY), node)
    if kind == "binary":
        return g.call(g.choose(*TENSOR_OPS[:7]), node, g.choose(node, literal(g)))
    if kind == "like":
        return g.call(g.choose(aten.zeros_like.default, aten.ones_like.default), node)
    if kind == "clone":
        return g.call(aten.clone.default, node)
    return g.call(aten.expand.default, node, [2, *g.sizes(node)])


@recipe("constants", 3)
def used(g):
    """A constant chain with an input at its end."""
    node = g.pick()
    other = chain(g) if g.chance(0.5) else maker(g)
    return g.call(g.choose(*TENSOR_OPS[:7]), *g.choose((node, other), (other, node)))


@recipe("constants", 2)
def like(g):
    node = g.pick()
    made = g.call(
        g.choose(aten.zeros_like.default, aten.ones_like.default), node, **like_options(g, node)
    )
    return step(g, made) if g.chance(0.6) else made


def like_options(g, node):
    options = {"dtype": g.choose(*DTYPES)} if g.chance(0.3) else {}
    if g.chance(0.3):
        options["memory_format"] = g.choose(torch.contiguous_format, torch.preserve_format)
    return options


@recipe("constants", 1)
def masks(g):
    node = g.pick(lambda value: value.dim() == 2)
    target = g.choose(aten.tril.default, aten.triu.default)
    if g.chance(0.5):
        node = g.call(aten.ones_like.default, node)
    return g.call(target, node, g.choose(0, 1, -1, 9, -9))


@recipe("constants", 1)
def positions(g):
    """What a causal mask is made of."""
    size = g.size_node if g.size_node is not None else g.choose(2, 3, 4)
    row = g.call(aten.arange.default, size)
    column = g.call(aten.unsqueeze.default, row, 1)
    mask = g.call(g.choose(aten.ge.Tensor, aten.gt.Tensor, aten.sub.Tensor), column, row)
    if g.chance(0.5):
        zero = g.call(aten.scalar_tensor.default, 0.0)
        if mask.meta["val"].dtype != torch.bool:
            raise Unfit("no mask")
        return g.call(aten.where.self, mask, zero, g.call(aten.scalar_tensor.default, -1.0))
    return mask
