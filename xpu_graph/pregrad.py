"""The stage before differentiation: Dynamo's graph as one of ATen operators, not functional yet.

A pattern that is applied here is differentiated by AOTAutograd afterwards, so that the formula of
its replacement is used. The graph is an option: where anything of the program could get lost in it,
Dynamo's own graph goes on, and the report says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from xpu_graph import torch_compat
from xpu_graph.debug.report import PARTS_ARE_KEPT, GraphReport
from xpu_graph.fx import attribute, output_leaves, tensors_in, value_difference
from xpu_graph.passes.regions import Region, Regions
from xpu_graph.stage import Stage, Unit
from xpu_graph.torch_compat import (
    CHECKPOINT,
    DYNAMO_CONTROL_FLOW,
    FakeTensorMode,
    NotLowered,
    Trace,
    set_grad_enabled,
)


@dataclass
class Lowered:
    """A program before differentiation.

    Attributes:
        units: its graph, then those of the regions in it that backward computes again.
        notes: sentences about what was not looked into.
    """

    units: list[Unit]
    notes: list[str] = field(default_factory=list)


def may_need_gradients(gm: fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether AOTAutograd may have to differentiate a Dynamo graph."""
    if not any(isinstance(value, torch.Tensor) and value.requires_grad for value in inputs):
        return False
    return torch.is_grad_enabled() or any(
        node.args == (True,) for node in gm.graph.nodes if node.target is set_grad_enabled
    )


def rewritten(
    gm: fx.GraphModule,
    inputs: Sequence[Any],
    name: str,
    run: Callable[[Unit, GraphReport], object],
    reports: list[GraphReport],
) -> fx.GraphModule:
    """Let passes change a program before it is differentiated.

    Args:
        gm: the Dynamo graph.
        inputs: its real inputs.
        name: begins the names of the units.
        run: runs the passes over one of them.
        reports: what was done is told there, one a unit.

    Returns:
        What AOTAutograd is to be given: ``gm`` itself where nothing was rewritten.
    """
    told = GraphReport(name, Stage.pregrad.value, cache=PARTS_ARE_KEPT)
    try:
        with told.timed("lowering"):
            lowered = lower(gm, inputs, name)
    except NotLowered as reason:
        told.notes.append(f"not changed: {reason}")
        reports.append(told)
        return gm
    if lowered is None:
        return gm
    told.notes += lowered.notes
    others = [
        GraphReport(unit.name, unit.stage.value, cache=PARTS_ARE_KEPT) for unit in lowered.units[1:]
    ]
    reports += [told, *others]
    for unit, its in zip(lowered.units, (told, *others), strict=True):
        run(unit, its)
    records = [record for its in (told, *others) for record in its.passes.values()]
    return finished(gm, lowered) if any(record.applied for record in records) else gm


def lower(gm: fx.GraphModule, inputs: Sequence[Any], name: str) -> Lowered | None:
    """Trace a Dynamo graph into one of the operators that autograd sees.

    Args:
        gm: the graph; it is not changed.
        inputs: its real inputs.
        name: begins the names of the units.

    Returns:
        Graphs of the same calling convention; None where nothing needs a gradient.

    Raises:
        NotLowered: the graph has something that would be lost or could not be told for certain.
    """
    _check(gm)
    mode, fakes = torch_compat.fake_inputs(inputs)
    guards = torch_compat.guard_count(fakes)
    trace = _trace(gm, fakes, mode)
    _compare(gm, trace.outputs)
    wanted = [tensor.requires_grad for tensor in _results(gm) if isinstance(tensor, torch.Tensor)]
    if wanted != [tensor.requires_grad for tensor in tensors_in(trace.outputs)]:
        raise NotLowered("other results would have gradients")
    if not any(value.requires_grad for value in (*tensors_in(trace.outputs), *trace.written)):
        return None
    lowered = Lowered([Unit(Stage.pregrad, trace.gm, fakes, name=name)])
    _lower_regions(gm, lowered, lowered.units[0], mode)
    if torch_compat.guard_count(fakes) != guards:
        raise NotLowered("tracing added a guard on a size")
    return lowered


