"""What does not depend on a call's data moves into a graph of its own, which runs once.

    main(w, x): y = x @ t(w) + c    ->    fold(w): t(w), c        main(x, a, b): y = x @ a + b

The split is made after the pipeline, so that the passes see one graph. With frozen parameters, what
depends on them alone moves; for a vendor compiler, constants that the module owns move too, because
vendors want every tensor as an input. Parameters are not baked in: ``folded.FoldedArtifact`` runs
the fold graph on the parameters it is called with, and again when one of them changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from xpu_graph import fx as graph_facts
from xpu_graph.passes.constants import ConstantMap, drop_unused_constants
from xpu_graph.stage import Unit


@dataclass
class ConstantSplit:
    """A graph cut in two.

    Attributes:
        fold: takes the frozen inputs, returns the tensors that the main graph needs of them.
        main: the rest, as a unit; its inputs are some of the original ones, then what fold returns.
        frozen_inputs: positions of fold's inputs among the original ones.
        kept_inputs: positions of main's first inputs among the original ones.
    """

    fold: fx.GraphModule
    main: Unit
    frozen_inputs: list[int]
    kept_inputs: list[int]


def split_constant_part(unit: Unit, limit_bytes: int, lift_constants: bool) -> ConstantSplit | None:
    """Cut what depends on ``unit.frozen`` alone out of a graph; None if there is no such part.

    Args:
        unit: the graph after the pipeline; it becomes the main part, in place.
        limit_bytes: the cap on what one folded result may add, see ``ConstantMap``.
        lift_constants: whether constants that the module owns are to become inputs too.
    """
    constants = ConstantMap(unit, frozenset(unit.frozen), limit_bytes)
    movable = {n for n in unit.gm.graph.nodes if _is_movable(n, constants, unit, lift_constants)}
    frontier = [
        node
        for node in unit.gm.graph.nodes
        if node in movable
        and isinstance(node.meta["val"], torch.Tensor)
        and any(user not in movable for user in node.users)
    ]
    if not frontier:
        return None
    inputs = graph_facts.placeholders(unit.gm.graph)
    fold = _fold_graph(unit, frontier)
    fold_inputs = {node.name for node in graph_facts.placeholders(fold.graph)}
    frozen_inputs = [i for i, node in enumerate(inputs) if node.name in fold_inputs]
    is_folded = set(frozen_inputs)
    added = _replace_by_inputs(unit, frontier, inputs)
    for node in reversed(unit.gm.graph.nodes):
        if node in constants and node.op != "placeholder" and not node.users:
            unit.gm.graph.erase_node(node)
    kept_inputs = []
    for position, node in enumerate(inputs):
        if node.users or position not in is_folded:
            kept_inputs.append(position)
        else:
            unit.gm.graph.erase_node(node)
    unit.fake_inputs = [unit.fake_inputs[position] for position in kept_inputs] + added
    drop_unused_constants(unit.gm)
    return ConstantSplit(fold, unit, frozen_inputs, kept_inputs)


def _is_movable(node: fx.Node, constants: ConstantMap, unit: Unit, lift_constants: bool) -> bool:
    if node.op == "get_attr":
        return lift_constants and node in constants and not unit.rewriter.is_returned(node)
    return node.op == "call_function" and node in constants.from_sources


def _replace_by_inputs(unit: Unit, frontier: list[fx.Node], inputs: list[fx.Node]) -> list[Any]:
    """Let the main graph take the frontier as further inputs; returns their fake values."""
    graph = unit.gm.graph
    first = next(iter(graph.nodes))
    last = inputs[-1] if inputs else None
    values = []
    for number, node in enumerate(frontier):
        place = graph.inserting_after(last) if last else graph.inserting_before(first)
        with place:
            last = graph.placeholder(f"constant_{number}")
        last.meta["val"] = node.meta["val"]
        graph_facts.mark(last, "static", "folded")
        values.append(node.meta["val"])
        node.replace_all_uses_with(last)
    return values


def _fold_graph(unit: Unit, frontier: list[fx.Node]) -> fx.GraphModule:
    needed: set[fx.Node] = set()
    pending = list(frontier)
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending += node.all_input_nodes
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in unit.gm.graph.nodes:
        if node in needed:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([copies[node] for node in frontier])
    return fx.GraphModule(unit.gm, graph)
