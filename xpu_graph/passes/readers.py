"""What becomes of the readers of a value when another one takes its place.

Views of it are made again on the new memory. Where the new value is laid out in another way, what
computes from it is, too, until results are laid out as before.
"""

from __future__ import annotations

import heapq
from typing import Any

import torch
from torch import fx

from xpu_graph import effects
from xpu_graph import fx as graph_facts
from xpu_graph.fakes import call_fake
from xpu_graph.fx import aten
from xpu_graph.passes.drafts import FAKE_ERRORS
from xpu_graph.passes.memory import Memory, storages_in
from xpu_graph.torch_compat import FakeTensor, FakeTensorMode, NeedsGuard, fake_view

MAX_RELAID = 32
"""How many readers may be laid out in another way by one rewrite; it keeps rewriting linear."""

_READS_WHOLE_STORAGE = frozenset(
    {aten.as_strided.default, aten.as_strided_copy.default, aten.as_strided_scatter.default}
)


_FLATTENS = frozenset({aten.view.default, aten._unsafe_view.default, aten.reshape.default})
"""Views whose legality depends on strides; fake tensors allow more of them than real ones."""


class Readers:
    """The nodes whose fake values change when ``old`` gets another value.

    Args:
        old: the node.
        value: its new value.
        memory: of the graph.
        mode: of the fake values.
        relayout: whether ``value`` may have other strides, and readers then get others.

    Attributes:
        moved: the new values, by node.
        relaid: the nodes whose strides would change, ``old`` among them.
    """

    def __init__(
        self,
        old: fx.Node,
        value: Any,
        memory: Memory,
        mode: FakeTensorMode | None,
        relayout: bool,
    ) -> None:
        self._old = old
        self._value = value
        self._memory = memory
        self._mode = mode
        self._relayout = relayout
        self.moved: dict[fx.Node, Any] = {}
        self.relaid: set[fx.Node] = set()

    def why_not(self, new: fx.Node | None) -> str | None:
        """Fill ``moved`` and ``relaid``, or say why the value cannot be replaced.

        Args:
            new: the node that has the value, if it is one that others read, too.
        """
        reason = self._difference(self._old, self._value)
        if reason is None:
            reason = self._memory.why_not_same_object(self._old, new)
        storages = storages_in(self._value)
        if reason is not None:
            return reason
        if (
            not self.relaid
            and None not in storages
            and storages == self._memory.storages(self._old)
        ):
            return None
        reason = self.follow()
        if reason is None and self.relaid:
            reason = self._why_not_relaid()
        if reason is None:
            reason = self._memory.why_not_move(self._old, self._value, self.moved)
        return reason

    def _difference(self, node: fx.Node, value: Any) -> str | None:
        """What is different about a node's new value and may not be."""
        before = node.meta.get("val")
        difference = graph_facts.value_difference(before, value)
        if difference is None or not self._relayout:
            return difference
        if not isinstance(before, torch.Tensor) or not isinstance(value, torch.Tensor):
            return difference
        difference = graph_facts.geometry_difference(before, value, ignore_layout=True)
        if difference is None and not graph_facts.has_plain_strides(value):
            return "a dimension of size 1 has an unusual stride"
        if difference is None:
            self.relaid.add(node)
        return difference

    def follow(self) -> str | None:
        """Fill ``moved`` with what shares memory with ``old``, or say why that cannot follow it."""
        stale = set(self._memory.storages(self._old))
        pending = list(self._old.users)
        heapq.heapify(pending)
        while pending:
            node = heapq.heappop(pending)
            if node in self.moved or node.op == "output":
                continue
            is_view = not stale.isdisjoint(self._memory.storages(node))
            reads_relaid = bool(self.relaid) and not self.relaid.isdisjoint(node.all_input_nodes)
            if not is_view and not reads_relaid:
                continue
            if node.target in _READS_WHOLE_STORAGE:
                return "a view reads memory beyond the tensor"
            if reads_relaid and not effects.is_deterministic(node):
                return f"{node.target} would read a tensor that is laid out in another way"
            if reads_relaid and node.target in _FLATTENS:
                return "a view could be refused on real tensors, which know more of their strides"
            fresh = self._moved_view(node) if is_view and not reads_relaid else None
            if fresh is None:
                fresh = self._fresh(node)
            if isinstance(fresh, str):
                return fresh
            was_relaid = len(self.relaid)
            difference = self._difference(node, fresh)
            if difference is not None:
                return f"in a view, {difference}" if is_view else f"in a reader, {difference}"
            if not is_view and len(self.relaid) == was_relaid:
                continue
            if len(self.relaid) > MAX_RELAID:
                return "too many tensors would be laid out in another way"
            stale.update(self._memory.storages(node))
            self.moved[node] = fresh
            for user in node.users:
                heapq.heappush(pending, user)
        return None

    def _moved_view(self, node: fx.Node) -> Any:
        """The new value of a plain view; None where the operator has to be asked.

        The geometry of a view follows from that of what it is a view of, which stays the same.
        """
        before = node.meta.get("val")
        sources = [used for used in node.all_input_nodes if used is self._old or used in self.moved]
        if len(sources) != 1 or not isinstance(before, FakeTensor):
            return None
        base = self.moved.get(sources[0], self._value)
        if (
            not isinstance(base, FakeTensor)
            or self._memory.storages(sources[0]) != self._memory.storages(node)
            or not graph_facts.is_static(base)
            or not graph_facts.is_static(before)
            or not base.layout == before.layout == torch.strided
            or base.dtype != before.dtype
            or base.device != before.device
            or base.is_conj() != before.is_conj()
            or base.is_neg() != before.is_neg()
        ):
            return None
        return fake_view(base, before, before.fake_mode)

    def _fresh(self, node: fx.Node) -> Any:
        """The new value of a reader, or why there is none."""
        args, kwargs = fx.map_arg(
            (node.args, node.kwargs),
            lambda used: (
                self._value if used is self._old else self.moved.get(used, used.meta.get("val"))
            ),
        )
        try:
            return call_fake(node.target, args, kwargs, self._mode, ask=False)
        except NeedsGuard:
            return "it would need a guard on a size"
        except FAKE_ERRORS as error:
            return f"a view of it could not be made again ({type(error).__name__})"

    def _why_not_relaid(self) -> str | None:
        for node in self.relaid:
            if self._memory.is_returned(node):
                return "an output would be laid out in another way"
            if self._memory.is_written(node):
                return "what is written to would be laid out in another way"
        return None