def finished(gm: fx.GraphModule, lowered: Lowered) -> fx.GraphModule:
    """The graph for AOTAutograd, after the passes.

    Args:
        gm: the Dynamo graph.
        lowered: what was made of it.
    """
    for unit in lowered.units:
        for node in unit.gm.graph.nodes:  # of a fake mode that is not AOTAutograd's
            node.meta.pop("val", None)
            node.meta.pop("tensor_meta", None)
        unit.gm.recompile()
    graph = lowered.units[0].gm
    torch_compat.copy_dynamo_metadata(gm, graph)
    return graph


def _check(gm: fx.GraphModule) -> None:
    for node in gm.graph.nodes:
        value = node.meta.get("example_value")
        if node.meta.get("unbacked_bindings") or torch_compat.free_unbacked_symbols(
            [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, _SIZED)]
        ):
            raise NotLowered("a size is known at run time only")
        for tensor in tensors_in(value):
            if torch_compat.is_traceable_wrapper_subclass(tensor):
                raise NotLowered(f"it computes with a {type(tensor).__name__}")


_SIZED = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)


def _trace(gm: fx.GraphModule, fakes: Sequence[Any], mode: FakeTensorMode) -> Trace:
    try:
        trace = torch_compat.trace_before_autograd(gm, fakes, mode)
    except DYNAMO_CONTROL_FLOW:
        raise
    except NotLowered:
        raise
    except torch_compat.NeedsGuard as error:
        raise NotLowered("it would need a guard on a size") from error
    except Exception as error:
        # Operators of anyone are called in a way that they may not be made for; without this graph
        # the program still compiles.
        raise NotLowered(f"tracing failed with {type(error).__name__}: {error}") from error
    for node in trace.gm.graph.find_nodes(op="get_attr"):
        value = attribute(trace.gm, str(node.target))
        if not isinstance(value, torch.Tensor):
            continue
        if isinstance(value, torch_compat.FakeTensor):
            raise NotLowered("an operator returns what it was not given")
        with mode:  # the fake value that tracing had of it became what was copied from it
            node.meta["val"] = torch.empty_strided(
                value.shape, value.stride(), dtype=value.dtype, device=value.device
            )
    return trace


def _results(gm: fx.GraphModule) -> list[Any]:
    """What a Dynamo graph returned when it was made."""
    return [node.meta.get("example_value") for node in output_leaves(gm.graph)]


def _compare(gm: fx.GraphModule, outputs: Sequence[Any]) -> None:
    """Whether results are laid out as Dynamo says.

    Raises:
        NotLowered: they are not.
    """
    wanted = _results(gm)
    got = [value for value in outputs if isinstance(value, _SIZED)]
    if len(wanted) != len(got):
        raise NotLowered(f"{len(wanted)} results became {len(got)}")
    for left, right in zip(wanted, got, strict=True):
        difference = value_difference(left, right)
        if difference is not None:
            raise NotLowered(f"of a result, {difference}")


def _lower_regions(gm: fx.GraphModule, lowered: Lowered, unit: Unit, mode: FakeTensorMode) -> None:
    """Do the same with the regions of a graph that backward computes again."""
    regions = Regions(unit.gm.graph)
    for node, name in list(_checkpoints(unit.gm.graph)):
        body = attribute(unit.gm, name)
        given = node.args[1:]
        fakes = [
            torch_compat.another(v.meta["val"]) if isinstance(v, fx.Node) else v for v in given
        ]
        try:
            if regions.at(node) != Region(gradients=True):
                raise NotLowered("it stands where autocast is on, or gradients are off")
            _check(body)
            trace = _trace(body, fakes, mode)
            _compare(body, trace.outputs)
        except NotLowered as reason:
            lowered.notes.append(f"the checkpointed region {name} is not looked into: {reason}")
            continue
        torch_compat.copy_dynamo_metadata(body, trace.gm)
        setattr(unit.gm, name, trace.gm)
        inner = Unit(Stage.pregrad, trace.gm, fakes, name=f"{unit.name}_{name}")
        lowered.units.append(inner)
        _lower_regions(body, lowered, inner, mode)


def _checkpoints(graph: fx.Graph) -> Iterator[tuple[fx.Node, str]]:
    """Calls of checkpointed regions, each with the name of its graph, which nobody else has."""
    for node in graph.nodes:
        if node.target is CHECKPOINT and isinstance(node.args[0], fx.Node):
            holder = node.args[0]
            same = [n for n in graph.find_nodes(op="get_attr") if n.target == holder.target]
            if same == [holder] and list(holder.users) == [node]:
                yield node, str(holder.target)
