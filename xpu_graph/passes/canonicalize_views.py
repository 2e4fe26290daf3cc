"""Views: the shortest chain that reads the same memory the same way.

    view(x, shape of x), expand, slice, permute, ... that change nothing    ->    x
    t(t(x)), squeeze(unsqueeze(x)), view(view(x, s), shape of x)            ->    x
    view(view(x, s1), s2)                                                   ->    view(x, s2)
    permute(permute(x, p), q), t(permute(x, p)), ...                        ->    permute(x, ...)

A node is dropped when an earlier link of its chain has the same storage and the same dtype, shape,
stride and offset: then it *is* the same tensor. Two links become one only where sizes are static.

Left alone: a view that is itself an output next to its base (they are two tensor objects).
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
from xpu_graph.torch_compat import storage_id

_RESHAPES = frozenset({aten.view.default, aten._unsafe_view.default, aten.reshape.default})
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
        link: Any = base
        while isinstance(link, fx.Node):
            if _is_same_tensor(link, value) and unit.rewriter.replace(node, link):
                return
            if link.op != "call_function" or link.target not in self.targets:
                break
            link = link.args[0]
        self._join(node, base, unit)

    def _join(self, node: fx.Node, base: fx.Node, unit: Unit) -> None:
        if base.op != "call_function" or not isinstance(base.args[0], fx.Node):
            return
        source = base.args[0]
        if node.target in _RESHAPES and base.target in _RESHAPES:
            shape = node.meta["val"].shape
            if all(isinstance(size, int) for size in shape):
                unit.rewriter.replace_with_call(node, aten.view.default, (source, list(shape)))
        elif node.target in _PERMUTES and base.target in _PERMUTES:
            inner, outer = _order(base), _order(node)
            order = [inner[position] for position in outer]
            unit.rewriter.replace_with_call(node, aten.permute.default, (source, order))


def _is_same_tensor(link: fx.Node, value: torch.Tensor) -> bool:
    other = link.meta.get("val")
    return (
        isinstance(other, torch.Tensor)
        and storage_id(other) is not None
        and storage_id(other) == storage_id(value)
        and graph_facts.geometry_difference(value, other) is None
    )


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
