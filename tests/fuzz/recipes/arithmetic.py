"""Arithmetic whose other operand may change nothing."""

import torch

from tests.fuzz.builder import DTYPES
from tests.fuzz.case import aten
from tests.fuzz.recipes.copies import cast
from tests.fuzz.recipes.registry import recipe

ZEROS = (0, 0.0, 0.0, -0.0, -0.0, False)
ONES = (1, 1.0, True)
OTHERS = (2, -1, 0.5, float("inf"), float("nan"), -1.0)
TENSOR_OPS = (
    aten.add.Tensor,
    aten.add.Tensor,
    aten.sub.Tensor,
    aten.sub.Tensor,
    aten.mul.Tensor,
    aten.mul.Tensor,
    aten.div.Tensor,
    aten.rsub.Scalar,
    aten.rsub.Tensor,
    aten.pow.Tensor_Tensor,
    aten.maximum.default,
    aten.minimum.default,
    aten.true_divide.Tensor,
)
SCALAR_OPS = (
    aten.add.Scalar,
    aten.sub.Scalar,
    aten.mul.Scalar,
    aten.div.Scalar,
    aten.pow.Tensor_Scalar,
    aten.remainder.Scalar,
    aten.pow.Scalar,
    aten.bitwise_or.Scalar,
    aten.bitwise_and.Scalar,
    aten.bitwise_xor.Scalar,
)
DEFAULT = "default"


def literal(g):
    return g.choose(*g.choose(ZEROS, ZEROS, ONES, ONES, OTHERS))


