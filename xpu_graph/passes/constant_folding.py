"""Constants: what depends on nothing but constants is computed while compiling.

    c = tensor([1., 2.]); d = c * 2; return x + d    ->    d = tensor([2., 4.]); return x + d

Only the last constant of a chain is kept. Frozen parameters are not folded here: they stay inputs,
and ``constant_split.py`` moves what depends on them into a graph of its own.

Left alone: random operators, results that leave the graph (every call must return a fresh tensor),
joint graphs (AOTAutograd copies what is cut from one, and cannot copy our tensors then; the parts
are folded), symbolic sizes, operators of no argument on their own (a ``full`` is cheaper made than
stored), and results larger than ``fold_limit_bytes`` and than what they are made from.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.config import XpuGraphConfig
from xpu_graph.passes.base import ATEN_STAGES, Pass, Phase
from xpu_graph.passes.constants import ConstantMap, evaluate
from xpu_graph.stage import Stage, Unit


class ConstantFolding(Pass):
    """Replaces the last node of each constant chain by a tensor the module owns."""

    name = "constant_folding"
    stages = ATEN_STAGES - {Stage.joint}
    phase = Phase.fold

    def __init__(self, config: XpuGraphConfig) -> None:
        super().__init__(config)
        self._seen_until = 0
        self._constants: ConstantMap | None = None

    @override
    @classmethod
    def enabled(cls, config: XpuGraphConfig) -> bool:
        return config.constant_folding

    @override
    def run(self, unit: Unit) -> bool:
        rewriter = unit.rewriter
        before, seen_until = rewriter.applied, self._seen_until
        self._seen_until = rewriter.clock
        if self._constants is None:
            self._constants = ConstantMap(unit, frozenset(), self.config.fold_limit_bytes)
            candidates = list(unit.gm.graph.nodes)
        else:
            candidates = self._constants.update(rewriter.touched_since(seen_until))
        constants = self._constants
        known: dict[fx.Node, Any] = {}
        for node in candidates:
            if not rewriter.is_alive(node) or node not in constants or not _worth_keeping(node):
                continue
            if all(user in constants for user in node.users):
                continue
            value = evaluate(node, unit, known)
            if isinstance(value, torch.Tensor):
                rewriter.replace_with_constant(node, _free_name(unit), value)
        return rewriter.applied > before


def _worth_keeping(node: fx.Node) -> bool:
    """Whether a node is computed from other nodes and is one tensor."""
    return bool(
        node.op == "call_function"
        and node.all_input_nodes
        and isinstance(node.meta.get("val"), torch.Tensor)
    )


def _free_name(unit: Unit) -> str:
    taken = unit.gm._buffers
    number = len(taken)
    while f"_folded_constant{number}" in taken:
        number += 1
    return f"_folded_constant{number}"
