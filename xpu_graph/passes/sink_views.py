"""Views sink below pointwise operators, so that these follow what they can be fused with.

    gelu(view(addmm(...), s))                  ->    view(gelu(addmm(...)), s)
    mul(view(silu(mm(...)), s), view(mm(...), s))    ->    view(mul(silu(mm(...)), mm(...)), s)

A linear layer on more than two dimensions is a product of two matrices between two views; what is
computed from each element alone then comes next to the product, and the view meets the next one.

Only the results of products sink their views, and the pointwise operators that follow them one
after another. Level 2: the operator sees other sizes, and may treat other elements in its vector
registers and its scalar rest.

Left alone: a square, which as a rule a reduction reads; operators of several tensors that are not
all such views, or whose views are of different shapes; random operators, views of anything else,
and copies that say which strides the result is to have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph import effects
from xpu_graph.config import OptLevel, XpuGraphConfig
from xpu_graph.fx import aten, is_static, same_size
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.drafts import Call, Draft
from xpu_graph.stage import Unit
from xpu_graph.torch_compat import FakeTensor

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
        pending = [node]
        while pending:
            view = pending.pop()
            if not unit.rewriter.is_alive(view) or self._source(view) is None:
                continue
            for user in list(view.users):
                if unit.rewriter.is_alive(user) and _is_pointwise(user):
                    sunk = self._sink(view, user, unit)
                    pending += [] if sunk is None else [sunk]

    def _source(self, view: Any) -> fx.Node | None:
        """What a view is of, where that is something whose views sink."""
        if not isinstance(view, fx.Node) or view.target not in _VIEWS:
            return None
        source = view.args[0]
        if not isinstance(source, fx.Node):
            return None
        return source if source.target in _PRODUCTS or source in self._sources else None

    def _sink(self, view: fx.Node, user: fx.Node, unit: Unit) -> fx.Node | None:
        """The view behind an operator instead of before it; None where it stays."""
        sources: dict[fx.Node, fx.Node] = {}
        for operand in user.all_input_nodes:
            source = self._source(operand)
            if source is None:
                return None
            sources[operand] = source
        if len(sources) > 1 and not _are_alike(view, sources):
            return None

        def below(call: Draft) -> Call:
            args, kwargs = fx.map_arg((user.args, user.kwargs), sources.__getitem__)
            like = sources[view].meta["val"]
            if all(_is_like(user.meta["val"], one.meta["val"]) for one in sources.values()):
                result = call.again(user.target, args, kwargs, like)
            else:
                result = call(user.target, *args, **kwargs)
            return call(aten.view.default, result, view.args[1])

        sunk = unit.rewriter.replace_with_calls(user, below)
        if sunk is not None and isinstance(sunk.args[0], fx.Node):
            self._sources.add(sunk.args[0])
        return sunk


def _are_alike(view: fx.Node, sources: Mapping[fx.Node, fx.Node]) -> bool:
    """Whether several views are of one shape, and what they are of is of one shape."""

    def same(left: fx.Node, right: fx.Node) -> bool:
        shapes = left.meta["val"].shape, right.meta["val"].shape
        return len(shapes[0]) == len(shapes[1]) and all(map(same_size, *shapes))

    return all(same(view, other) and same(sources[view], sources[other]) for other in sources)


def _is_like(result: Any, source: Any) -> bool:
    """Whether what is computed from each element of a source is laid out as the source.

    Torch's dispatch on fake values, which would tell, takes as long as all the rest.
    """
    return (
        type(source) is FakeTensor
        and is_static(source)
        and source.is_contiguous()
        and source.dim() > 0
        and source.storage_offset() == 0
        and (result.dtype, result.device) == (source.dtype, source.device)
    )


def _is_pointwise(node: fx.Node) -> bool:
    """Whether each element of the result is made from the same element of each tensor."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    if target is aten._to_copy.default:
        return node.kwargs.get("memory_format") is None
    return (
        torch.Tag.pointwise in target.tags
        and effects.is_deterministic(node)
        and bool(node.args)
        and isinstance(node.args[0], fx.Node)
        and isinstance(node.meta.get("val"), torch.Tensor)
        and sum(isinstance(one, fx.Node) for one in node.args) == len(node.all_input_nodes)
    )
