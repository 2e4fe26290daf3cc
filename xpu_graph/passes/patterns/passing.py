"""What the words of declared forms let stand in between."""

from __future__ import annotations

from typing import Any

from torch import fx

from xpu_graph.fx import VENDOR_CASTS, aten, same_size
from xpu_graph.passes.arguments import argument
from xpu_graph.passes.patterns.words import reshaped
from xpu_graph.passes.uniform import CASTS


def is_passed(word: Any, node: fx.Node) -> bool:
    """Whether a word of a form lets a call stand in between."""
    if word is reshaped:
        return keeps_order(node)
    if node.target not in CASTS and str(node.target) not in VENDOR_CASTS:
        return False
    value, read = node.meta["val"], node.all_input_nodes[0].meta["val"]
    return value.device == read.device and all(v.is_floating_point() for v in (value, read))


_SAME_ORDER = frozenset(
    {
        aten._reshape_alias.default,
        aten._unsafe_view.default,
        aten.clone.default,
        aten.reshape.default,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.unsqueeze.default,
        aten.view.default,
    }
)
"""Operators that keep all elements, and their order."""


def keeps_order(node: fx.Node) -> bool:
    """Whether a call gives all elements of its first argument, in their order."""
    if node.target in _SAME_ORDER:
        return True
    if node.target is not aten.permute.default:
        return False
    (source,) = node.all_input_nodes
    sizes = source.meta["val"].shape
    dims: Any = argument(node, "dims")
    moved = [dim % len(sizes) for dim in dims if not same_size(sizes[dim], 1)]
    return moved == sorted(moved)
