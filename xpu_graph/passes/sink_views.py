"""Views sink below pointwise operators, so that these follow what they can be fused with.

    gelu(view(addmm(...), s))    ->    view(gelu(addmm(...)), s)

A linear layer on more than two dimensions is a product of two matrices between two views; what is
computed from each element alone then comes next to the product, and the view meets the next one.

Only the results of products sink their views, and the pointwise operators that follow them one
after another. Level 2: the operator sees other sizes, and may treat other elements in its vector
registers and its scalar rest.

Left alone: operators of several tensors, random ones, views of anything else, and copies that say
which strides the result is to have.
"""

from __future__ import annotations

import torch
from torch import fx
from typing_extensions import override

from xpu_graph import effects
from xpu_graph.config import OptLevel, XpuGraphConfig
from xpu_graph.fx import aten
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.drafts import Call, Draft
from xpu_graph.stage import Unit

_VIEWS = frozenset({aten.view.default, aten._unsafe_view.default})
_PRODUCTS = frozenset({aten.mm.default, aten.addmm.default, aten.bmm.default, aten.baddbmm.default})


class SinkViews(RewritePass):
    """Moves the view of a product's result behind the pointwise operators that read it."""

    name = "sink_views"
    level = OptLevel.level2
    targets = _VIEWS

    def __init__(self, config: XpuGraphConfig) -> None:
        super().__init__(config)
        self._sources: set[fx.Node] = set()

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        source = node.args[0]
        if not isinstance(source, fx.Node):
            return
        if source.target not in _PRODUCTS and source not in self._sources:
            return
        for user in list(node.users):
            if _is_unary_pointwise(user) and user.args[0] is node:
                self._sink(node, source, user, unit)

    def _sink(self, view: fx.Node, source: fx.Node, user: fx.Node, unit: Unit) -> None:
        def below(call: Draft) -> Call:
            result = call(user.target, source, *user.args[1:], **user.kwargs)
            return call(aten.view.default, result, view.args[1])

        sunk = unit.rewriter.replace_with_calls(user, below)
        if sunk is not None and isinstance(sunk.args[0], fx.Node):
            self._sources.add(sunk.args[0])


def _is_unary_pointwise(node: fx.Node) -> bool:
    """Whether each element of the result is made from the same element of one tensor."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or len(node.all_input_nodes) != 1:
        return False
    if target is aten._to_copy.default:
        return node.kwargs.get("memory_format") is None
    return (
        torch.Tag.pointwise in target.tags
        and effects.is_deterministic(node)
        and bool(node.args)
        and isinstance(node.args[0], fx.Node)
        and isinstance(node.meta.get("val"), torch.Tensor)
        and sum(argument is node.args[0] for argument in node.args) == 1
    )
