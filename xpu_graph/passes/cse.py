"""Common subexpressions: what was computed before is not computed again.

    a = sin(x); b = sin(x); return a + b    ->    a = sin(x); return a + a

Two nodes are the same expression when target and arguments agree, literals by type and bit pattern
(``1``, ``1.0`` and ``True`` differ, and so do ``0.0`` and ``-0.0``), and when no write to the
memory of an argument lies between them, and neither does a custom operator that returns nothing:
it may switch the stream.

Left alone: random operators, operators that write or have effects, uninitialised memory,
higher-order and custom operators, pairs that are both returned (they are two tensors), and in joint
graphs what activation checkpointing makes again with what it keeps.
"""

from __future__ import annotations

import struct
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph import effects
from xpu_graph.config import XpuGraphConfig
from xpu_graph.passes.base import Phase, RewritePass
from xpu_graph.stage import Stage, Unit

_PLAIN = frozenset(
    {
        bool,
        int,
        str,
        type(None),
        type(...),
        torch.device,
        torch.dtype,
        torch.layout,
        torch.memory_format,
    }
)
"""Kinds of literals that are equal exactly if they compare equal and are of one kind."""

MAX_KEPT_APART = 4
"""How many equal expressions that cannot be merged are remembered; it keeps the pass linear."""


class CommonSubexpressions(RewritePass):
    """Lets a node's users read an earlier equal node."""

    name = "cse"
    phase = Phase.simplify

    def __init__(self, config: XpuGraphConfig) -> None:
        super().__init__(config)
        self._known: dict[object, list[tuple[fx.Node, int]]] = {}

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        key = _key(node, unit)
        if key is None:
            return
        rewriter = unit.rewriter
        same = self._known.get(key)
        if same is None:
            self._known[key] = [(node, rewriter.clock)]
            return
        same[:] = [
            entry for entry in same if entry[0] is not node and self._holds(*entry, unit, key)
        ]
        for other, _ in same:
            earlier, later = (other, node) if other < node else (node, other)
            if rewriter.replace(later, earlier):
                if later is node:
                    return
                break  # ``other`` is gone, and ``node`` takes its place among the known
        if len(same) < MAX_KEPT_APART:
            same.append((node, rewriter.clock))

    def _holds(self, other: fx.Node, seen_at: int, unit: Unit, key: object) -> bool:
        """Whether a node that had a key when it was seen still has it."""
        rewriter = unit.rewriter
        if not rewriter.is_alive(other):
            return False
        return not rewriter.is_touched_since(other, seen_at) or _key(other, unit) == key


def _key(node: fx.Node, unit: Unit) -> object | None:
    """What two equal expressions agree on; None for a node that must not be merged."""
    if node.op == "get_attr":
        return None if unit.rewriter.is_written(node) else ("get_attr", node.target)
    if not effects.is_deterministic(node):
        return None
    try:
        arguments = [_literal(argument, unit, node) for argument in node.args]
        named = _literal(node.kwargs, unit, node) if node.kwargs else None
    except TypeError:  # an argument of a kind that has no equality
        return None
    kept = _kept(node) if unit.stage is Stage.joint else None
    # by id, as torch hashes operators slowly; the graph keeps the operator
    return (id(node.target), named, kept, unit.rewriter.section(node), *arguments)


def _kept(node: fx.Node) -> object | None:
    """What the partitioner was told to do with a node's value: to save it, or to make it again."""
    meta = node.meta
    side = meta.get("partitioner_tag")
    is_free = side in (None, "is_forward", "is_backward")
    if is_free and "recompute" not in meta:
        return None
    return (None if is_free else side, meta.get("recompute"), meta.get("ac_graph_id"))


def _literal(value: Any, unit: Unit, reader: fx.Node) -> object:
    kind = type(value)
    if kind is fx.Node:
        writes = unit.rewriter.writes_before(reader, value)
        return (value, writes) if writes else value
    if kind in _PLAIN:
        return (kind, value)
    if kind is float:
        return (kind, struct.pack("<d", value))
    if kind is complex:
        return (kind, struct.pack("<dd", value.real, value.imag))
    if isinstance(value, (list, tuple)):
        return (list, *[_literal(entry, unit, reader) for entry in value])
    if isinstance(value, dict):
        return (dict, *[(key, _literal(value[key], unit, reader)) for key in sorted(value)])
    if kind is slice:
        parts = (value.start, value.stop, value.step)
        return (kind, *[_literal(part, unit, reader) for part in parts])
    raise TypeError(kind.__name__)
