"""Results that torch may lay out in another way than their fake values say.

Where an operand has an odd stride at a dimension of size 1 (one that a tensor of its own would not
have there), real operators often keep that stride, and fake ones do not. What was computed from
such a result is in doubt, too, but for products of matrices: their results are tensors of their
own, in the layout of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx

from xpu_graph import fx as graph_facts
from xpu_graph.fx import aten

MAX_READERS = 64
"""How many readers are looked at; it keeps the passes linear."""

_PRODUCTS = frozenset({aten.addmm.default, aten.bmm.default, aten.mm.default})


def doubt_from(node: fx.Node) -> Sequence[fx.Node]:
    """The nodes whose odd strides may lead to others in a node's value than its fake one has."""
    return () if node.target in _PRODUCTS else node.all_input_nodes


class OddStrides:
    """Which strides of one graph's values are in doubt. Looks back only as far as needed."""

    def __init__(self) -> None:
        self._in_doubt: dict[fx.Node, bool] = {}

    def may_differ(self, value: Any, reads: Sequence[fx.Node]) -> bool:
        """Whether a result may have other strides than its fake value.

        Args:
            value: its fake value.
            reads: the nodes it is computed from.
        """
        return _has_size_one(value) and any(map(self._is_odd, reads))

    def reach(self, node: fx.Node, is_returned: Callable[[fx.Node], bool]) -> bool:
        """Whether doubt about a node's strides would come to an output."""
        pending, seen = [node], {node}
        while pending:
            current = pending.pop()
            if is_returned(current) or len(seen) > MAX_READERS:
                return True
            for user in current.users:
                is_in_doubt = user not in seen and user.target not in _PRODUCTS
                if is_in_doubt and any(map(_has_size_one, graph_facts.tensors_of(user))):
                    seen.add(user)
                    pending.append(user)
        return False

    def follow(self, nodes: Iterable[fx.Node]) -> None:
        """Look at nodes again that have other values, or other readers."""
        if not self._in_doubt:
            return
        for node in nodes:
            self._in_doubt.pop(node, None)
            if self._is_odd(node):
                self._spread(node)

    def forget(self, node: fx.Node) -> None:
        """Drop a node that is no longer in the graph."""
        self._in_doubt.pop(node, None)

    def _spread(self, node: fx.Node) -> None:
        """Put what is computed from a node in doubt, too."""
        pending = [node]
        while pending:
            for user in pending.pop().users:
                known = self._in_doubt.get(user, False) or user.target in _PRODUCTS
                if not known and any(map(_has_size_one, graph_facts.tensors_of(user))):
                    self._in_doubt[user] = True
                    pending.append(user)

    def _is_odd(self, node: fx.Node) -> bool:
        """Whether the node's value has odd strides, or may have them."""
        known = self._in_doubt
        pending = [node]
        while pending:
            current = pending.pop()
            if current in known:
                continue
            tensors = graph_facts.tensors_of(current)
            if not any(map(_has_size_one, tensors)):
                known[current] = False
            elif not all(map(_is_plain, tensors)):
                known[current] = True
            else:
                inputs = doubt_from(current)
                unknown = [used for used in inputs if used not in known]
                in_doubt = any(map(known.get, inputs))
                if unknown and not in_doubt:
                    pending += [current, *unknown]
                else:
                    known[current] = in_doubt
        return known[node]


def _has_size_one(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and any(
        type(size) is int and size == 1 for size in value.shape
    )


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout != torch.strided or graph_facts.has_plain_strides(tensor)
