"""The one way a pass changes a graph.

``Rewriter`` checks a rewrite before anything is touched, refuses with a reason, repairs fake values
and provenance, counts, and remembers what was touched. Passes decide *what* to rewrite; whether it
is sound for readers outside the pattern (outputs, aliases, mutations) is decided here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import fx

from xpu_graph import effects
from xpu_graph import fx as graph_facts
from xpu_graph.fx import aten
from xpu_graph.passes.changes import ChangeLog
from xpu_graph.passes.drafts import Call, Draft, DraftRefused
from xpu_graph.passes.memory import Memory, storages_in
from xpu_graph.passes.odd_strides import OddStrides, doubt_from
from xpu_graph.passes.readers import Readers
from xpu_graph.passes.regions import Regions
from xpu_graph.stage import Stage, Unit

_MADE_BY = "xpu_graph_made_by"


class Rewriter:
    """Checked changes of one graph.

    Attributes:
        memory: who shares memory with whom.
        fake_mode: the mode the graph's fake values belong to.
        applied: how many changes were made so far.
        firings: applied rewrites, by pass.
        refusals: refused rewrites, by (pass, reason).
        misses: the first node each of these was about, and where the user's program made it.
        pass_name: the pass that is at work.
        visiting: the node it is looking at, if it goes node by node.
        maker: marks new nodes, and what is made of them later; see ``was_made_by``.
    """

    def __init__(
        self, unit: Unit, allow: Callable[[Unit, str], bool] = lambda unit, name: True
    ) -> None:
        self.unit = unit
        self.graph = unit.gm.graph
        self.memory = Memory(self.graph, is_joint=unit.stage is Stage.joint)
        self.fake_mode = graph_facts.fake_mode_of(self.graph)
        self.applied = 0
        self.firings: Counter[str] = Counter()
        self.refusals: Counter[tuple[str, str]] = Counter()
        self.misses: dict[tuple[str, str], str] = {}
        self.pass_name = ""
        self.visiting: fx.Node | None = None
        self.maker: str | None = None
        self._allow = allow
        self._odd = OddStrides()
        self._changes = ChangeLog(self.graph)

    def continue_counts(self, earlier: Rewriter) -> None:
        """Count on from another rewriter of the same unit."""
        self.firings, self.refusals = earlier.firings, earlier.refusals
        self.misses = earlier.misses

    @cached_property
    def regions(self) -> Regions:
        """What is switched on where."""
        return Regions(self.graph)

    # --- what passes ask ----------------------------------------------------------------------

    def is_alive(self, node: fx.Node) -> bool:
        """Whether the node is still in the graph."""
        return node in self._changes

    @property
    def clock(self) -> int:
        """A time that grows with every change; see ``touched_since``."""
        return self._changes.clock

    def touched_since(self, clock: int) -> list[fx.Node]:
        """The nodes that were made, or whose neighbours changed, after a time; in graph order."""
        return self._changes.touched_since(clock)

    def calls_of(self, targets: Collection[Any], since: int) -> list[fx.Node]:
        """The calls of some operators that were touched after a time, 0 for all; in graph order."""
        return self._changes.calls_of(targets, since)

    def has_calls(
        self, targets: Iterable[Any], with_numbers: Iterable[tuple[Any, float]] = ()
    ) -> bool:
        """Whether there is, or was, a call of each of some operators, and with some numbers."""
        return self._changes.has_calls(targets, with_numbers)

    def count_calls(self, target: Any) -> int:
        """How many calls of an operator there are, or were."""
        return self._changes.count_calls(target)

    def calls_reading(self, target: Any, operands: Collection[Any]) -> list[fx.Node]:
        """The calls of an operator that read results of all of some others; in graph order."""
        return self._changes.calls_reading(target, operands)

    def was_made_by(self, node: fx.Node, maker: str) -> bool:
        """Whether a node was made while ``maker`` was this, or comes from such a node."""
        return maker in node.meta.get(_MADE_BY, ())

    def is_touched_since(self, node: fx.Node, clock: int) -> bool:
        """Whether a node of the graph was touched after a time."""
        return self._changes.is_touched_since(node, clock)

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
        what = self.pass_name, reason
        self.refusals[what] += 1
        if self.visiting is not None and what not in self.misses:
            self.misses[what] = self.visiting.name + graph_facts.user_line(self.visiting)

    def replace(self, old: fx.Node, new: fx.Node, *, relayout: bool = False) -> bool:
        """Let all users of ``old`` read ``new`` instead, if nobody can tell the difference.

        Args:
            old: the node that goes.
            new: a node before every user of ``old``, whose content is the same.
            relayout: whether ``new`` may have other strides. What reads it then gets the strides
                that follow, outputs excepted; kernels may round differently, so level2.

        Returns:
            Whether it was done. If not, the reason was recorded.
        """
        value = new.meta.get("val")
        moved, reason = self._moved_values(old, value, new, new.all_input_nodes, relayout)
        if not self._is_allowed(reason):
            return False
        self._substitute(old, new, moved)
        return True

    def replace_with_call(
        self,
        old: fx.Node,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        *,
        relayout: bool = False,
    ) -> fx.Node | None:
        """Replace a node by a new call whose fake value must equal the old one.

        Args:
            old: the node that goes.
            target: the operator that takes its place.
            args: its arguments; nodes before ``old``, and literals.
            kwargs: the same by name.
            relayout: see ``replace``.

        Returns:
            The new node, or None where it was refused; the reason was then recorded.
        """
        return self.replace_with_calls(
            old, lambda call: call(target, *args, **(kwargs or {})), relayout=relayout
        )

    def replace_with_calls(
        self, old: fx.Node, build: Callable[[Draft], Call], *, relayout: bool = False
    ) -> fx.Node | None:
        """Replace a node by several new calls; the last one's value must equal the old one.

            rewriter.replace_with_calls(old, lambda call: call(aten.view.default, call(relu, x), s))

        Args:
            old: the node that goes.
            build: given a ``Draft``; calling that makes a call, whose result further calls may
                take. Nothing is added to the graph before all checks have passed. New calls must
                be deterministic and write to nothing.
            relayout: see ``replace``.

        Returns:
            The last of the new nodes, or None where it was refused; the reason was then recorded.
        """
        made = self.replace_several([old], lambda call: [build(call)], relayout=relayout)
        return None if made is None else made[0]

    def replace_several(
        self,
        olds: Sequence[fx.Node],
        build: Callable[[Draft], Sequence[Call | fx.Node]],
        *,
        relayout: bool = False,
        inner: Collection[fx.Node] = (),
    ) -> list[fx.Node] | None:
        """Replace some nodes at once: all of them, or none.

        Args:
            olds: the nodes that go.
            build: as for ``replace_with_calls``; returns one call for each of them.
            relayout: see ``replace``.
            inner: nodes that nothing reads but these and the nodes that go.

        Returns:
            The nodes that took their places, or None where it was refused; the reason was then
            recorded.
        """
        draft = Draft(self.fake_mode)
        try:
            results = build(draft)
        except DraftRefused as refusal:
            self.refuse(str(refusal))
            return None
        place = self._place(olds, inner, draft)
        reason = None
        if len(olds) > 1:
            reason = _why_not_together(olds, results, draft, place)
        moved: dict[fx.Node, Any] = {}
        for old, result in zip(olds, results, strict=True):
            if reason is None:
                more, reason = self._may_become(old, result, draft, relayout)
                moved.update(more)
        if not self._is_allowed(reason):
            return None
        made: dict[Call, fx.Node] = {}
        for call in draft.calls:
            args, kwargs = draft.map((call.args, call.kwargs), lambda node: node, made.__getitem__)
            made[call] = self._create(
                place, "call_function", call.target, args, kwargs, call.value, like=min(olds)
            )
        news = [result if isinstance(result, fx.Node) else made[result] for result in results]
        for old, new in zip(olds, news, strict=True):
            self._substitute(old, new, moved)
        for node in reversed(made.values()):
            self.erase_if_dead(node)
        return news

    def _place(self, olds: Sequence[fx.Node], inner: Collection[fx.Node], draft: Draft) -> fx.Node:
        """Before which node new calls go: the first that goes, or what first reads one of them."""
        first = min(olds)
        if all(node < first for node in draft.read):
            return first
        gone = {*olds, *inner}
        users = [user for old in olds for user in old.users if user not in gone]
        later = min(users, default=first)
        return later if self.section(later) == self.section(first) else first

    def _may_become(
        self, old: fx.Node, result: Call | fx.Node, draft: Draft, relayout: bool
    ) -> tuple[dict[fx.Node, Any], str | None]:
        """What readers of a node will have in place of it, or why it stays as it is."""
        if isinstance(result, fx.Node):
            return self._moved_values(old, result.meta.get("val"), result, [result], relayout)
        is_view = set(storages_in(result.value)) <= set(self.memory.storages(old))
        if not is_view and any(map(self.is_written, draft.read)):
            return {}, "a read would move across a write"
        later = self.memory.why_not_read(old, draft.read)
        if later is not None:
            return {}, later
        return self._moved_values(old, result.value, None, draft.read, relayout)

    def replace_with_constant(self, old: fx.Node, name: str, tensor: torch.Tensor) -> bool:
        """Replace a node by a tensor that the module owns under ``name``."""
        if self.is_returned(old):
            self.refuse("an output would share memory with a constant")
            return False
        mode = self.fake_mode
        value = mode.from_tensor(tensor, static_shapes=True) if mode is not None else tensor
        moved, reason = self._moved_values(old, value, None)
        if not self._is_allowed(reason):
            return False
        self.unit.gm.register_buffer(name, tensor, persistent=False)
        self._substitute(old, self._create(old, "get_attr", name, (), {}, value), moved)
        return True

    def write_in_place(self, node: fx.Node, operand: fx.Node, target: Any) -> bool:
        """Let a node compute into the memory of its first operand.

        The caller knows that nobody reads that memory afterwards, or shares it with the outside.

        Args:
            node: a call; its value is laid out as that of the operand.
            operand: its first argument.
            target: the operator's in-place form.
        """
        value = operand.meta["val"]
        readers = Readers(node, value, self.memory, self.fake_mode, relayout=False)
        reason = readers.follow()
        if not self._is_allowed(reason):
            return False
        node.target = target
        for moved, fresh in {node: value, **readers.moved}.items():
            self.memory.set_value(moved, fresh)
        self._odd.follow((node, *readers.moved))
        self.memory.add_write(node, operand)
        self._changes.touch(node, operand, *node.users)
        return True

    def erase(self, node: fx.Node, *, proven: bool = False) -> bool:
        """Remove a node nobody uses, as a rewrite of its own; see ``erase_if_dead``.

        Args:
            node: what goes.
            proven: it is an assertion that cannot fail; else it must not have an effect.
        """
        if node.users or not (proven or effects.is_removable(node)):
            return False
        if not self._is_allowed(None):
            return False
        self._erase(node)
        return True

    def erase_if_dead(self, node: fx.Node) -> bool:
        """Remove a node nobody uses, and then its arguments where they became unused."""
        if node.users or not self.is_alive(node) or not effects.is_removable(node):
            return False
        self._erase(node)
        return True

    def _erase(self, node: fx.Node) -> None:
        pending = [node]
        while pending:
            dead = pending.pop()
            inputs = dead.all_input_nodes
            self.graph.erase_node(dead)
            self._changes.drop(dead)
            self.memory.forget(dead)
            self._odd.forget(dead)
            self._changes.touch(*inputs)
            pending += [used for used in inputs if not used.users and effects.is_removable(used)]

    # --- inside -------------------------------------------------------------------------------

    def _moved_values(
        self,
        old: fx.Node,
        value: Any,
        new: fx.Node | None,
        reads: Sequence[fx.Node] = (),
        relayout: bool = False,
    ) -> tuple[dict[fx.Node, Any], str | None]:
        """Every check of a replacement of ``old``; touches nothing.

        Args:
            old: the node that goes.
            value: the fake value that takes its place.
            new: the node that has it; None for one that is not made yet.
            reads: what the value is computed from.
            relayout: see ``replace``.

        Returns:
            The fake values that readers of ``old`` will have, and why it must not be.
        """
        readers = Readers(old, value, self.memory, self.fake_mode, relayout)
        reason = readers.why_not(new)
        if reason is None and self._is_detached_output(old):
            reason = "an output is detached from what it is a view of"
        in_doubt = reason is None and self._odd.may_differ(value, [*reads, *doubt_from(old)])
        if in_doubt and self._odd.reach(old, self.memory.is_returned):
            reason = "a dimension of size 1 of an output may get another stride"
        return readers.moved, reason

    def _is_detached_output(self, node: fx.Node) -> bool:
        """Whether it is the node that keeps an output from having a gradient.

        Where two outputs are views of one memory, autograd takes one for a view of the other.
        """
        return (
            self.unit.stage in (Stage.joint, Stage.forward)
            and node.target is aten.detach.default
            and self.memory.returns_view_of(node)
        )

    def _is_allowed(self, reason: str | None) -> bool:
        """Count a rewrite that is about to be made, or a refusal."""
        if reason is None and not self._allow(self.unit, self.pass_name):
            reason = "out of fuel"
        if reason is not None:
            self.refuse(reason)
            return False
        self.applied += 1
        self.firings[self.pass_name] += 1
        return True

    def _create(
        self,
        old: fx.Node,
        op: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        value: Any,
        like: fx.Node | None = None,
    ) -> fx.Node:
        with self.graph.inserting_before(old):
            node = self.graph.create_node(op, target, args, kwargs)
        node.meta["val"] = value
        graph_facts.inherit_provenance(node, like or old)
        if self.maker is not None:
            node.meta[_MADE_BY] = {*node.meta.get(_MADE_BY, ()), self.maker}
        self._changes.add(node)
        self._changes.touch(*node.all_input_nodes)  # they have another reader
        self.memory.add(node)
        return node

    def _substitute(self, old: fx.Node, new: fx.Node, moved: dict[fx.Node, Any]) -> None:
        users = list(old.users)
        self.memory.hand_over_outputs(old, new)
        old.replace_all_uses_with(new)
        for node, value in moved.items():
            self.memory.set_value(node, value)
            self._changes.touch(node, *node.users)
        self._odd.follow((new, *moved))
        self._changes.touch(new, *users, *old.all_input_nodes)
        self.erase_if_dead(old)


def _why_not_together(
    olds: Collection[fx.Node],
    results: Sequence[Call | fx.Node],
    draft: Draft,
    place: fx.Node,
) -> str | None:
    """Why some values, computed at a place, cannot take the places of others."""
    if any(old in draft.read for old in olds):
        return "one result is computed from another that goes"
    if any(node >= place for node in draft.read):
        return "one result is used before all that they are computed from is there"
    seen: set[int | None] = set()
    for result in results:
        storages = storages_in(result.value if isinstance(result, Call) else result.meta["val"])
        if not seen.isdisjoint(storages):
            return "two results would share memory"
        seen.update(storages)
    return None
