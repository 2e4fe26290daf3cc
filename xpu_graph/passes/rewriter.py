"""The one way a pass changes a graph.

``Rewriter`` checks a rewrite before anything is touched, refuses with a reason, repairs fake values
and provenance, counts, and remembers what was touched. Passes decide *what* to rewrite; whether it
is sound for readers outside the pattern (outputs, aliases, mutations) is decided here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from xpu_graph import fx as graph_facts
from xpu_graph.stage import Unit
from xpu_graph.torch_compat import detect_fake_mode, storage_id


class Rewriter:
    """Checked changes of one graph.

    Attributes:
        applied: how many changes were made so far.
        clock: grows with every change; see ``touched_since``.
        firings: applied rewrites, by pass.
        refusals: refused rewrites, by (pass, reason).
    """

    def __init__(
        self, unit: Unit, allow: Callable[[Unit, str], bool] = lambda unit, name: True
    ) -> None:
        self.unit = unit
        self.graph = unit.gm.graph
        self.applied = 0
        self.clock = 1
        self.firings: Counter[str] = Counter()
        self.refusals: Counter[tuple[str, str]] = Counter()
        self.pass_name = ""
        self._allow = allow
        self._stamp: dict[fx.Node, int] = dict.fromkeys(self.graph.nodes, 1)
        values = [node.meta.get("val") for node in self.graph.nodes]
        self.fake_mode = detect_fake_mode(values)
        self._outputs = Counter(graph_facts.output_leaves(self.graph))
        self._storage_returns: Counter[int | None] = Counter()
        for leaf, times in self._outputs.items():
            self._storage_returns.update(dict.fromkeys(graph_facts.storages_of(leaf), times))
        self._owned_outside = {
            storage
            for node in self.graph.nodes
            if node.op in ("placeholder", "get_attr")
            for storage in graph_facts.storages_of(node)
        }
        self._writes: dict[int | None, list[fx.Node]] = {}
        for node in self.graph.nodes:
            for written in graph_facts.written_args(node):
                for storage in graph_facts.storages_of(written):
                    self._writes.setdefault(storage, []).append(node)

    # --- what passes ask ----------------------------------------------------------------------

    def is_alive(self, node: fx.Node) -> bool:
        """Whether the node is still in the graph."""
        return node in self._stamp

    def touched_since(self, clock: int) -> list[fx.Node]:
        """The nodes that were made, or whose neighbours changed, after a time; in graph order."""
        if clock == 0:
            return list(self.graph.nodes)
        return sorted(node for node, stamp in self._stamp.items() if stamp > clock)

    def is_written(self, node: fx.Node) -> bool:
        """Whether anything in the graph writes to memory that the node's value lives in."""
        return any(storage in self._writes for storage in graph_facts.storages_of(node))

    def writes_before(self, node: fx.Node, argument: fx.Node) -> int:
        """How many writes to the argument's memory come before the node."""
        if not self._writes:
            return 0
        return sum(
            write < node
            for storage in graph_facts.storages_of(argument)
            for write in self._writes.get(storage, ())
        )

    def is_returned(self, node: fx.Node) -> bool:
        """Whether memory of the node's value leaves the graph through an output."""
        return any(self._storage_returns[storage] for storage in graph_facts.storages_of(node))

    # --- what passes do -----------------------------------------------------------------------

    def refuse(self, reason: str) -> None:
        """Record that the current pass declined a rewrite, and why."""
        self.refusals[self.pass_name, reason] += 1

    def replace(self, old: fx.Node, new: fx.Node) -> bool:
        """Let all users of ``old`` read ``new`` instead, if nobody can tell the difference.

        Returns:
            Whether it was done. If not, the reason was recorded.
        """
        reason = self._why_not(old, new.meta.get("val"), new)
        if reason is None and not self._allow(self.unit, self.pass_name):
            reason = "out of fuel"
        if reason is not None:
            self.refuse(reason)
            return False
        self._substitute(old, new)
        return True

    def replace_with_call(
        self, old: fx.Node, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> fx.Node | None:
        """Replace a node by a new call whose fake value must equal the old one.

        Returns:
            The new node, or None where it was refused; the reason was then recorded.
        """
        kwargs = kwargs or {}
        fakes = fx.map_arg((args, kwargs), lambda argument: argument.meta["val"])
        symbolic = any(
            not graph_facts.is_static(tensor)
            for node in (old, *(a for a in args if isinstance(a, fx.Node)))
            for tensor in graph_facts.tensors_of(node)
        )
        if symbolic:
            self.refuse("sizes are symbolic")
            return None
        try:
            value = graph_facts.call_fake(target, *fakes, self.fake_mode)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            self.refuse(f"{target} does not take these arguments ({type(error).__name__})")
            return None
        return self._insert(old, "call_function", target, args, kwargs, value)

    def replace_with_constant(self, old: fx.Node, name: str, tensor: torch.Tensor) -> bool:
        """Replace a node by a tensor that the module owns under ``name``."""
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

    def erase_if_dead(self, node: fx.Node) -> bool:
        """Remove a node nobody uses, and then its arguments where they became unused."""
        if node.users or not self.is_alive(node) or not graph_facts.is_removable(node):
            return False
        pending = [node]
        while pending:
            dead = pending.pop()
            if dead.users or not self.is_alive(dead) or not graph_facts.is_removable(dead):
                continue
            inputs = dead.all_input_nodes
            self.graph.erase_node(dead)
            del self._stamp[dead]
            self._changed(*inputs)
            pending += inputs
        return True

    # --- inside -------------------------------------------------------------------------------

    def _why_not(self, old: fx.Node, value: Any, new: fx.Node | None) -> str | None:
        difference = graph_facts.value_difference(old.meta.get("val"), value)
        if difference is not None:
            return difference
        if new is not None and self._outputs[old]:
            if new.op == "placeholder":
                return "an output would be the caller's own tensor object"
            if self._outputs[new]:
                return "two outputs would be one tensor object"
        olds = graph_facts.tensors_of(old)
        news = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        for before, after in zip(olds, news, strict=True):
            old_storage, new_storage = storage_id(before), storage_id(after)
            if old_storage is None or new_storage is None:
                return "the tensor has no ordinary storage"
            if old_storage == new_storage:
                continue
            if old_storage in self._writes or new_storage in self._writes:
                return "the memory is written to elsewhere in the graph"
            if not self._storage_returns[old_storage]:
                continue
            if old_storage in self._owned_outside:
                return "an output would no longer share memory with an input"
            if new_storage in self._owned_outside:
                return "an output would share memory with an input or a constant"
            if self._storage_returns[new_storage]:
                return "two outputs would share memory"
            if not _same_extent(before, after):
                return "an output's memory would have another size"
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
        if op == "get_attr" and self.is_returned(old):
            self.refuse("an output would share memory with a constant")
            return None
        reason = self._why_not(old, value, None)
        if reason is None and not self._allow(self.unit, self.pass_name):
            reason = "out of fuel"
        if reason is not None:
            self.refuse(reason)
            return None
        prepare()
        with self.graph.inserting_before(old):
            node = self.graph.create_node(op, target, args, kwargs)
        node.meta["val"] = value
        graph_facts.inherit_provenance(node, old)
        self._stamp[node] = self.clock
        if op == "get_attr":
            self._owned_outside.update(graph_facts.storages_of(node))
        self._substitute(old, node)
        return node

    def _substitute(self, old: fx.Node, new: fx.Node) -> None:
        moved = graph_facts.storages_of(old) != graph_facts.storages_of(new)
        users = list(old.users)
        returned = self._outputs.pop(old, 0)
        if returned:
            self._storage_returns.subtract(dict.fromkeys(graph_facts.storages_of(old), returned))
            self._storage_returns.update(dict.fromkeys(graph_facts.storages_of(new), returned))
            self._outputs[new] += returned
        stale = set(graph_facts.storages_of(old))
        old.replace_all_uses_with(new)
        self.applied += 1
        self.firings[self.pass_name] += 1
        self._changed(new, *users, *old.all_input_nodes)
        if moved:
            self._repair_views(users, stale)
        self.erase_if_dead(old)

    def _repair_views(self, users: list[fx.Node], stale: set[int | None]) -> None:
        """Recompute the fake values of views of a replaced tensor: their storage is another now."""
        pending = [user for user in users if user.op != "output"]
        while pending:
            node = pending.pop()
            if not stale & set(graph_facts.storages_of(node)):
                continue
            returned = self._outputs[node]
            before = dict.fromkeys(graph_facts.storages_of(node), returned)
            node.meta["val"] = graph_facts.run_fake(node, self.fake_mode)
            if returned:
                self._storage_returns.subtract(before)
                self._storage_returns.update(dict.fromkeys(graph_facts.storages_of(node), returned))
            pending += [user for user in node.users if user.op != "output"]

    def _changed(self, *nodes: fx.Node) -> None:
        self.clock += 1
        for node in nodes:
            if node in self._stamp:
                self._stamp[node] = self.clock


def _same_extent(before: torch.Tensor, after: torch.Tensor) -> bool:
    old, new = before.untyped_storage().nbytes(), after.untyped_storage().nbytes()
    return graph_facts.same_size(old, new)
