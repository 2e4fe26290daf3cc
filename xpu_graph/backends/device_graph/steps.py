"""A planned graph as modules, one a step, and a last one that puts the outputs together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from torch import fx

from xpu_graph.backends.device_graph.plan import Plan, Step
from xpu_graph.backends.device_graph.structure import Structure
from xpu_graph.fx import output_leaves


@dataclass(frozen=True)
class Part:
    """A step as a module.

    Attributes:
        step: what was planned.
        module: takes the step's inputs, returns the list of its outputs.
        number_of: node of the module -> number of the node of the graph that it stands for.
        done_with: numbers of the values that nobody needs once the step has run.
    """

    step: Step
    module: fx.GraphModule
    number_of: Mapping[fx.Node, int]
    done_with: Sequence[int]


def cut(gm: fx.GraphModule, plan: Plan) -> list[Part]:
    """Cut a graph as planned; the last part is not planned, it returns what the graph returns.

    Raises:
        LookupError: the plan is not for this graph.
    """
    nodes = list(gm.graph.nodes)
    real = {nodes[number] for step in plan.steps for number in step.nodes}
    structure = Structure(real)
    numbers = {node: number for number, node in enumerate(nodes)}
    returned = structure.bases(output_leaves(gm.graph))
    last = Step(False, [], [numbers[node] for node in returned], [], [])
    steps = [*plan.steps, last]
    last_use = {number: at for at, step in enumerate(steps) for number in step.inputs}
    parts = []
    for at, step in enumerate(steps):
        module = _Builder(gm, structure, real)
        for number in step.inputs:
            module.take(nodes[number])
        for number in step.nodes:
            module.call(nodes[number])
        if step is last:
            built, origin = module.build(gm.graph.output_node().args[0])
        else:
            built, origin = module.build([nodes[number] for number in step.outputs])
        done = [number for number in step.inputs if last_use[number] == at]
        parts.append(Part(step, built, {n: numbers[o] for n, o in origin.items()}, done))
    return parts


class _Builder:
    """Copies nodes into a graph of their own, and the views they look through with them."""

    def __init__(self, gm: fx.GraphModule, structure: Structure, real: Set[fx.Node]) -> None:
        self._gm = gm
        self._structure = structure
        self._real = real
        self._graph = fx.Graph()
        self._copies: dict[fx.Node, fx.Node] = {}

    def take(self, node: fx.Node) -> None:
        """Make a value from outside an input."""
        self._copies[node] = self._graph.placeholder(node.name)

    def call(self, node: fx.Node) -> None:
        """Copy a call."""
        self._make(node.all_input_nodes)
        self._copies[node] = self._graph.node_copy(node, self._copy_of)

    def build(self, result: Any) -> tuple[fx.GraphModule, dict[fx.Node, fx.Node]]:
        """The module, and which nodes its calls are copies of."""
        leaves: list[fx.Node] = []
        fx.map_arg(result, leaves.append)
        self._make(leaves)
        self._graph.output(fx.map_arg(result, self._copy_of))
        origin = {copy: node for node, copy in self._copies.items() if node in self._real}
        return fx.GraphModule(self._gm, self._graph), origin

    def _copy_of(self, node: fx.Node) -> fx.Node:
        return self._copies[self._structure.resolve(node)]

    def _make(self, wanted: Iterable[fx.Node]) -> None:
        """Copy what these follow from without a kernel."""
        waiting = [self._structure.resolve(node) for node in wanted]
        while waiting:
            node = waiting[-1]
            missing = [
                source
                for source in map(self._structure.resolve, node.all_input_nodes)
                if source not in self._copies
            ]
            if node in self._copies or not missing:
                waiting.pop()
                if node not in self._copies:
                    self._copies[node] = self._graph.node_copy(node, self._copy_of)
            else:
                waiting += missing
