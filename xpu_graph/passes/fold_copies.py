"""Copies that nobody could tell from their source.

    clone(x)                 ->    x
    clone(clone(x))          ->    clone(x)
    _to_copy(x) to the dtype, device and layout it has    ->    x

Left alone: a copy that changes layout or dtype, one that leaves the graph as an output while its
source is an input or another output, and one whose source is written to: the rewriter checks those.
"""

from __future__ import annotations

from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten
from xpu_graph.passes.base import RewritePass
from xpu_graph.stage import Unit


class FoldCopies(RewritePass):
    """Drops copies of tensors that nobody changes."""

    name = "fold_copies"
    targets = frozenset({aten.clone.default, aten._to_copy.default, aten.contiguous.default})

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        source = node.args[0]
        if node.kwargs.get("pin_memory"):
            unit.rewriter.refuse("the copy lives in pinned memory")
        elif isinstance(source, fx.Node):
            unit.rewriter.replace(node, source)
