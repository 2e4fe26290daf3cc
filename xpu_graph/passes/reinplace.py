"""Functional operators write to an operand that nobody reads afterwards.

    y = sin(x); z = add(y, w); return z    ->    y = sin(x); z = add_(y, w); return z

For targets that run the graph as it is: it saves an allocation, and for large tensors the time in
which the system hands out fresh pages. It comes after everything else, because a graph that writes
to its intermediates is hard to reason about.

Left alone: operands that are inputs, constants or outputs, or share memory with another value that
is read later; memory that a custom or higher-order operator gave, which may keep it; results of
another dtype, shape or stride than the operand; operators that are not pointwise; complex numbers
and ``mul.Scalar``, which torch rounds in another way in place; small tensors, whose memory costs
nothing; symbolic sizes; and joint graphs, since what cuts them may compute a value twice.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph import effects
from xpu_graph import fx as graph_facts
from xpu_graph.config import XpuGraphConfig
from xpu_graph.fx import aten
from xpu_graph.passes.base import ATEN_STAGES, Pass, Phase
from xpu_graph.stage import Stage, Unit

MIN_BYTES = 1 << 16
"""Tensors below come out of the allocator's free lists; there is nothing to gain."""

_MARK = "xpu_graph_reinplaced"


class Reinplace(Pass):
    """Turns pointwise operators into their in-place forms where the operand's memory is free."""

    name = "reinplace"
    stages = ATEN_STAGES - {Stage.joint}
    phase = Phase.finish

    @override
    @classmethod
    def enabled(cls, config: XpuGraphConfig) -> bool:
        return config.vendor_compiler_config is None

    @override
    def run(self, unit: Unit) -> bool:
        before = unit.rewriter.applied
        nodes = list(unit.gm.graph.nodes)
        if not any(map(_is_large, nodes)):
            return False
        last = _last_readers(nodes, unit)
        makers = _makers(nodes, unit)
        for position, node in enumerate(nodes):
            target = _in_place_form(node)
            if target is None:
                continue
            operand = node.args[0]
            assert isinstance(operand, fx.Node)
            if not _fits(operand, node) or not _is_free(operand, node, unit):
                continue
            storage = unit.rewriter.memory.storages(operand)[0]
            if last[storage] != position or not _is_plain(makers[storage]):
                continue
            until = last.get(unit.rewriter.memory.storages(node)[0], position)
            if unit.rewriter.write_in_place(node, operand, target):
                node.meta[_MARK] = True
                last[storage] = until
        return unit.rewriter.applied > before


def is_reinplaced(node: fx.Node) -> bool:
    """Whether the node writes to its operand because this pass made it."""
    return _MARK in node.meta


def _last_readers(nodes: list[fx.Node], unit: Unit) -> dict[int | None, int]:
    """For each storage the position of the last node that reads a value on it.

    A collective reads on after its call, until a wait that may lie outside the graph.
    """
    last: dict[int | None, int] = {}
    for position, node in enumerate(nodes):
        until = len(nodes) if effects.is_collective(node) else position
        for used in node.all_input_nodes:
            for storage in unit.rewriter.memory.storages(used):
                last[storage] = max(until, last.get(storage, until))
    return last


def _makers(nodes: list[fx.Node], unit: Unit) -> dict[int | None, fx.Node]:
    """For each storage the node that made it."""
    makers: dict[int | None, fx.Node] = {}
    for node in nodes:
        for storage in unit.rewriter.memory.storages(node):
            makers.setdefault(storage, node)
    return makers


def _is_plain(node: fx.Node) -> bool:
    """Whether the node is a call of an operator of torch's own, which keeps nothing it returns."""
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.namespace in ("aten", "prims")


_forms: dict[Any, Any] = {}


def _in_place_form(node: fx.Node) -> Any:
    """The operator that does the same to its first operand; None where there is none."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.pointwise not in target.tags:
        return None
    if target not in _forms:
        _forms[target] = _find_form(target)
    if not node.args or not isinstance(node.args[0], fx.Node) or not effects.is_deterministic(node):
        return None
    return _forms[target]


_ROUND_OTHERWISE = frozenset({aten.mul.Scalar, aten.multiply.Scalar})


def _find_form(target: torch._ops.OpOverload) -> Any:
    if target in _ROUND_OTHERWISE:
        return None
    packet = getattr(getattr(torch.ops, target.namespace), f"{target._opname}_", None)
    form = getattr(packet, target._overloadname, None)
    if not isinstance(form, torch._ops.OpOverload):
        return None
    mine, other = target._schema.arguments, form._schema.arguments
    same = [(a.name, str(a.type)) for a in mine] == [(a.name, str(a.type)) for a in other]
    writes = [a.name for a in other if a.alias_info is not None and a.alias_info.is_write]
    return form if same and writes == [mine[0].name] else None


def _is_large(node: fx.Node) -> bool:
    """Whether the node's value is one tensor that is worth writing to."""
    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and graph_facts.is_static(value)
        and value.numel() * value.element_size() >= MIN_BYTES
    )


def _fits(operand: fx.Node, node: fx.Node) -> bool:
    """Whether the result is laid out as the operand, and is large enough to matter."""
    value, result = operand.meta.get("val"), node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and isinstance(result, torch.Tensor)
        and graph_facts.is_static(value)
        and not value.is_complex()
        and _is_large(operand)
        and graph_facts.geometry_difference(result, value) is None
        and graph_facts.same_size(_bytes_behind(value), _bytes_behind(result))
    )


def _bytes_behind(value: torch.Tensor) -> Any:
    """The size of the whole storage; symbolic for a view of static sizes of what is not static."""
    return value.untyped_storage().nbytes()


def _is_free(operand: fx.Node, node: fx.Node, unit: Unit) -> bool:
    """Whether the operand's memory is the graph's own, and the node reads it in one way only."""
    memory = unit.rewriter.memory
    storages = memory.storages(operand)
    return (
        None not in storages
        and not memory.is_owned_outside(operand)
        and not memory.is_returned(operand)
        and not any(
            used is not operand and storages[0] in memory.storages(used)
            for used in node.all_input_nodes
        )
    )
