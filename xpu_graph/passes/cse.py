"""Common subexpressions: what was computed before is not computed again.

    a = sin(x); b = sin(x); return a + b    ->    a = sin(x); return a + a

Two nodes are the same expression when target and arguments agree, literals by type and bit pattern
(``1``, ``1.0`` and ``True`` differ, and so do ``0.0`` and ``-0.0``), and when no write to the
memory of an argument lies between them.

Left alone: random operators, operators that write or have effects, uninitialised memory,
higher-order and custom operators, and pairs that are both returned (they are two tensors).
"""

from __future__ import annotations

import struct
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph import fx as graph_facts
from xpu_graph.config import XpuGraphConfig
from xpu_graph.passes.base import Phase, RewritePass
from xpu_graph.stage import Unit


class CommonSubexpressions(RewritePass):
    """Lets a node's users read an earlier equal node."""

    name = "cse"
    phase = Phase.simplify

    def __init__(self, config: XpuGraphConfig) -> None:
        super().__init__(config)
        self._known: dict[object, list[fx.Node]] = {}

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        key = _key(node, unit)
        if key is None:
            return
        same = self._known.setdefault(key, [])
        for other in same:
            if other is node or not unit.rewriter.is_alive(other) or _key(other, unit) != key:
                continue
            earlier, later = (other, node) if other < node else (node, other)
            if unit.rewriter.replace(later, earlier):
                if later is node:
                    return
                break
        if node not in same:
            same.append(node)


def _key(node: fx.Node, unit: Unit) -> object | None:
    """What two equal expressions agree on; None for a node that must not be merged."""
    if node.op == "get_attr":
        return None if unit.rewriter.is_written(node) else ("get_attr", node.target)
    if not graph_facts.is_deterministic(node):
        return None
    try:
        arguments = (_literal(node.args, unit, node), _literal(node.kwargs, unit, node))
    except TypeError:  # an argument of a kind that has no equality
        return None
    return (node.target, arguments)


def _literal(value: Any, unit: Unit, reader: fx.Node) -> object:
    if isinstance(value, fx.Node):
        return ("node", value, unit.rewriter.writes_before(reader, value))
    if isinstance(value, (list, tuple)):
        return ("list", *(_literal(entry, unit, reader) for entry in value))
    if isinstance(value, dict):
        return ("dict", *((key, _literal(value[key], unit, reader)) for key in sorted(value)))
    if isinstance(value, float):
        return ("float", struct.pack("<d", value))
    if isinstance(value, complex):
        return ("complex", struct.pack("<dd", value.real, value.imag))
    if isinstance(value, slice):
        return (
            "slice",
            *(_literal(p, unit, reader) for p in (value.start, value.stop, value.step)),
        )
    known = (bool, int, str, type(None), type(...), torch.dtype, torch.device, torch.layout)
    if isinstance(value, (*known, torch.memory_format)):
        return (type(value).__name__, value)
    raise TypeError(type(value).__name__)
