"""Frozen parameters: what depends on them alone moves into a graph that runs once.

    main(w, x): y = x @ t(w)    ->    fold(w): t(w)        main(x, c): y = x @ c

The split is made after the pipeline, so that the passes see one graph. The values are not baked in:
``artifact.FrozenArtifact`` runs the fold graph on the parameters it is called with and runs it again
when one of them changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import fx

from xpu_graph import fx as graph_facts
from xpu_graph.passes.constants import ConstantMap
from xpu_graph.stage import Unit


@dataclass
class FrozenSplit:
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


def split_frozen(unit: Unit, limit_bytes: int) -> FrozenSplit | None:
    """Cut what depends on ``unit.frozen`` alone out of a graph; None if there is no such part.

    Args:
        unit: the graph after the pipeline; it becomes the main part, in place.
        limit_bytes: the cap on what one folded result may add, see ``ConstantMap``.
    """
    if not unit.frozen:
        return None
    constants = ConstantMap(unit, frozenset(unit.frozen), limit_bytes)
    folded = {
        node
        for node in constants.from_sources
        if node.op == "call_function" and len(graph_facts.tensors_of(node)) == 1
    }
    frontier = [
        node
        for node in unit.gm.graph.nodes
        if node in folded and any(user not in constants for user in node.users)
    ]
    if not frontier:
        return None
    inputs = graph_facts.placeholders(unit.gm.graph)
    fold = _fold_graph(unit, frontier, inputs)
    fold_inputs = {node.name for node in graph_facts.placeholders(fold.graph)}
    frozen_inputs = [i for i, node in enumerate(inputs) if node.name in fold_inputs]
    fakes = list(unit.fake_inputs)
    last = inputs[-1]
    added: list[Any] = []
    for number, node in enumerate(frontier):
        with unit.gm.graph.inserting_after(last):
            last = unit.gm.graph.placeholder(f"frozen_{number}")
        last.meta["val"] = node.meta["val"]
        added.append(node.meta["val"])
        node.replace_all_uses_with(last)
    for node in reversed(unit.gm.graph.nodes):
        if node in constants and node.op != "placeholder" and not node.users:
            unit.gm.graph.erase_node(node)
    kept_inputs = []
    for position, node in enumerate(inputs):
        if node.users or position not in frozen_inputs:
            kept_inputs.append(position)
        else:
            unit.gm.graph.erase_node(node)
    unit.fake_inputs = [fakes[position] for position in kept_inputs] + added
    return FrozenSplit(fold, unit, frozen_inputs, kept_inputs)


def _fold_graph(unit: Unit, frontier: list[fx.Node], inputs: list[fx.Node]) -> fx.GraphModule:
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
