"""What changed in a graph, and when; and where the calls of each operator are.

It is what lets a pass visit, from the second round on, only what was touched.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from torch import fx


class ChangeLog:
    """The nodes of one graph in the order they were touched; the first touch is that of all nodes.

    Args:
        graph: the graph; what is added to it or removed is to be told.
    """

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._log: list[fx.Node] = list(graph.nodes)
        self._start = len(self._log)
        self._stamp: dict[fx.Node, int] = dict.fromkeys(self._log, 1)
        self._by_target: dict[Any, list[tuple[int, fx.Node]]] = {}
        for position, node in enumerate(self._log):
            if node.op == "call_function":
                self._by_target.setdefault(id(node.target), []).append((position, node))
        self._added: Counter[int] = Counter()
        self._numbers: set[tuple[int, float]] | None = None
        self._readers: dict[int, tuple[int, dict[int | None, list[fx.Node]]]] = {}

    def __contains__(self, node: fx.Node) -> bool:
        return node in self._stamp

    @property
    def clock(self) -> int:
        """A time that grows with every touch."""
        return len(self._log)

    def add(self, node: fx.Node) -> None:
        """Note a new node."""
        self._stamp[node] = 0
        self._added[id(node.target)] += 1
        if self._numbers is not None:
            self._numbers.update(_numbers_of(node))
        self.touch(node)

    def drop(self, node: fx.Node) -> None:
        """Note that a node went."""
        del self._stamp[node]

    def touch(self, *nodes: fx.Node) -> None:
        """Note that nodes changed, or their neighbours did; those that went are passed over."""
        for node in nodes:
            if node in self._stamp:
                self._log.append(node)
                self._stamp[node] = len(self._log)

    def is_touched_since(self, node: fx.Node, clock: int) -> bool:
        """Whether a node of the graph was touched after a time."""
        return self._stamp[node] > clock

    def touched_since(self, clock: int) -> list[fx.Node]:
        """The nodes that were touched after a time; in graph order."""
        if clock == 0:
            return list(self._graph.nodes)
        touched = dict.fromkeys(self._log[clock:])
        return sorted(node for node in touched if node in self._stamp)

    def calls_of(self, targets: Collection[Any], since: int) -> list[fx.Node]:
        """The calls of some operators that were touched after a time; in graph order.

        Args:
            targets: the operators.
            since: a time; 0 for all calls.
        """
        wanted = {id(target) for target in targets}
        found: list[tuple[int, fx.Node]] = []
        if since == 0:
            for target in wanted & self._by_target.keys():
                calls = self._by_target[target]
                found += [c for c in calls if c[1] in self._stamp and id(c[1].target) == target]
            found.sort(key=operator.itemgetter(0))
        known = [node for _, node in found]
        touched = dict.fromkeys(self._log[max(since, self._start) :])
        new = [n for n in touched if n in self._stamp and id(n.target) in wanted]
        if since == 0 and new:
            seen = set(known)
            new = [node for node in new if node not in seen]
        return sorted([*known, *new]) if new else known

    def has_calls(
        self, targets: Iterable[Any], with_numbers: Iterable[tuple[Any, float]] = ()
    ) -> bool:
        """Whether there is, or was, a call of each of some operators.

        Args:
            targets: the operators.
            with_numbers: operators that must have been called with a number as an argument.
        """
        if not all(id(t) in self._by_target or id(t) in self._added for t in targets):
            return False
        if self._numbers is None:
            self._numbers = {pair for node in self._graph.nodes for pair in _numbers_of(node)}
        return all((id(target), number) in self._numbers for target, number in with_numbers)

    def count_calls(self, target: Any) -> int:
        """How many calls of an operator there are, or were."""
        return len(self._by_target.get(id(target), ())) + self._added[id(target)]

    def calls_reading(self, target: Any, operands: Collection[Any]) -> list[fx.Node]:
        """The calls of an operator that read results of all of some others; in graph order.

        Args:
            target: the operator.
            operands: the others.
        """
        clock, index = self._readers.get(id(target), (-1, {}))
        if clock != self.clock:
            index = {None: self.calls_of((target,), 0)}
            for node in index[None]:
                for read in {id(used.target) for used in node.all_input_nodes}:
                    index.setdefault(read, []).append(node)
            self._readers[id(target)] = (self.clock, index)
        lists = [index.get(id(operand), []) for operand in operands]
        if not lists:
            return index[None]
        smallest = min(lists, key=len)
        return [node for node in smallest if all(node in others for others in lists)]


def _numbers_of(node: fx.Node) -> Iterator[tuple[int, float]]:
    for argument in node.args:
        if isinstance(argument, (int, float)):
            yield id(node.target), argument
