"""Copies, casts, and chains of them."""

import torch

from tests.fuzz.builder import DTYPES, FLOATS, INTEGERS, Unfit
from tests.fuzz.case import aten
from tests.fuzz.recipes.registry import recipe

FORMATS = (
    torch.contiguous_format,
    torch.preserve_format,
    torch.channels_last,
)


def memory_format(g, node):
    formats = FORMATS if node.meta["val"].dim() == 4 else FORMATS[:2]
    return {"memory_format": g.choose(*formats)} if g.chance(0.6) else {}


def cast(g, node, dtype, **more):
    """A cast, unless C++ leaves its result open: NaN and what is too large, to integers."""
    real = g.real[node]
    real = real.real if real.dtype.is_complex else real
    if not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool):
        low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
        high -= high >> 8 if dtype.itemsize >= 4 else 0  # floating point may have none of the last
        if real.is_floating_point() and not ((real >= low) & (real <= high)).all():
            raise Unfit("no integer")
    return g.call(aten._to_copy.default, node, dtype=dtype, **more)


@recipe("copies", 3)
def clone(g):
    node = g.pick()
    return g.call(aten.clone.default, node, **memory_format(g, node))


@recipe("copies", 1)
def clone_of_clone(g):
    node = g.pick()
    return g.call(aten.clone.default, g.call(aten.clone.default, node), **memory_format(g, node))


@recipe("copies", 1)
def contiguous(g):
    node = g.pick()
    return g.call(aten.contiguous.default, node, **memory_format(g, node))


@recipe("copies", 3)
def cast_once(g):
    node = g.pick()
    dtype = node.meta["val"].dtype if g.chance(0.25) else g.choose(*DTYPES)
    return cast(g, node, dtype, **memory_format(g, node))


@recipe("copies", 3)
def cast_chain(g):
    node = g.pick()
    own = node.meta["val"].dtype
    pool = DTYPES
    if g.chance(0.7):
        pool = FLOATS if own.is_floating_point else (*INTEGERS, *FLOATS, torch.bool)
    current = node
    for _ in range(g.choose(1, 1, 2)):
        current = cast(g, current, g.choose(*pool))
    return cast(g, current, own if g.chance(0.8) else g.choose(*pool))


@recipe("copies", 1)
def lifted(g):
    constants = [node for node in g.tensors if node.op == "get_attr"]
    node = g.choose(*constants) if constants and g.chance(0.7) else g.pick()
    return g.call(g.choose(aten.lift_fresh_copy.default, aten.detach.default), node)


@recipe("copies", 1)
def copied_onto(g):
    node = g.pick()
    return g.call(aten.copy.default, node, g.like(node))


@recipe("copies", 0.5)
def filled_after(g):
    """Uninitialised memory that is written to at once."""
    node = g.pick()
    fresh = g.call(aten.empty_like.default, node, **memory_format(g, node))
    g.tensors.remove(fresh)  # nobody reads it before it is filled
    if g.chance(0.5):
        return g.call(aten.fill_.Scalar, fresh, g.choose(0, 1))
    return g.call(aten.copy_.default, fresh, node)
