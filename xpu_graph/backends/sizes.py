"""Sizes that depend on data: each call that makes one reads a tensor of its own.

While a graph is traced, a second call on the same tensor takes the size that the first one made. So
where equal expressions were merged, two calls that each made one cannot be traced again.
"""

from __future__ import annotations

import copy

import torch
from torch import fx

from xpu_graph.effects import is_deterministic


def with_own_operands(gm: fx.GraphModule) -> fx.GraphModule:
    """A graph like this one, in which no two calls that make a size read the same tensor.

    Args:
        gm: the graph, which is not changed.

    Returns:
        ``gm`` itself where there is nothing to do.
    """
    if not _readers(gm):
        return gm
    copied = fx.GraphModule(gm, copy.deepcopy(gm.graph))
    for node, operand in _readers(copied):
        with copied.graph.inserting_before(node):
            node.replace_input_with(operand, copied.graph.node_copy(operand))
    copied.recompile()
    return copied


def _readers(gm: fx.GraphModule) -> list[tuple[fx.Node, fx.Node]]:
    """The calls that make a size from a tensor that an earlier one makes a size from, too."""
    seen: set[fx.Node] = set()
    found = []
    for node in gm.graph.nodes:
        if not node.meta.get("unbacked_bindings"):
            continue
        for operand in node.all_input_nodes:
            # What is computed twice stays two, in the eyes of a compiler that drops copies, too.
            is_tensor = isinstance(operand.meta.get("val"), torch.Tensor)
            if operand in seen and is_tensor and is_deterministic(operand):
                found.append((node, operand))
            seen.add(operand)
    return found