def constant_like(g, node, number):
    """A tensor of one number that broadcasts with a node: same shape, size 1, or 0-dim."""
    value = node.meta["val"]
    dtype = value.dtype if g.chance(0.7) else g.choose(*DTYPES)
    kind = g.choose("full", "full", "like", "new", "scalar", "owned", "named")
    shape = g.choose(
        g.sizes(node), [], [1] * value.dim(), [1], g.sizes(node)[1:], [1, *g.sizes(node)]
    )
    given = {"dtype": dtype} if dtype != value.dtype or g.chance(0.5) else {}
    if kind == "full":
        return g.call(aten.full.default, shape, number, dtype=dtype)
    if kind == "like":
        return g.call(aten.full_like.default, node, number, **given)
    if kind == "new":
        return g.call(aten.new_full.default, node, shape, number, **given)
    if kind == "scalar":
        return g.call(aten.scalar_tensor.default, number, dtype=dtype)
    if kind == "owned":
        if not dtype.is_floating_point and not isinstance(number, int):
            number = 1
        sizes = [1] * g.choose(0, 1, value.dim())
        return g.constant(torch.full(sizes, number, dtype=dtype))
    if number == 0:
        maker = g.choose(aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default)
    else:
        maker = g.choose(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
    arguments = {"zeros": (shape,), "ones": (shape,), "new_zeros": (node, shape)}
    arguments |= {"new_ones": (node, shape)}
    return g.call(
        maker, *arguments.get(maker._schema.name.removeprefix("aten::"), (node,)), **given
    )


@recipe("arithmetic", 4)
def with_literal(g):
    node = g.pick()
    number = literal(g)
    if g.chance(0.35):
        return g.call(g.choose(*SCALAR_OPS[:5]), node, number)
    return g.call(g.choose(*TENSOR_OPS[:7]), node, number, **alpha(g))


NEUTRAL = (
    (aten.add.Tensor, ZEROS),
    (aten.sub.Tensor, ZEROS),
    (aten.mul.Tensor, ONES),
    (aten.div.Tensor, ONES),
    (aten.pow.Tensor_Scalar, ONES),
)


def with_negative_zero(g):
    """A tensor that holds -0.0, if there is one."""
    holding = [
        node
        for node in g.tensors
        if node.meta["val"].dtype.is_floating_point
        and bool(((g.real[node] == 0) & g.real[node].signbit()).any())
    ]
    return g.choose(*holding[-6:]) if holding else g.pick()


@recipe("arithmetic", 14)
def neutral(g):
    """What changes nothing but perhaps the sign of a zero, and a reader of the result."""
    node = with_negative_zero(g) if g.chance(0.5) else g.pick()
    target, numbers = g.choose(*NEUTRAL)
    number = g.choose(*numbers)
    operands = [node, number]
    if target is not aten.pow.Tensor_Scalar and g.chance(0.4):
        operands[1] = constant_like(g, node, number)
        if g.chance(0.4):
            operands.reverse()
    takes_alpha = target in (aten.add.Tensor, aten.sub.Tensor)
    result = g.call(target, *operands, **(alpha(g) if takes_alpha else {}))
    if g.chance(0.5):
        return g.call(
            g.choose(aten.reciprocal.default, aten.neg.default, aten.clone.default), result
        )
    return result


def alpha(g):
    return {"alpha": g.choose(1, 2, 2, 1.0)} if g.chance(0.1) else {}


@recipe("arithmetic", 6)
def with_constant(g):
    node = g.pick()
    operands = [node, constant_like(g, node, literal(g))]
    if g.chance(0.4):
        operands.reverse()
    return g.call(g.choose(*TENSOR_OPS), *operands, **alpha(g))


@recipe("arithmetic", 2)
def with_scalar(g):
    node = g.pick()
    target = g.choose(*SCALAR_OPS, aten.rsub.Scalar)
    if target is aten.pow.Scalar:
        return g.call(target, g.choose(0, 1, 1.0, 2), node)
    return g.call(target, node, literal(g))


@recipe("arithmetic", 1)
def powers(g):
    return g.call(aten.pow.Tensor_Scalar, g.pick(), g.choose(0, 1, 2, 0.5, 1.0, 3, -1, 2.0, -0.5))


@recipe("arithmetic", 2)
def rounded_division(g):
    node = g.pick()
    mode = g.choose("floor", "trunc", None)
    divisor = g.choose(1, 1.0, 2, constant_like(g, node, 1))
    return g.call(aten.div.Tensor_mode, node, divisor, rounding_mode=mode)


@recipe("arithmetic", 6)
def two_tensors(g):
    left = g.pick()
    right = g.like(left) if g.chance(0.85) else g.pick()
    return g.call(g.choose(*TENSOR_OPS), left, right, **alpha(g))


@recipe("arithmetic", 2)
def chained(g):
    """Scalars one after the other; what two of them make is not always what one would."""
    node = g.pick()
    target = g.choose(aten.add.Tensor, aten.mul.Tensor, aten.sub.Tensor, aten.div.Tensor)
    number = g.choose(2, 0.1, 1, -1, 3.0)
    return g.call(target, g.call(target, node, number), g.choose(number, -number, 0.5))


@recipe("arithmetic", 1)
def promoted(g):
    """Tensors of two dtypes, one of them perhaps 0-dim."""
    left = g.pick()
    other = g.choose(*DTYPES)
    right = g.call(aten.scalar_tensor.default, g.choose(0, 1), dtype=other)
    if g.chance(0.5):
        right = cast(g, g.like(left), other)
    return g.call(g.choose(*TENSOR_OPS[:7]), left, right)


@recipe("arithmetic", 3)
def where(g):
    left = g.pick()
    right = g.choose(left, g.like(left), constant_like(g, left, literal(g)))
    condition = a_condition(g, left)
    if g.chance(0.15):
        return g.call(aten.where.ScalarOther, condition, left, literal(g))
    pair = [left, right]
    if g.chance(0.5):
        pair.reverse()
    return g.call(aten.where.self, condition, *pair)


def a_condition(g, node):
    """A tensor of booleans, often of one value only."""
    shape = g.choose(g.sizes(node), [], [1], g.sizes(node))
    kind = g.choose("full", "full", "ones", "zeros", "owned", "compare", "any")
    if kind == "full":
        return g.call(aten.full.default, shape, g.chance(0.5), dtype=torch.bool)
    if kind == "ones":
        return g.call(aten.ones.default, shape, dtype=torch.bool)
    if kind == "zeros":
        return g.call(aten.zeros_like.default, node, dtype=torch.bool)
    if kind == "owned":
        return g.constant(torch.tensor([g.chance(0.5)]))
    if kind == "compare":
        return g.call(aten.ge.Scalar, node, 0)
    return g.pick(lambda value: value.dtype == torch.bool)


@recipe("arithmetic", 2)
def nested_where(g):
    """Choices by one condition, one inside the other, and by its opposite."""
    node = g.pick()
    condition = g.call(g.choose(aten.ge.Scalar, aten.ne.Scalar), node, g.choose(0, 1))
    if g.chance(0.3):
        condition = g.call(g.choose(aten.logical_not.default, aten.bitwise_not.default), condition)
    choices = [g.choose(node, g.like(node), constant_like(g, node, literal(g))) for _ in range(3)]
    inner = g.call(aten.where.self, condition, *choices[:2])
    if g.chance(0.2):
        inner = g.call(aten._to_copy.default, inner, dtype=g.choose(*DTYPES[:4]))
    pair = [inner, choices[2]]
    g.rng.shuffle(pair)
    return g.call(aten.where.self, condition, *pair)


@recipe("arithmetic", 1)
def masked(g):
    node = g.pick()
    if g.chance(0.4):
        filling = g.call(aten.scalar_tensor.default, 0, dtype=node.meta["val"].dtype)
        return g.call(aten.masked_fill.Tensor, node, a_condition(g, node), filling)
    return g.call(aten.masked_fill.Scalar, node, a_condition(g, node), literal(g))


@recipe("arithmetic", 1)
def fused(g):
    node = g.pick()
    target = g.choose(aten.addcmul.default, aten.addcdiv.default, aten.lerp.Scalar)
    if target is aten.lerp.Scalar:
        return g.call(target, node, g.like(node), g.choose(0, 1, 0.5))
    value = {"value": g.choose(0, 1, 2)} if g.chance(0.5) else {}
    return g.call(target, node, g.like(node), g.like(node), **value)
