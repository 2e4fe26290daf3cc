"""Writes to memory in the middle of a graph, through views too, and reads on both sides."""

from tests.fuzz.builder import Unfit
from tests.fuzz.case import aten
from tests.fuzz.recipes.pointwise import UNARY
from tests.fuzz.recipes.registry import recipe
from tests.fuzz.recipes.views import ranked, slice_of

BINARY = (aten.add_.Tensor, aten.mul_.Tensor, aten.sub_.Tensor, aten.copy_.default)
IN_PLACE = (aten.relu_.default, aten.neg_.default, aten.zero_.default, aten.sin_.default)


def writable(g):
    """A tensor, or a view of one, that may be written to: no constant in most cases."""
    node = g.pick(lambda value: value.numel() > 0 or g.chance(0.2))
    if node.op == "get_attr" and g.chance(0.8):
        raise Unfit("a constant")
    kind = g.choose("itself", "itself", "select", "slice", "view")
    if kind == "select":
        return g.call(aten.select.int, node, g.dim(node), 0)
    if kind == "slice":
        return slice_of(g, node)
    if kind == "view":
        return g.call(aten.view.default, node, [-1])
    return node


def write(g, node):
    kind = g.choose("binary", "binary", "in place", "fill", "index", "random")
    if kind == "binary":
        return g.call(g.choose(*BINARY), node, g.choose(g.like(node), g.pick()))
    if kind == "in place":
        return g.call(g.choose(*IN_PLACE), node)
    if kind == "fill":
        return g.call(aten.fill_.Scalar, node, g.choose(0, 1, 0.0, -0.0))
    if kind == "random":
        return g.call(aten.uniform_.default, node) if g.chance(0.3) else write(g, node)
    index = g.call(
        aten.arange.default, min(1, g.described_shape(node)[0] if node.meta["val"].dim() else 0)
    )
    values = g.call(aten.scalar_tensor.default, 1, dtype=node.meta["val"].dtype)
    return g.call(aten.index_put_.default, node, [index], values, g.chance(0.2))


@recipe("writes", 4)
def plain(g):
    return write(g, writable(g))


@recipe("writes", 3)
def between_equal_reads(g):
    """The same expression before and after a write to what it reads."""
    node = writable(g)
    target = g.choose(*UNARY, aten.clone.default, aten.clone.default)
    g.call(target, node)
    write(g, node)
    return g.call(target, node)


@recipe("writes", 2)
def after_a_copy(g):
    """A copy, a write to its source or to itself, and a read of either."""
    node = g.pick()
    copy = g.call(g.choose(aten.clone.default, aten.contiguous.default), node)
    write(g, g.choose(node, copy))
    return g.call(aten.add.Tensor, copy, node)


@recipe("writes", 1)
def into_a_part(g):
    """What functionalisation takes slice_scatter apart into, and what re-inplacing makes."""
    node = g.pick(ranked(1))
    whole = g.call(aten.clone.default, node)
    part = slice_of(g, whole)
    return g.call(aten.copy_.default, part, g.like(part))


@recipe("writes", 0.3)
def several(g):
    node = g.pick(lambda value: value.dtype.is_floating_point)
    return g.call(aten._foreach_add_.Scalar, [node, g.like(node)], 1)
