"""Which values of a graph are constant, for folding at compile time and for frozen parameters."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from xpu_graph import effects
from xpu_graph import fx as graph_facts
from xpu_graph.fx import aten
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

    Attributes:
        from_sources: the constant nodes that depend on ``sources``.
    """

    def __init__(self, unit: Unit, sources: frozenset[str], limit_bytes: int) -> None:
        self._unit = unit
        self._sources = sources
        self._limit = limit_bytes
        self._held: dict[fx.Node, int] = {}
        self.from_sources: set[fx.Node] = set()
        held = self._held.keys()
        for node in unit.gm.graph.nodes:
            if held >= set(node.all_input_nodes):  # nothing else can be constant
                self._look_at(node)

    def __contains__(self, node: fx.Node) -> bool:
        return node in self._held

    def update(self, touched: Iterable[fx.Node]) -> list[fx.Node]:
        """Look again at nodes that were touched, and on at what reads them if they changed.

        Args:
            touched: nodes of the graph.

        Returns:
            The nodes that were looked at and their arguments, in graph order.
        """
        pending = list(touched)
        heapq.heapify(pending)
        seen: set[fx.Node] = set()
        while pending:
            node = heapq.heappop(pending)
            if node in seen:
                continue
            seen.add(node)
            if self._look_at(node):
                for user in node.users:
                    heapq.heappush(pending, user)
        return sorted(seen.union(*(node.all_input_nodes for node in seen)))

    def _look_at(self, node: fx.Node) -> bool:
        """Note what a node is now; return whether it was something else before."""
        before = self._held.pop(node, None), node in self.from_sources
        self.from_sources.discard(node)
        held = self._bytes_held(node)
        if held is not None:
            self._held[node] = held
            if node.op == "placeholder" or any(
                argument in self.from_sources for argument in node.all_input_nodes
            ):
                self.from_sources.add(node)
        return before != (held, node in self.from_sources)

    def _bytes_held(self, node: fx.Node) -> int | None:
        """How much memory the tensors take that a node is made from; None if it is not constant."""
        rewriter = self._unit.rewriter
        if node.op == "placeholder":
            is_source = node.name in self._sources and not rewriter.is_written(node)
            return _bytes(node) if is_source else None
        if node.op == "get_attr":
            owned = graph_facts.attribute(self._unit.gm, str(node.target))
            is_constant = isinstance(owned, torch.Tensor) and not rewriter.is_written(node)
            return _bytes(node) if is_constant else None
        used = node.all_input_nodes
        if not all(argument in self._held for argument in used):
            return None
        tensors = graph_facts.tensors_of(node)
        leaves = pytree.tree_leaves(node.meta.get("val"))
        if (
            not tensors
            or node.target is aten._efficientzerotensor.default  # its products are +0, always
            or len(tensors) != len(leaves)
            or not effects.is_deterministic(node)
            or not all(graph_facts.is_static(tensor) for tensor in tensors)
            or rewriter.is_written(node)
            or rewriter.is_returned(node)
        ):
            return None
        held = sum(self._held[argument] for argument in used)
        if _bytes(node) > max(self._limit, held):
            return None
        return min(held, _bytes(node)) if used else 0


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
