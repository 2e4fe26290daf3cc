"""Who shares memory with whom in a graph, who writes to it, and whether it leaves the graph.

Memory is told apart by the storages of fake values. Every value that was ever in the graph is kept
here, because the number of a freed storage is given to the next one.
"""

from __future__ import annotations

import bisect
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import fx

from xpu_graph import effects
from xpu_graph import fx as graph_facts
from xpu_graph.fx import aten
from xpu_graph.torch_compat import may_be_a_copy, storage_id

_LATER = "the caller may write to that memory before the backward pass"


class Memory:
    """Facts about the memory of one graph, kept up to date by the rewriter.

    Attributes:
        outputs: how often the graph returns a node.
    """

    def __init__(self, graph: fx.Graph, *, is_joint: bool = False) -> None:
        self._is_joint = is_joint
        self._storages: dict[fx.Node, tuple[int | None, ...]] = {}
        self._kept: list[Any] = []
        self._owned_outside: set[int | None] = set()
        self._writes: dict[int | None, list[fx.Node]] = {}
        self._returns: Counter[int | None] = Counter()
        self.outputs = Counter(graph_facts.output_leaves(graph))
        self._boundaries: list[fx.Node] = []
        for node in graph.nodes:
            self.add(node)
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            for written in effects.written_args(node):
                self.add_write(node, written)
            if effects.opens_section(node):
                self._boundaries.append(node)
        for leaf, times in self.outputs.items():
            self._returns.update(dict.fromkeys(self.storages(leaf), times))

    def storages(self, node: fx.Node) -> tuple[int | None, ...]:
        """The storages of the tensors in a node's value, in order; None for an unusual one."""
        return self._storages[node]

    def is_written(self, node: fx.Node) -> bool:
        """Whether anything in the graph writes to memory of the node's value."""
        return any(storage in self._writes for storage in self.storages(node))

    def section(self, node: fx.Node) -> int:
        """How many operators that open a section come before the node."""
        if not self._boundaries:
            return 0
        return bisect.bisect_left(self._boundaries, node)

    def writes_before(self, node: fx.Node, argument: fx.Node) -> int:
        """How many writes to the argument's memory come before the node."""
        if not self._writes:
            return 0
        return sum(
            bisect.bisect_left(self._writes.get(storage, ()), node)
            for storage in self.storages(argument)
        )

    def is_returned(self, node: fx.Node) -> bool:
        """Whether memory of the node's value leaves the graph through an output."""
        return any(self._returns[storage] for storage in self.storages(node))

    def is_owned_outside(self, node: fx.Node) -> bool:
        """Whether the node's value lives in memory of an input or of a constant."""
        return any(storage in self._owned_outside for storage in self.storages(node))

    def why_not_same_object(self, old: fx.Node, new: fx.Node | None) -> str | None:
        """Why outputs must not become other objects; None if they do not, or may.

        An item taken twice out of one sequence is one object, too.

        Args:
            old: the node that goes.
            new: the node that takes its place; None for one that nobody reads yet.
        """
        for mine, other in _paired_items(old, new):
            forms = _forms_of([mine])
            if not any(self.outputs[form] for form in forms):
                continue
            if any(self.outputs[twin] for twin in _twins(mine) if twin not in forms):
                return "two outputs would no longer be one tensor object"
            if other is None:
                continue
            if _maker(other).op in ("placeholder", "get_attr"):
                return "an output would be a tensor object that lives on outside"
            if any(self.outputs[twin] for twin in _twins(other) if twin not in forms):
                return "two outputs would be one tensor object"
        return None

    def why_not_move(self, old: fx.Node, value: Any, moved: Mapping[fx.Node, Any]) -> str | None:
        """Why the content of a node must not live in the memory of another value.

        Args:
            old: the node.
            value: a value of equal geometry.
            moved: the views of ``old`` that would move with it.
        """
        going = [*self.outputs.keys() & {old, *moved}]
        olds, news = self.storages(old), storages_in(value)
        if None in olds or None in news:
            return "the tensor has no ordinary storage"
        if not len(set(olds)) == len(set(news)) == len(set(zip(olds, news, strict=True))):
            return "the results would share memory among themselves in another way"
        for before, after in zip(
            graph_facts.tensors_of(old), graph_facts.tensors_in(value), strict=True
        ):
            old_storage, new_storage = storage_id(before), storage_id(after)
            if old_storage == new_storage:
                continue
            if self._is_joint and (
                self._is_seen_outside(old_storage) or self._is_seen_outside(new_storage)
            ):
                return _LATER
            if any(isinstance(size, int) and size == 0 for size in before.shape):
                return "an empty tensor may have other strides than its fake value"
            if old_storage in self._writes or new_storage in self._writes:
                return "the memory is written to elsewhere in the graph"
            returned = sum(self.outputs[n] for n in going if old_storage in self.storages(n))
            if not returned:
                continue
            if old_storage in self._owned_outside:
                return "an output would no longer share memory with an input"
            if new_storage in self._owned_outside:
                return "an output would share memory with an input or a constant"
            if self._returns[new_storage]:
                return "two outputs would share memory"
            if self._returns[old_storage] != returned:
                return "two outputs would no longer share memory"
            if not _same_extent(before, after):
                return "an output's memory would have another size"
        return None

    def returns_view_of(self, node: fx.Node) -> bool:
        """Whether an output is the node, or a view of it."""
        pending, seen = [node], {node}
        while pending:
            current = pending.pop()
            if self.outputs[current]:
                return True
            for user in current.users:
                shares = not set(self._storages[user]).isdisjoint(self._storages[node])
                if user not in seen and shares:
                    seen.add(user)
                    pending.append(user)
        return False

    def why_not_read(self, old: fx.Node, reads: Iterable[fx.Node]) -> str | None:
        """Why what takes the place of a node must not read some others.

        A joint graph is cut in two, and between its parts the caller may write to inputs and to
        what forward returned. What is read of them then is what the program itself reads.
        """
        if not self._is_joint:
            return None
        known = {s for used in old.all_input_nodes for s in self.storages(used)}
        for node in reads:
            if any(s not in known and self._is_seen_outside(s) for s in self.storages(node)):
                return _LATER
        return None

    def _is_seen_outside(self, storage: int | None) -> bool:
        return storage in self._owned_outside or bool(self._returns[storage])

    def add(self, node: fx.Node) -> None:
        """Take in a node that is new in the graph and that nobody uses yet."""
        value = node.meta.get("val")
        self._storages[node] = storages_in(value)
        self._kept.append(value)
        if node.op in ("placeholder", "get_attr"):
            self._owned_outside.update(self._storages[node])

    def set_value(self, node: fx.Node, value: Any) -> None:
        """Give a node another fake value."""
        times = self.outputs[node]
        self._returns.subtract(dict.fromkeys(self._storages[node], times))
        node.meta["val"] = value
        self._kept.append(value)
        self._storages[node] = storages_in(value)
        self._returns.update(dict.fromkeys(self._storages[node], times))

    def add_write(self, node: fx.Node, written: fx.Node) -> None:
        """Note that a node writes to memory of another one's value."""
        for storage in self.storages(written):
            bisect.insort(self._writes.setdefault(storage, []), node)

    def hand_over_outputs(self, old: fx.Node, new: fx.Node) -> None:
        """Note that the graph returns ``new`` wherever it returned ``old``."""
        times = self.outputs.pop(old, 0)
        if times:
            self._returns.subtract(dict.fromkeys(self.storages(old), times))
            self._returns.update(dict.fromkeys(self.storages(new), times))
            self.outputs[new] += times

    def forget(self, node: fx.Node) -> None:
        """Drop a node that is no longer in the graph."""
        del self._storages[node]


