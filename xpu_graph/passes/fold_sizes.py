"""Sizes that were computed before.

    (s0 * 4) // 4                  ->    s0
    sym_size(view(x, [s0, 4]), 0)  ->    s0
    s0 * s1 and s1 * s0            ->    one of them

A size that is equal to an earlier one for every input is that one; the symbolic expressions say so,
and nothing is asked that would become a guard.

Left alone: sizes that are plain numbers, floats and booleans, and what binds an unbacked symbol.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph import effects
from xpu_graph.config import XpuGraphConfig
from xpu_graph.fx import aten
from xpu_graph.passes.base import Phase, RewritePass
from xpu_graph.stage import Unit


class FoldSizes(RewritePass):
    """Lets the readers of a size read an earlier one that is equal."""

    name = "fold_sizes"
    phase = Phase.canonicalize

    def __init__(self, config: XpuGraphConfig) -> None:
        super().__init__(config)
        self._known: dict[Any, fx.Node] = {}

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        value = node.meta.get("val")
        if not isinstance(value, torch.SymInt):
            return
        expression = value.node.expr
        known = self._known.get(expression)
        if known is None or not unit.rewriter.is_alive(known) or not known < node:
            self._known[expression] = node
        elif _is_size(node) and node.users:
            unit.rewriter.replace(node, known)


def _is_size(node: fx.Node) -> bool:
    is_computed = effects.is_size_arithmetic(node) or node.target is aten.sym_size.int
    return is_computed and not node.meta.get("unbacked_bindings")
