"""From the graph Dynamo hands over to the units that are compiled; all use of AOTAutograd.

AOTAutograd functionalises the program, takes care of aliases and mutations around the graph, and
differentiates it where gradients are needed. Each graph it makes comes back here as a ``Unit``.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import torch
from torch import fx

from xpu_graph import torch_compat
from xpu_graph.backends.surroundings import Surroundings
from xpu_graph.config import XpuGraphConfig
from xpu_graph.fakes import refresh_values
from xpu_graph.fx import mark, placeholders
from xpu_graph.partition import partitioner
from xpu_graph.pregrad import may_need_gradients
from xpu_graph.stage import Stage, Unit
from xpu_graph.torch_compat import storage_id

log = logging.getLogger(__name__)

Compile = Callable[[Unit], Callable[[list[Any]], Any]]
"""Turns a unit into what AOTAutograd calls: a function of one list, which it empties."""

BeforeAutograd = Callable[[fx.GraphModule, Sequence[Any], str], fx.GraphModule]
"""Given a Dynamo graph, its inputs and a name: a graph with the same calling convention."""

_numbers = itertools.count()


def dispatch(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    config: XpuGraphConfig,
    compile_unit: Compile,
    improve_joint: Callable[[Unit], object] | None = None,
    around: Surroundings = Surroundings(),  # noqa: B008 - it is frozen
    before_autograd: BeforeAutograd | None = None,
) -> Callable[..., Any]:
    """Compile a Dynamo graph stage by stage.

    Args:
        gm: the graph of torch-level operators.
        inputs: its real inputs; SymInts for dynamic sizes.
        config: for freezing and the partitioner.
        compile_unit: compiles one graph.
        improve_joint: changes the graph of forward and backward in place, before it is cut.
        around: what the target's compiler needs done here.
        before_autograd: changes the program before it is differentiated.

    Returns:
        A function with the calling convention of ``gm``.
    """
    number = next(_numbers)
    marks = around.input_marks(gm, inputs)
    gm = around.prepare(gm, inputs)
    if before_autograd is not None and may_need_gradients(gm, inputs):
        gm = before_autograd(gm, inputs, f"graph_{number}_{Stage.pregrad.value}")
    static = _static_tensors(gm, inputs) if config.freeze else {}
    shared = _shares_memory(inputs) if config.freeze else set()
    gathered = _gathered(gm) if config.freeze else set()

    def compiler(stage: Stage) -> Callable[[fx.GraphModule, Sequence[Any]], Any]:
        def compile_graph(graph: fx.GraphModule, fake_inputs: Sequence[Any]) -> Any:
            unit = Unit(stage, graph, list(fake_inputs), name=f"graph_{number}_{stage.value}")
            log.debug("%s: %d nodes", unit.name, len(graph.graph.nodes))
            refresh_values(graph.graph)
            _mark_inputs(graph, stage, marks)
            if config.freeze:
                _freeze(unit, static, shared, gathered, config)
            return compile_unit(unit)

        return compile_graph

    backend = torch_compat.aot_autograd(
        fw_compiler=compiler(Stage.forward),
        bw_compiler=compiler(Stage.backward),
        inference_compiler=compiler(Stage.inference),
        partition_fn=partitioner(config, around.partition_fn, improve_joint, f"graph_{number}"),
        decompositions=dict(around.decompositions),
        keep_inference_input_mutations=around.keep_input_mutations,
    )
    try:
        return backend(gm, inputs)
    finally:
        static.clear()  # the backward graph is compiled later, by a function that lives on


def _mark_inputs(
    graph: fx.GraphModule, stage: Stage, given: Mapping[int, Mapping[str, Any]]
) -> None:
    """Say on the inputs of an AOT graph what is known of them beside their values."""
    if stage == Stage.backward:  # its inputs are not those of the program
        return
    static = torch_compat.static_inputs(graph.graph)
    for node in placeholders(graph.graph):
        if node in static:
            mark(node, "static", "given")
        origin = torch_compat.input_origin(node)
        for name, value in given.get(origin, {}).items() if origin is not None else ():
            mark(node, name, value)


def _static_tensors(gm: fx.GraphModule, inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
    """The inputs that are parameters, buffers or module attributes, by position."""
    return {
        position: value
        for position, (node, value) in enumerate(zip(placeholders(gm.graph), inputs, strict=True))
        if isinstance(value, torch.nn.Parameter)
        or (isinstance(value, torch.Tensor) and torch_compat.is_static_input(node))
    }


def _shares_memory(inputs: Sequence[Any]) -> set[int]:
    """The inputs whose memory another tensor among them, or another process, may write to.

    Such a write need not show in the version counter: ``p.data`` has one of its own.
    """
    places: dict[int, list[int]] = {}
    shared = set()
    for position, value in enumerate(inputs):
        if not isinstance(value, torch.Tensor) or (storage := storage_id(value)) is None:
            continue
        places.setdefault(storage, []).append(position)
        if value.device.type == "cpu" and value.untyped_storage().is_shared():
            shared.add(position)
    return shared.union(*(group for group in places.values() if len(group) > 1))


def _gathered(gm: fx.GraphModule) -> set[int]:
    """The inputs that FSDP fills before each call."""
    return {
        position
        for position, node in enumerate(placeholders(gm.graph))
        if torch_compat.is_gathered(node)
    }


def _freeze(
    unit: Unit,
    static: Mapping[int, torch.Tensor],
    shared: Set[int],
    gathered: Set[int],
    config: XpuGraphConfig,
) -> None:
    """Find the parameters and buffers whose value may be folded, and say why others may not."""
    if unit.stage != Stage.inference:
        unit.not_frozen["every parameter"] = "the graph needs gradients"
        return
    if not config.folding_freezed_params:
        unit.not_frozen["every parameter"] = "folding_freezed_params is False"
        return
    mutated = torch_compat.mutated_outside(unit.gm.graph)
    for node in placeholders(unit.gm.graph):
        origin = torch_compat.input_origin(node)
        tensor = static.get(origin) if origin is not None else None
        if tensor is None:
            continue
        if tensor.is_inference():
            unit.not_frozen[node.name] = "an inference tensor has no version counter"
        elif origin in shared:
            unit.not_frozen[node.name] = "another tensor or process shares its memory"
        elif origin in gathered:
            unit.not_frozen[node.name] = "FSDP gathers it, and nothing shows when it changed"
        elif isinstance(tensor, torch_compat.FakeTensor):
            unit.not_frozen[node.name] = "its value is not there: Dynamo split the graph for DDP"
        elif node in mutated:
            unit.not_frozen[node.name] = "the model writes to it"
        else:
            unit.frozen[node.name] = tensor
