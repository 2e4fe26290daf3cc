"""Another value in the place of a node: as it is, or broadcast and cast to what the node was."""

from __future__ import annotations

import torch
from torch import fx

from xpu_graph import fx as graph_facts
from xpu_graph.fx import aten
from xpu_graph.passes.drafts import Call, Draft
from xpu_graph.passes.uniform import Number, as_dtype, call_full
from xpu_graph.stage import Unit

SYMBOLIC = "a size is symbolic"


def stand_in(node: fx.Node, kept: fx.Node, unit: Unit, *, cast: bool = False) -> bool:
    """Replace a node by one whose content is the same once it is broadcast.

    A value of the same shape and dtype is read in place; any other is copied, in one step.

    Args:
        node: the node that goes.
        kept: what its content comes from.
        unit: the graph.
        cast: whether the content is converted, too, where the dtypes differ.

    Returns:
        Whether it was done.
    """
    old, value = node.meta["val"], kept.meta["val"]
    same_shape = len(old.shape) == len(value.shape) and all(
        map(graph_facts.same_size, old.shape, value.shape)
    )
    same_dtype = old.dtype == value.dtype
    if (same_shape and same_dtype) or not (same_dtype or cast):
        return unit.rewriter.replace(node, kept)
    if not same_shape and not all(isinstance(size, int) for size in old.shape):
        unit.rewriter.refuse(SYMBOLIC)
        return False

    def build(call: Draft) -> Call:
        source: fx.Node | Call = kept
        if not same_shape:
            source = call(aten.expand.default, kept, list(old.shape))
        if not same_dtype:
            return call(aten._to_copy.default, source, dtype=old.dtype)
        return call(aten.clone.default, source, memory_format=torch.contiguous_format)

    return unit.rewriter.replace_with_calls(node, build) is not None


def fill_in(node: fx.Node, number: Number, unit: Unit) -> fx.Node | None:
    """Replace a node by a tensor of one number; return what took its place, if it was done."""
    value = node.meta["val"]
    held = as_dtype(number, value.dtype)
    if not all(isinstance(size, int) for size in value.shape):
        unit.rewriter.refuse(SYMBOLIC)
    elif held is not None:
        return unit.rewriter.replace_with_calls(node, lambda call: call_full(call, value, held))
    return None
