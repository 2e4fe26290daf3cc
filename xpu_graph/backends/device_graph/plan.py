"""Which parts of a graph are captured, and what runs eagerly around them.

Every call is either captured or run by itself. Calls of one kind that need nothing of the other
kind in between form one step: steps of the two kinds take turns, and each call goes into the
earliest step that it can. What is written is not moved across its readers, and what has effects
keeps its order.

A plan is plain data about node numbers, so that it is stored beside the graph it is for.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

import torch
from torch import fx
from torch._ops import OpOverload

from xpu_graph.backends.device_graph.input_facts import InputFacts, facts_of
from xpu_graph.backends.device_graph.structure import Structure, is_view, written_argument
from xpu_graph.effects import is_deterministic, is_size_arithmetic, written_args
from xpu_graph.fx import aten, attribute, output_leaves, tensors_of
from xpu_graph.torch_compat import storage_id


class Handling(StrEnum):
    """How what a captured step reads gets to where its kernels look for it.

    ``number``: part of the key. ``given``: an input of the graph, copied. ``lent``: made by an
    eager step, copied. ``static``: a parameter, at an address that is part of the key unless it is
    frozen. ``written``: written to in the step, so never copied; its address is part of the key.
    ``made``: made by a captured step, where it stays; its address is part of the key.
    """

    number = "number"
    given = "given"
    lent = "lent"
    static = "static"
    written = "written"
    made = "made"


@dataclass(frozen=True)
class Step:
    """Calls that run together.

    Attributes:
        captured: whether they are captured.
        nodes: their numbers in the graph.
        inputs: numbers of the values that they need from outside.
        handling: for a captured step, how each of the inputs gets in.
        outputs: numbers of the values that are needed outside.
    """

    captured: bool
    nodes: list[int]
    inputs: list[int]
    handling: list[Handling]
    outputs: list[int]


@dataclass(frozen=True)
class Plan:
    """How a graph is run.

    Attributes:
        steps: in order.
        device_index: of the device that captures; None where nothing is captured.
        input_facts: of each tensor input, by its number among the nodes.
        reasons: why a call is not captured, by its number.
        lines: the user's line that a captured call comes from, by its number.
    """

    steps: list[Step]
    device_index: int | None
    input_facts: dict[int, InputFacts] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)
    lines: dict[int, str] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """The plan as JSON data."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """The inverse of ``as_data``, also after a way through JSON.

        Raises:
            LookupError, TypeError, ValueError: it is not the data of a plan.
        """
        steps = [
            Step(**{**step, "handling": [Handling(name) for name in step["handling"]]})
            for step in data["steps"]
        ]
        facts = {int(n): InputFacts(**known) for n, known in data["input_facts"].items()}
        reasons = {int(n): str(why) for n, why in data["reasons"].items()}
        lines = {int(n): str(line) for n, line in data["lines"].items()}
        return cls(steps, data["device_index"], facts, reasons, lines)


def make_plan(
    gm: fx.GraphModule,
    static_inputs: Collection[int],
    why_not_captured: Callable[[fx.Node, Sequence[torch.Tensor]], str | None],
    device: torch.device | None,
) -> Plan:
    """Plan a graph.

    Args:
        gm: the graph, with fake values.
        static_inputs: positions of the inputs that stay where they are.
        why_not_captured: why a call must not be captured; takes it and the tensors it works on.
        device: the device that captures; None: nothing is captured.
    """
    numbers = {node: number for number, node in enumerate(gm.graph.nodes)}
    inputs = list(gm.graph.find_nodes(op="placeholder"))
    facts = {
        numbers[node]: facts_of(tensor)
        for node in inputs
        if isinstance(tensor := node.meta.get("val"), torch.Tensor)
        and tensor.layout == torch.strided
    }
    static = {inputs[position] for position in static_inputs}
    planner = _Planner(gm, static, why_not_captured, device)
    for node in gm.graph.nodes:
        planner.place(node)
    steps = planner.steps(numbers)
    captured = {number for step in steps if step.captured for number in step.nodes}
    lines = {
        number: line
        for node, number in numbers.items()
        if number in captured and (line := _users_line(node.meta.get("stack_trace")))
    }
    reasons = {numbers[node]: why for node, why in planner.reasons.items()}
    index = device.index if device is not None else None
    return Plan(steps, index, facts, reasons, lines)


class _Planner:
    """Gives each call its level: even ones run eagerly, odd ones are captured."""

    def __init__(
        self,
        gm: fx.GraphModule,
        static: set[fx.Node],
        why_not_captured: Callable[[fx.Node, Sequence[torch.Tensor]], str | None],
        device: torch.device | None,
    ) -> None:
        self.reasons: dict[fx.Node, str] = {}
        self._gm = gm
        self._static = static
        self._why_not_captured = why_not_captured
        self._device = device
        self._levels: dict[fx.Node, int] = {}
        self._real: dict[fx.Node, None] = {}
        self._structure = Structure(self._real.keys())
        self._made_by: dict[int | None, str] = {}
        self._last_read: dict[int | None, int] = {}
        self._last_write: dict[int | None, int] = {}
        self._last_effect = 0

    def place(self, node: fx.Node) -> None:
        """Take in the next node of the graph."""
        if node.op in ("placeholder", "get_attr"):
            self._levels[node] = 0
            self._own(node, "constant" if node.op == "get_attr" else "input")
        elif node.op != "output":
            if self._is_free(node):
                self._levels[node] = self._ready(node)
            elif node.target is operator.getitem and node.args[0] in self._real:
                self._place_real(node, self._levels[node.args[0]])  # type: ignore[index]
            else:
                self._place_call(node)

    def _is_free(self, node: fx.Node) -> bool:
        if node.target is operator.getitem and written_argument(node) is not None:
            return True
        if not is_view(node):
            return False
        if node.target is not aten.as_strided.default:
            return True
        # It may reach beyond its base, into memory that a copy of the base would not have.
        owners = {self._made_by.get(storage) for storage in self._storages(node)}
        return owners <= {"constant", "captured"}

    def _place_call(self, node: fx.Node) -> None:
        reads = [s for source in node.all_input_nodes for s in self._storages(source)]
        writes = [s for written in written_args(node) for s in self._storages(written)]
        level = self._ready(node)
        if is_size_arithmetic(node) or _is_size_query(node):
            bases = self._structure.bases(node.all_input_nodes)
            level = _next(level, captured=any(map(self._is_captured, bases)))
        elif is_view(node):  # one that is not free, see there
            level = _next(level, captured=False)
        else:
            why = self._why_eager(node, writes)
            level = max(level, *(self._last_write.get(s, 0) for s in (None, *reads, *writes)))
            level = max(level, *(self._last_read.get(s, 0) for s in (None, *writes)))
            if why is not None:
                self.reasons[node] = why
                if not is_deterministic(node):
                    level = max(level, self._last_effect)
            level = _next(level, captured=why is None)
            if why is not None and not is_deterministic(node):
                self._last_effect = level
            for storage in reads:
                self._last_read[storage] = max(level, self._last_read.get(storage, 0))
            for storage in writes:
                self._last_write[storage] = max(level, self._last_write.get(storage, 0))
        self._place_real(node, level)

    def _place_real(self, node: fx.Node, level: int) -> None:
        self._levels[node] = level
        self._real[node] = None
        self._own(node, "captured" if level % 2 else "eager")

    def _why_eager(self, node: fx.Node, writes: Sequence[int | None]) -> str | None:
        if any(self._made_by.get(storage) == "eager" for storage in writes):
            return "it writes to memory that is new at each call"
        sequences = (
            source
            for source in node.all_input_nodes
            if isinstance(source.meta.get("val"), (list, tuple)) and source in self._real
        )
        if next(sequences, None) is not None:
            return "it takes a whole sequence that another call made"
        known = {s for source in node.all_input_nodes for s in self._storages(source)}
        if not writes and any(
            storage in known for storage in self._storages(node) if storage is not None
        ):
            return "its result may be an alias"
        tensors = [t for source in node.all_input_nodes for t in self._tensors(source)]
        return self._why_not_captured(node, [*tensors, *tensors_of(node)])

    def _ready(self, node: fx.Node) -> int:
        return max((self._levels[source] for source in node.all_input_nodes), default=0)

    def _is_captured(self, node: fx.Node) -> bool:
        return node in self._real and self._levels[node] % 2 == 1

    def _tensors(self, node: fx.Node) -> list[torch.Tensor]:
        if node.op != "get_attr":
            return tensors_of(node)
        value = attribute(self._gm, str(node.target))
        return [value] if isinstance(value, torch.Tensor) else []

    def _storages(self, node: fx.Node) -> list[int | None]:
        return [storage_id(tensor) for tensor in self._tensors(node)]

    def _own(self, node: fx.Node, owner: str) -> None:
        for storage in self._storages(node):
            self._made_by.setdefault(storage, owner)

    # --- levels become steps ------------------------------------------------------------------

    def steps(self, numbers: Mapping[fx.Node, int]) -> list[Step]:
        """The steps, once every node has been placed."""
        groups: dict[int, list[fx.Node]] = {}
        for node in self._real:
            groups.setdefault(self._levels[node], []).append(node)
        home = {node: level for level, nodes in groups.items() for node in nodes}
        needs = {
            level: [
                base
                for base in self._structure.bases(s for n in nodes for s in n.all_input_nodes)
                if home.get(base) != level
            ]
            for level, nodes in groups.items()
        }
        wanted = set(self._structure.bases(output_leaves(self._gm.graph)))
        wanted.update(base for bases in needs.values() for base in bases)
        made = []
        for level, nodes in sorted(groups.items()):
            captured = bool(level % 2) and any(map(_launches, nodes))
            handling = self._handling(nodes, needs[level]) if captured else []
            outputs = [numbers[n] for n in nodes if n in wanted and self._structure.is_base(n)]
            inputs = [numbers[base] for base in needs[level]]
            made.append(Step(captured, [numbers[n] for n in nodes], inputs, handling, outputs))
        return made

    def _handling(self, nodes: Sequence[fx.Node], needed: Sequence[fx.Node]) -> list[Handling]:
        written = {s for node in nodes for w in written_args(node) for s in self._storages(w)}

        def of(base: fx.Node) -> Handling:
            if not self._tensors(base):
                return Handling.number
            if any(storage in written for storage in self._storages(base)):
                return Handling.written
            if base.op == "placeholder":
                return Handling.static if base in self._static else Handling.given
            return Handling.made if self._is_captured(base) else Handling.lent

        return [of(base) for base in needed]


def _next(level: int, *, captured: bool) -> int:
    """The first level from this one on whose calls are captured, or are not."""
    return level + (level % 2 != captured)


def _is_size_query(node: fx.Node) -> bool:
    target = node.target
    return (
        isinstance(target, OpOverload)
        and target.namespace == "aten"
        and target._schema.name.startswith("aten::sym_")
    )


def _launches(node: fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and not _is_size_query(node)


def _users_line(stack_trace: str | None) -> str | None:
    """The last place in a stack trace, and what is written there."""
    lines = [line.strip() for line in (stack_trace or "").splitlines() if line.strip()]
    places = [number for number, line in enumerate(lines) if line.startswith("File ")]
    return ": ".join(lines[places[-1] : places[-1] + 2]) if places else None
