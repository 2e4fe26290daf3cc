"""The rules of ``README.md`` as a table of checks, run once or after every pass.

A rule is a name and a function that returns what is wrong, or None. The state a rule compares with
is taken when the pipeline starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph import effects
from xpu_graph import fx as graph_facts
from xpu_graph.errors import PassError
from xpu_graph.fakes import run_fake
from xpu_graph.hooks import Hook
from xpu_graph.passes.base import Pass
from xpu_graph.passes.fold_assertions import is_proven
from xpu_graph.passes.memory import storages_in
from xpu_graph.passes.regions import Regions
from xpu_graph.passes.reinplace import is_reinplaced
from xpu_graph.stage import Unit
from xpu_graph.torch_compat import guard_count


@dataclass(frozen=True)
class Contract:
    """What nobody may change about a graph."""

    inputs: tuple[str, ...]
    output_values: tuple[Any, ...]
    output_aliases: tuple[tuple[int, ...], ...]
    ordered: tuple[str, ...]
    guards: int
    nodes: frozenset[str]
    has_provenance: bool

    @classmethod
    def of(cls, unit: Unit) -> Contract:
        """The contract of a unit as it is now."""
        graph = unit.gm.graph
        leaves = graph_facts.output_leaves(graph)
        return cls(
            inputs=tuple(node.name for node in graph_facts.placeholders(graph)),
            output_values=tuple(leaf.meta.get("val") for leaf in leaves),
            output_aliases=_alias_classes(graph, leaves),
            ordered=_ordered(graph),
            guards=guard_count(unit.fake_inputs),
            nodes=frozenset(node.name for node in graph.nodes),
            has_provenance=all(
                graph_facts.has_provenance(node)
                for node in graph.nodes
                if node.op == "call_function"
            ),
        )


def _ordered(graph: fx.Graph) -> tuple[str, ...]:
    return tuple(
        f"{n.name} ({n.target})"
        for n in graph.nodes
        if effects.is_ordered(n) and not is_proven(n) and not is_reinplaced(n)
    )


def _alias_classes(graph: fx.Graph, leaves: list[fx.Node]) -> tuple[tuple[int, ...], ...]:
    """For every output tensor, the position of the first input or output on its storage."""
    first: dict[int | None, int] = {}
    classes = []
    for position, node in enumerate([*graph_facts.placeholders(graph), *leaves]):
        storages = graph_facts.storages_of(node)
        classes.append(tuple(first.setdefault(storage, position) for storage in storages))
    return tuple(classes)


def _is_well_formed(unit: Unit, contract: Contract) -> str | None:
    try:
        unit.gm.graph.lint()
    except RuntimeError as error:
        return str(error)
    return None


def _has_inputs(unit: Unit, contract: Contract) -> str | None:
    names = tuple(node.name for node in graph_facts.placeholders(unit.gm.graph))
    return None if names == contract.inputs else f"inputs {contract.inputs} became {names}"


def _has_outputs(unit: Unit, contract: Contract) -> str | None:
    leaves = graph_facts.output_leaves(unit.gm.graph)
    if len(leaves) != len(contract.output_values):
        return f"{len(contract.output_values)} outputs became {len(leaves)}"
    for position, (leaf, old) in enumerate(zip(leaves, contract.output_values, strict=True)):
        difference = graph_facts.value_difference(old, leaf.meta.get("val"))
        if difference:
            return f"output {position}: {difference}"
    return None


def _has_aliases(unit: Unit, contract: Contract) -> str | None:
    graph = unit.gm.graph
    classes = _alias_classes(graph, graph_facts.output_leaves(graph))
    if classes != contract.output_aliases:
        return f"memory shared by inputs and outputs: {contract.output_aliases} became {classes}"
    return None


def _keeps_order(unit: Unit, contract: Contract) -> str | None:
    ordered = _ordered(unit.gm.graph)
    if ordered != contract.ordered:
        return f"random, mutating or effectful operators {contract.ordered} became {ordered}"
    return None


def _adds_no_guard(unit: Unit, contract: Contract) -> str | None:
    guards = guard_count(unit.fake_inputs)
    return None if guards == contract.guards else f"{guards - contract.guards} guards were added"


def _has_true_values(unit: Unit, contract: Contract) -> str | None:
    """Every fake value is what the operator gives on its arguments' fake values."""
    mode = graph_facts.fake_mode_of(unit.gm.graph)
    regions = Regions(unit.gm.graph)
    for node in unit.gm.graph.nodes:
        target = node.target
        if not isinstance(target, torch._ops.OpOverload) or effects.returns_nothing(target):
            continue
        if "val" not in node.meta:
            return f"node {node.name} has no fake value"
        if not _is_checkable(node):
            continue
        with regions.at(node).entered():
            fresh = run_fake(node, mode)
        difference = graph_facts.value_difference(node.meta["val"], fresh, ignore_offset=True)
        if difference is None and _shared(node, node.meta["val"]) != _shared(node, fresh):
            difference = "it shares memory with other arguments"
        if difference:
            return f"the fake value of {node.name} is stale: {difference}"
    return None


