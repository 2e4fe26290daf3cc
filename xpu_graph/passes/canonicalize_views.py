"""Views: the shortest chain that reads the same memory the same way.

    view(x, shape of x), expand, slice, permute, ... that change nothing    ->    x
    t(t(x)), squeeze(unsqueeze(x)), view(view(x, s), shape of x)            ->    x
    view(view(x, s1), s2)                                                   ->    view(x, s2)
    permute(permute(x, p), q), t(permute(x, p)), ...                        ->    permute(x, ...)

A node is dropped when an earlier link of its chain has the same storage and the same dtype, shape,
stride and offset: then it *is* the same tensor. Two links become one only where sizes are static.

Left alone: views of empty tensors; a view that is itself an output next to its base (they are two
tensor objects); a ``view`` of a tensor with an unusual stride at a dimension of size 1, which it
would normalise; and outputs behind an ``_unsafe_view`` of an input, which autograd takes for a
tensor of its own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph import fx as graph_facts
from xpu_graph.fx import aten
from xpu_graph.passes.base import Phase, RewritePass
from xpu_graph.stage import Unit

_RESHAPES = frozenset({aten.view.default, aten._unsafe_view.default})
_PERMUTES = frozenset({aten.permute.default, aten.transpose.int, aten.t.default})
_OTHER_VIEWS = frozenset(
    {
        aten.alias.default,
        aten.detach.default,
        aten.expand.default,
        aten.slice.Tensor,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.unsqueeze.default,
    }
)

MAX_LINKS = 16
"""How far up a chain is looked for an equal tensor; it keeps the pass linear."""

_UNTRACKED = "an output would become a view of an input that autograd knows"
_EMPTY = "an empty tensor may have other strides than its fake value"
_ODD_STRIDES = "a dimension of size 1 has an unusual stride"


class CanonicalizeViews(RewritePass):
    """Drops views that change nothing and joins views of views."""

    name = "canonicalize_views"
    phase = Phase.canonicalize
    targets = _RESHAPES | _PERMUTES | _OTHER_VIEWS

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        value = node.meta.get("val")
        base = node.args[0]
        if not isinstance(value, torch.Tensor) or not isinstance(base, fx.Node):
            return
        if any(isinstance(size, int) and size == 0 for size in value.shape):
            unit.rewriter.refuse(_EMPTY)
            return
        if node.target is aten._unsafe_view.default and _leaves_with_input(node, unit):
            unit.rewriter.refuse(_UNTRACKED)
            return
        link: Any = base
        for _ in range(MAX_LINKS):
            if _is_same_tensor(node, link, unit) and unit.rewriter.replace(node, link):
                return
            if link.op != "call_function" or link.target not in self.targets:
                break
            if link.target is aten._unsafe_view.default and _leaves_with_input(node, unit):
                unit.rewriter.refuse(_UNTRACKED)
                return
            link = link.args[0]
        self._join(node, base, unit)

    def _join(self, node: fx.Node, base: fx.Node, unit: Unit) -> None:
        if base.op != "call_function" or not isinstance(base.args[0], fx.Node):
            return
        source = base.args[0]
        if node.target in _RESHAPES and base.target in _RESHAPES:
            shape = node.meta["val"].shape
            if not graph_facts.has_plain_strides(source.meta["val"]):
                unit.rewriter.refuse(_ODD_STRIDES)
            else:
                unit.rewriter.replace_with_call(node, aten.view.default, (source, list(shape)))
        elif node.target in _PERMUTES and base.target in _PERMUTES:
            inner, outer = _order(base), _order(node)
            order = [inner[position] for position in outer]
            unit.rewriter.replace_with_call(node, aten.permute.default, (source, order))


def _leaves_with_input(node: fx.Node, unit: Unit) -> bool:
    return unit.rewriter.is_returned(node) and unit.rewriter.memory.is_owned_outside(node)


def _is_same_tensor(node: fx.Node, link: fx.Node, unit: Unit) -> bool:
    value, other = node.meta["val"], link.meta.get("val")
    memory = unit.rewriter.memory
    if (
        not isinstance(other, torch.Tensor)
        or None in memory.storages(link)
        or memory.storages(link) != memory.storages(node)
        or graph_facts.geometry_difference(value, other) is not None
    ):
        return False
    if node.target in _RESHAPES and not graph_facts.has_plain_strides(other):
        unit.rewriter.refuse(_ODD_STRIDES)
        return False
    return True


def _order(node: fx.Node) -> list[int]:
    """The permutation a transposing node applies, as ``permute`` would take it."""
    rank = node.meta["val"].dim()
    if node.target == aten.permute.default:
        dims: Any = node.args[1]
        return [dim % rank for dim in dims] if rank else []
    order = list(range(rank))
    if node.target == aten.t.default:
        return order[::-1]
    first, second = (int(dim) % rank if rank else 0 for dim in node.args[1:3])  # type: ignore[arg-type]
    if rank:
        order[first], order[second] = order[second], order[first]
    return order
