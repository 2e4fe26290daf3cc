"""The one way a pass changes a graph.

``Rewriter`` checks a rewrite before anything is touched, refuses with a reason, repairs fake values
and provenance, counts, and remembers what was touched. Passes decide *what* to rewrite; whether it
is sound for readers outside the pattern (outputs, aliases, mutations) is decided here.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from xpu_graph import effects
from xpu_graph import fx as graph_facts
from xpu_graph.fx import aten
from xpu_graph.passes.memory import Memory, storages_in
from xpu_graph.stage import Unit

_READS_WHOLE_STORAGE = frozenset(
    {aten.as_strided.default, aten.as_strided_copy.default, aten.as_strided_scatter.default}
)
_FAKE_ERRORS = (RuntimeError, ValueError, TypeError, IndexError)
"""What operators raise on arguments they do not take."""


class Rewriter:
    """Checked changes of one graph.

    Attributes:
        memory: who shares memory with whom.
        fake_mode: the mode the graph's fake values belong to.
        applied: how many changes were made so far.
        clock: grows with every change; see ``touched_since``.
        firings: applied rewrites, by pass.
        refusals: refused rewrites, by (pass, reason).
        pass_name: the pass that is at work.
    """

    def __init__(
        self, unit: Unit, allow: Callable[[Unit, str], bool] = lambda unit, name: True
    ) -> None:
        self.unit = unit
        self.graph = unit.gm.graph
        self.memory = Memory(self.graph)
        self.fake_mode = graph_facts.fake_mode_of(self.graph)
        self.applied = 0
        self.clock = 1
        self.firings: Counter[str] = Counter()
        self.refusals: Counter[tuple[str, str]] = Counter()
        self.pass_name = ""
        self._allow = allow
        self._stamp: dict[fx.Node, int] = dict.fromkeys(self.graph.nodes, 1)

    # --- what passes ask ----------------------------------------------------------------------

    def is_alive(self, node: fx.Node) -> bool:
        """Whether the node is still in the graph."""
        return node in self._stamp

    def touched_since(self, clock: int) -> list[fx.Node]:
        """The nodes that were made, or whose neighbours changed, after a time; in graph order."""
        if clock == 0:
            return list(self.graph.nodes)
        if clock >= self.clock:
            return []
        return sorted(node for node, stamp in self._stamp.items() if stamp > clock)

    def is_touched_since(self, node: fx.Node, clock: int) -> bool:
        """Whether a node of the graph was touched after a time."""
        return self._stamp[node] > clock

    def is_written(self, node: fx.Node) -> bool:
        """Whether anything in the graph writes to memory that the node's value lives in."""
        return self.memory.is_written(node)

    def writes_before(self, node: fx.Node, argument: fx.Node) -> int:
        """How many writes to the argument's memory come before the node."""
        return self.memory.writes_before(node, argument)

    def section(self, node: fx.Node) -> int:
        """In which part of the graph the node lies; see ``effects.opens_section``."""
        return self.memory.section(node)

    def is_returned(self, node: fx.Node) -> bool:
        """Whether memory of the node's value leaves the graph through an output."""
        return self.memory.is_returned(node)

    # --- what passes do -----------------------------------------------------------------------

    def refuse(self, reason: str) -> None:
        """Record that the current pass declined a rewrite, and why."""
        self.refusals[self.pass_name, reason] += 1

    def replace(self, old: fx.Node, new: fx.Node) -> bool:
        """Let all users of ``old`` read ``new`` instead, if nobody can tell the difference.

        Args:
            old: the node that goes.
            new: a node before every user of ``old``, whose content is the same.

        Returns:
            Whether it was done. If not, the reason was recorded.
        """
        moved = self._views_to_move(old, new.meta.get("val"), new)
        if moved is None:
            return False
        self._substitute(old, new, moved)
        return True

    def replace_with_call(
        self, old: fx.Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> fx.Node | None:
        """Replace a node by a new call whose fake value must equal the old one.

        Returns:
            The new node, or None where it was refused; the reason was then recorded.
        """
        kwargs = kwargs or {}
        read: list[fx.Node] = []
        fx.map_arg((args, kwargs), read.append)
        if not all(
            graph_facts.is_static(tensor)
            for node in (old, *read)
            for tensor in graph_facts.tensors_of(node)
        ):
            self.refuse("sizes are symbolic")
            return None
        try:
            fakes = fx.map_arg((args, kwargs), lambda argument: argument.meta["val"])
            value = graph_facts.call_fake(target, *fakes, self.fake_mode)
        except _FAKE_ERRORS as error:
            self.refuse(f"{target} does not take these arguments ({type(error).__name__})")
            return None
        is_view = set(storages_in(value)) <= set(self.memory.storages(old))
        if not is_view and any(
            self.is_written(node) for node in read if node not in old.all_input_nodes
        ):
            self.refuse("a read would move across a write")
            return None
        return self._insert(old, "call_function", target, args, kwargs, value)

    def replace_with_constant(self, old: fx.Node, name: str, tensor: torch.Tensor) -> bool:
        """Replace a node by a tensor that the module owns under ``name``."""
        if self.is_returned(old):
            self.refuse("an output would share memory with a constant")
            return False
        mode = self.fake_mode
        value = mode.from_tensor(tensor, static_shapes=True) if mode is not None else tensor
        node = self._insert(
            old,
            "get_attr",
            name,
            (),
            {},
            value,
            prepare=lambda: self.unit.gm.register_buffer(name, tensor, persistent=False),
        )
        return node is not None

    def erase(self, node: fx.Node) -> bool:
        """Remove a node nobody uses, as a rewrite of its own; see ``erase_if_dead``."""
        if node.users or not effects.is_removable(node):
            return False
        if not self._allow(self.unit, self.pass_name):
            self.refuse("out of fuel")
            return False
        self.applied += 1
        self.firings[self.pass_name] += 1
        return self.erase_if_dead(node)

    def erase_if_dead(self, node: fx.Node) -> bool:
        """Remove a node nobody uses, and then its arguments where they became unused."""
        erased = False
        pending = [node]
        while pending:
            dead = pending.pop()
            if dead.users or not self.is_alive(dead) or not effects.is_removable(dead):
                continue
            inputs = dead.all_input_nodes
            self.graph.erase_node(dead)
            del self._stamp[dead]
            self.memory.forget(dead)
            self._changed(*inputs)
            pending += inputs
            erased = True
        return erased

    # --- inside -------------------------------------------------------------------------------

    def _views_to_move(
        self, old: fx.Node, value: Any, new: fx.Node | None
    ) -> dict[fx.Node, Any] | None:
        """Every check of a replacement of ``old``; touches nothing.

        Returns:
            The fake values that views of ``old`` will have, or None where it was refused.
        """
        reason = graph_facts.value_difference(old.meta.get("val"), value)
        if reason is None and new is not None:
            reason = self.memory.why_not_same_object(old, new)
        moved: dict[fx.Node, Any] = {}
        storages = storages_in(value)
        if reason is None and (None in storages or storages != self.memory.storages(old)):
            reason = self._recompute_views(old, value, moved)
            if reason is None:
                reason = self.memory.why_not_move(old, value, moved)
        if reason is None and not self._allow(self.unit, self.pass_name):
            reason = "out of fuel"
        if reason is not None:
            self.refuse(reason)
            return None
        return moved

    def _recompute_views(self, old: fx.Node, value: Any, moved: dict[fx.Node, Any]) -> str | None:
        """Fill ``moved`` with the values of what shares memory with ``old``, or say why not."""
        stale = set(self.memory.storages(old))
        pending = list(old.users)
        heapq.heapify(pending)
        while pending:
            node = heapq.heappop(pending)
            if node in moved or node.op == "output" or not stale & set(self.memory.storages(node)):
                continue
            if node.target in _READS_WHOLE_STORAGE:
                return "a view reads memory beyond the tensor"
            args, kwargs = fx.map_arg(
                (node.args, node.kwargs),
                lambda used: value if used is old else moved.get(used, used.meta.get("val")),
            )
            try:
                fresh = graph_facts.call_fake(node.target, args, kwargs, self.fake_mode)
            except _FAKE_ERRORS as error:
                return f"a view of it could not be made again ({type(error).__name__})"
            difference = graph_facts.value_difference(node.meta.get("val"), fresh)
            if difference is not None:
                return f"in a view, {difference}"
            moved[node] = fresh
            for user in node.users:
                heapq.heappush(pending, user)
        return None

    def _insert(
        self,
        old: fx.Node,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        value: Any,
        prepare: Callable[[], None] = lambda: None,
    ) -> fx.Node | None:
        moved = self._views_to_move(old, value, None)
        if moved is None:
            return None
        prepare()
        with self.graph.inserting_before(old):
            node = self.graph.create_node(op, target, args, kwargs)
        node.meta["val"] = value
        graph_facts.inherit_provenance(node, old)
        self._stamp[node] = self.clock
        self.memory.add(node)
        self._substitute(old, node, moved)
        return node

    def _substitute(self, old: fx.Node, new: fx.Node, moved: dict[fx.Node, Any]) -> None:
        users = list(old.users)
        self.memory.hand_over_outputs(old, new)
        old.replace_all_uses_with(new)
        for node, value in moved.items():
            self.memory.set_value(node, value)
        self.applied += 1
        self.firings[self.pass_name] += 1
        self._changed(new, *users, *old.all_input_nodes)
        self.erase_if_dead(old)

    def _changed(self, *nodes: fx.Node) -> None:
        self.clock += 1
        for node in nodes:
            if node in self._stamp:
                self._stamp[node] = self.clock