def _items(node: fx.Node) -> list[fx.Node]:
    return [user for user in node.users if user.target is operator.getitem]


def _paired_items(old: fx.Node, new: fx.Node | None) -> Iterator[tuple[fx.Node, fx.Node | None]]:
    """Two nodes, and what is taken out of both at the same place."""
    yield old, new
    items = _items(old)
    others: dict[str, list[fx.Node]] = {}
    for other in _items(new) if items and new is not None else ():
        others.setdefault(repr(other.args[1]), []).append(other)
    for mine in items:
        for twin in others.get(repr(mine.args[1]), ()) if new is not None else (None,):
            yield from _paired_items(mine, twin)


_MAY_RETURN_OPERAND = frozenset(
    {
        aten.conj.default,
        aten.contiguous.default,
        aten.lift_fresh.default,
        aten.positive.default,
        aten.real.default,
        aten.resolve_conj.default,
        aten.resolve_neg.default,
    }
)
"""Operators that return the very object they were given, at least where there is nothing to do."""


def _returns_operand(node: fx.Node) -> bool:
    """Whether the node's value may be the object that is its first argument."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or not node.args:
        return False
    first = node.args[0]
    if not isinstance(first, fx.Node):
        return target in _MAY_RETURN_OPERAND
    return (
        target in _MAY_RETURN_OPERAND
        or target._schema.is_mutable
        # one made of others, such as a cast to what it is, or dropout that drops nothing
        or (
            may_be_a_copy(target)
            and storages_in(node.meta.get("val")) == storages_in(first.meta.get("val"))
        )
    )


def _maker(node: fx.Node) -> fx.Node:
    """The node that made the object which this one's value may be."""
    while _returns_operand(node) and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def _twins(node: fx.Node) -> list[fx.Node]:
    """The nodes that may be the same object as this one, itself included."""
    maker = _maker(node)
    if maker.target is not operator.getitem:
        return _forms_of([maker])
    source = maker.args[0]
    assert isinstance(source, fx.Node)
    return _forms_of([item for item in _items(source) if item.args[1] == maker.args[1]])


def _forms_of(nodes: list[fx.Node]) -> list[fx.Node]:
    """The nodes, and those that may return the very objects these are."""
    found = [*nodes]
    for node in found:  # it grows
        found += [user for user in node.users if _returns_operand(user) and user.args[0] is node]
    return found


def storages_in(value: Any) -> tuple[int | None, ...]:
    """The storages of the tensors in a fake value, in order."""
    if isinstance(value, torch.Tensor):
        return (storage_id(value),)
    return tuple(storage_id(tensor) for tensor in graph_facts.tensors_in(value))


def _same_extent(before: torch.Tensor, after: torch.Tensor) -> bool:
    old: Any = before.untyped_storage().nbytes()
    new: Any = after.untyped_storage().nbytes()
    if graph_facts.same_size(old, new):
        return True
    if not isinstance(old, torch.SymInt) or not isinstance(new, torch.SymInt):
        return False
    # one size has many spellings, such as (n - 1) * m + m
    return bool((old.node.expr - new.node.expr).expand() == 0)
