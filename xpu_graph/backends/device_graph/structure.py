"""What in a graph is a value of its own, and what follows from such values without a kernel.

A view costs nothing, so it belongs to no step: whoever reads it makes it again from its base, and
it is an alias of the right tensor wherever it is made. What an in-place operator returns is the
tensor it wrote to, under another name.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Set

from torch import fx
from torch._ops import OpOverload

from xpu_graph.fx import aten
from xpu_graph.torch_compat import may_be_a_copy


def is_view(node: fx.Node) -> bool:
    """Whether the node always gives an alias of its first argument."""
    target = node.target
    if target is aten._unsafe_view.default:  # an alias all the same, says its kernel
        return True
    if target is operator.getitem:
        source = node.args[0]
        return isinstance(source, fx.Node) and is_view(source)
    return isinstance(target, OpOverload) and target.is_view and not may_be_a_copy(target)


def written_argument(node: fx.Node) -> fx.Node | None:
    """The argument that an in-place operator returns; None for any other node."""
    position = 0
    if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
        node, position = node.args[0], int(node.args[1])  # type: ignore[arg-type]
    if not isinstance(node.target, OpOverload):
        return None
    schema = node.target._schema
    if position >= len(schema.returns):
        return None
    returned = schema.returns[position].alias_info
    if returned is None or not returned.is_write:
        return None
    for number, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = node.kwargs.get(argument.name)
            if given is None and number < len(node.args):
                given = node.args[number]
            same = argument.alias_info.before_set == returned.before_set
            if same and isinstance(given, fx.Node):
                return given
    return None


class Structure:
    """A graph seen as values of its own and what follows from them.

    Args:
        real: the calls that a step runs; all others are made again by whoever needs them.
    """

    def __init__(self, real: Set[fx.Node]) -> None:
        self._real = real

    def resolve(self, node: fx.Node) -> fx.Node:
        """The node whose value this one's is: itself, unless an in-place operator returned it."""
        while node.op == "call_function" and (written := written_argument(node)) is not None:
            node = written
        return node

    def is_base(self, node: fx.Node) -> bool:
        """Whether the node is an input, or a value that a step makes."""
        return node.op == "placeholder" or (node in self._real and self.resolve(node) is node)

    def bases(self, nodes: Iterable[fx.Node]) -> list[fx.Node]:
        """The values of their own that these follow from, each once; constants do not count."""
        found: dict[fx.Node, None] = {}
        seen: set[fx.Node] = set()
        waiting = list(nodes)[::-1]
        while waiting:
            node = self.resolve(waiting.pop())
            if node in seen:
                continue
            seen.add(node)
            if self.is_base(node):
                found[node] = None
            else:
                waiting += node.all_input_nodes[::-1]
        return list(found)
