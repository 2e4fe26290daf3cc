"""Which values of a graph are constant, for folding at compile time and for frozen parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from xpu_graph import effects
from xpu_graph import fx as graph_facts
from xpu_graph.stage import Unit
from xpu_graph.torch_compat import no_dispatch_modes


class ConstantMap:
    """Marks the nodes whose value is known before the graph is called.

    Sources are tensors that the module owns, placeholders named in ``sources``, and operators of
    no tensor argument (``full``, ``arange``, ...). A deterministic operator of constant arguments
    is constant, unless its result would be larger than ``limit_bytes`` and than the tensors it is
    made from, or its memory is written to or leaves the graph.

    Args:
        unit: the graph.
        sources: names of placeholders to take as constant.
        limit_bytes: how large a result may always be.
    """

    def __init__(self, unit: Unit, sources: frozenset[str], limit_bytes: int) -> None:
        self._unit = unit
        self._limit = limit_bytes
        self._held: dict[fx.Node, int] = {}
        self.from_sources: set[fx.Node] = set()
        for node in unit.gm.graph.nodes:
            if node.op == "placeholder":
                if node.name in sources and not unit.rewriter.is_written(node):
                    self._held[node] = _bytes(node)
                    self.from_sources.add(node)
            elif self._is_constant(node):
                used = node.all_input_nodes
                if any(argument in self.from_sources for argument in used):
                    self.from_sources.add(node)

    def __contains__(self, node: fx.Node) -> bool:
        return node in self._held

    def _is_constant(self, node: fx.Node) -> bool:
        if node.op == "get_attr":
            owned = graph_facts.attribute(self._unit.gm, str(node.target))
            if isinstance(owned, torch.Tensor) and not self._unit.rewriter.is_written(node):
                self._held[node] = _bytes(node)
            return False
        used = node.all_input_nodes
        if not all(argument in self._held for argument in used):
            return False
        tensors = graph_facts.tensors_of(node)
        leaves = pytree.tree_leaves(node.meta.get("val"))
        if (
            not tensors
            or len(tensors) != len(leaves)
            or not effects.is_deterministic(node)
            or not all(graph_facts.is_static(tensor) for tensor in tensors)
            or self._unit.rewriter.is_written(node)
            or self._unit.rewriter.is_returned(node)
        ):
            return False
        held = sum(self._held[argument] for argument in used)
        if _bytes(node) > max(self._limit, held):
            return False
        self._held[node] = min(held, _bytes(node)) if used else 0
        return True


def _bytes(node: fx.Node) -> int:
    return sum(
        tensor.numel() * tensor.element_size()
        for tensor in graph_facts.tensors_of(node)
        if graph_facts.is_static(tensor)
    )


def evaluate(node: fx.Node, unit: Unit, known: dict[fx.Node, Any]) -> Any:
    """The value of a constant node on real tensors.

    Args:
        node: a node in a ``ConstantMap`` that depends on no placeholder.
        unit: the graph.
        known: values computed before; grows.
    """
    pending = [node]
    while pending:
        current = pending[-1]
        if current in known:
            pending.pop()
            continue
        missing = [argument for argument in current.all_input_nodes if argument not in known]
        if missing:
            pending += missing
            continue
        pending.pop()
        if current.op == "get_attr":
            known[current] = graph_facts.attribute(unit.gm, str(current.target))
            continue
        args, kwargs = fx.map_arg((current.args, current.kwargs), known.__getitem__)
        with no_dispatch_modes(), torch.no_grad():
            known[current] = current.target(*args, **kwargs)  # type: ignore[operator]
    return known[node]


def drop_unused_constants(gm: fx.GraphModule) -> None:
    """Remove the tensors of a module that no node reads any more."""
    used = {str(node.target) for node in gm.graph.find_nodes(op="get_attr")}
    for name in [*gm._buffers, *gm._parameters]:
        if name not in used:
            delattr(gm, name)
    for name, value in list(vars(gm).items()):
        if isinstance(value, torch.Tensor) and name not in used:
            delattr(gm, name)
