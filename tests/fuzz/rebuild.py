"""The same graph again, with changes: every call is made anew, on fake and on real values."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from tests.fuzz.builder import Builder, Unfit
from tests.fuzz.case import Case, SizeInput, Storage, TensorInput, evaluate
from tests.fuzz.worlds import Operators


@dataclass
class Fresh:
    """An input that takes the place of a call, or of an input."""

    spec: TensorInput
    storage: Storage


@dataclass
class Edit:
    """What to change about a case; nodes are those of its graph.

    Attributes:
        replaced: what stands in for a node: an earlier node, a ``Fresh`` input, or a number.
        dropped: nodes to leave out; nobody may read them.
        outputs: what to return instead.
        storages: other memory, by number.
        size: what to take the varying size for, for good.
    """

    replaced: dict[fx.Node, Any] = field(default_factory=dict)
    dropped: set[fx.Node] = field(default_factory=set)
    outputs: list[Any] | None = None
    storages: dict[int, Storage] = field(default_factory=dict)
    size: int | None = None


def rebuild(case, edit=None):
    """A changed case, with fake values that the operators give.

    Args:
        case: the case.
        edit: the changes.

    Raises:
        Unfit: there is no such case.
    """
    edit = edit or Edit()
    hint = None if edit.size is not None else case.hint
    builder = Builder(random.Random(0), Operators(hint))
    builder.guards = 1.0
    builder.storages += [
        _fixed(edit.storages.get(number, storage), edit.size)
        for number, storage in enumerate(case.storages)
    ]
    new = {}
    with torch.no_grad():
        torch.default_generator.manual_seed(case.seed)
        inputs = _inputs(case, edit, builder, new)
        _calls(case, edit, builder, new)
    outputs = case.gm.graph.output_node().args[0] if edit.outputs is None else edit.outputs
    builder.graph.output(tuple(_mapped(list(outputs), new)))
    rebuilt = Case(
        None,
        inputs,
        builder.storages,
        builder.constants,
        hint,
        case.sizes if hint is not None else (None,),
        case.seed,
        case.about,
    )
    return rebuilt.over(builder.graph)


def _fixed(storage, size):
    if size is None:
        return storage
    return Storage(
        storage.dtype, evaluate(storage.length, size), storage.fill, storage.seed, storage.data
    )


def _inputs(case, edit, builder, new):
    """The placeholders that stay, then the fresh ones."""
    kept = {}
    for node, spec in zip(case.gm.graph.find_nodes(op="placeholder"), case.inputs, strict=True):
        if isinstance(spec, SizeInput):
            if edit.size is not None:
                new[node] = edit.size
            elif node not in edit.dropped:
                kept[node] = spec
        elif node not in edit.dropped:
            kept[node] = _fixed_spec(spec, edit.size)
    for node, stand_in in edit.replaced.items():
        if isinstance(stand_in, Fresh):
            spec = TensorInput(len(builder.storages), stand_in.spec.size, stand_in.spec.stride)
            builder.storages.append(stand_in.storage)
            kept[node] = spec
    inputs = list(kept.values())
    layout = Case(None, inputs, builder.storages, {}, builder.world.hint)
    reals = layout.real_inputs(builder.world.hint)
    fakes = builder.world.inputs(inputs, builder.storages, reals)
    for (node, spec), fake, real in zip(kept.items(), fakes, reals, strict=True):
        name = node.name if node.op == "placeholder" else f"of_{node.name}"
        new[node] = builder.add(builder.graph.placeholder(name), fake, real)
        if isinstance(spec, SizeInput):
            builder.size_node = new[node]
    return inputs


def _fixed_spec(spec, size):
    if size is None:
        return spec
    return TensorInput(
        spec.storage, evaluate(spec.size, size), evaluate(spec.stride, size), spec.offset
    )


def _calls(case, edit, builder, new):
    for node in case.gm.graph.nodes:
        if node in new or node in edit.dropped or node.op in ("placeholder", "output"):
            continue
        if node in edit.replaced:
            new[node] = _mapped(edit.replaced[node], new)
        elif node.op == "get_attr":
            spec = case.constants[node.target]
            (real,) = Case(None, [spec], builder.storages, {}).real_inputs(None)
            new[node] = builder.constant(real)
        else:
            args, kwargs = (
                _mapped(list(node.args), new),
                {k: _mapped(v, new) for k, v in node.kwargs.items()},
            )
            new[node] = builder.call(node.target, *args, **kwargs)
            if edit.size is not None and isinstance(builder.real[new[node]], (int, bool)):
                made, new[node] = new[node], builder.real[new[node]]
                builder.graph.erase_node(made)


def _mapped(value, new):
    """A value with every node in it replaced by what stands for it now."""
    if isinstance(value, fx.Node):
        if value not in new:
            raise Unfit(f"{value} is gone")
        return new[value]
    if isinstance(value, (list, tuple)):
        return [_mapped(entry, new) for entry in value]
    return value