def _shared(node: fx.Node, value: Any) -> list[list[fx.Node]]:
    """For each tensor of a value of the node, the arguments it shares memory with."""
    return [
        [used for used in node.all_input_nodes if storage in graph_facts.storages_of(used)]
        for storage in storages_in(value)
    ]


def _is_checkable(node: fx.Node) -> bool:
    """Whether running the operator on fakes again is free of effects and of new symbols."""
    if torch.Tag.data_dependent_output in getattr(node.target, "tags", ()):
        return False
    return effects.is_deterministic(node) and all(
        graph_facts.is_static(tensor)
        for used in (node, *node.all_input_nodes)
        for tensor in graph_facts.tensors_of(used)
    )


def _has_provenance(unit: Unit, contract: Contract) -> str | None:
    for node in unit.gm.graph.nodes:
        is_new = contract.has_provenance and node.name not in contract.nodes
        if is_new and not graph_facts.has_provenance(node):
            return f"the new node {node.name} does not say where it comes from"
    return None


RULES: dict[str, Callable[[Unit, Contract], str | None]] = {
    "the graph is well formed": _is_well_formed,
    "inputs stay": _has_inputs,
    "outputs keep dtype, shape, stride and device": _has_outputs,
    "outputs share memory as before": _has_aliases,
    "random and effectful operators stay in order": _keeps_order,
    "no guard is added": _adds_no_guard,
    "new nodes say where they come from": _has_provenance,
    "fake values are true": _has_true_values,
}
"""Rule -> its check."""

_CHEAP = tuple(name for name in RULES if name != "fake values are true")


class Verifier(Hook):
    """Checks the rules: ``"final"`` once at the end, ``"each"`` after every pass, all of them.

    Raises:
        PassError: a rule is broken; names the pass, the rule and what is wrong.
    """

    def __init__(self, mode: str) -> None:
        self._each = mode == "each"
        self._contract: Contract | None = None
        self._text = ""

    @override
    def pipeline_started(self, unit: Unit) -> None:
        self._contract = Contract.of(unit)
        if self._each:
            self._check(unit, "the graph that was handed in", tuple(RULES))

    @override
    def pass_started(self, unit: Unit, pass_: Pass) -> None:
        if self._each:
            self._text = str(unit.gm.graph)

    @override
    def pass_finished(self, unit: Unit, pass_: Pass, changed: bool) -> None:
        if not self._each:
            return
        really = str(unit.gm.graph) != self._text
        if really != changed:
            did = "changed the graph" if really else "did not change the graph"
            raise PassError(f"pass {pass_.name!r} reports changed={changed} but {did}")
        if changed:
            self._check(unit, f"pass {pass_.name!r}", tuple(RULES))

    @override
    def pipeline_finished(self, unit: Unit, rounds: int) -> None:
        assert self._contract is not None
        if unit.rewriter.applied or len(unit.gm.graph.nodes) != len(self._contract.nodes):
            self._check(unit, "the pipeline", _CHEAP)

    def _check(self, unit: Unit, culprit: str, names: tuple[str, ...]) -> None:
        assert self._contract is not None
        for name in names:
            problem = RULES[name](unit, self._contract)
            if problem is not None:
                raise PassError(f"{culprit} breaks the rule {name!r} in {unit.name}: {problem}")
