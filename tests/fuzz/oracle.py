"""Run a graph operator by operator, and say in what two runs differ.

The text of this file is part of every script that ``script.py`` writes.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from xpu_graph.testing import alias_classes

BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
TOLERANCES = {torch.float16: 1e-2, torch.bfloat16: 5e-2, torch.float32: 1e-4, torch.complex64: 1e-4}


@dataclass
class Run:
    """What can be seen of one call: outputs, inputs and constants afterwards, the generator."""

    tensors: list[Any]
    outputs: list[Any]
    given: list[Any]
    generator: torch.Tensor


def execute(gm, inputs, constants, watch=None, also=lambda node, value: value):
    """Call every node of a graph; returns what the graph returns.

    Args:
        gm: the graph.
        inputs: one value a placeholder.
        constants: tensors to take instead of the module's, by name.
        watch: if given, called with every node and its value.
        also: changes the value of a call.
    """
    remaining = iter(inputs)
    values = {}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(remaining)
        elif node.op == "get_attr":
            name = node.target
            values[node] = constants[name] if name in constants else getattr(gm, name)
        else:
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
            if node.op == "output":
                return args[0]
            values[node] = also(node, node.target(*args, **kwargs))
        if watch is not None:
            watch(node, values[node])
    return None


def run_code(gm, inputs, constants):
    """Call the Python code that a graph is printed as; arguments as for ``execute``."""
    for name, tensor in constants.items():
        if hasattr(gm, name):
            setattr(gm, name, tensor)
    gm.recompile()
    return gm(*inputs)


def observe(call, inputs, constants, seed):
    """What can be seen of ``call(inputs)``."""
    torch.default_generator.manual_seed(seed)
    with torch.no_grad():
        outputs = pytree.tree_leaves(call(inputs), is_leaf=lambda leaf: leaf is None)
    tensors = [t for t in [*inputs, *outputs] if isinstance(t, torch.Tensor)]
    return Run(
        tensors, outputs, [*inputs, *constants.values()], torch.default_generator.get_state()
    )


def difference(got, want, bitwise):
    """How a run differs from the one it should equal: a kind and a sentence; None if it does not.

    Args:
        got: what was observed.
        want: what should have been.
        bitwise: whether rounding counts. Signs of zero, NaN and infinities always do.
    """
    if len(got.outputs) != len(want.outputs):
        return "structure", f"{len(got.outputs)} outputs, eager gives {len(want.outputs)}"
    for what, mine, eagers in (
        ("output", got.outputs, want.outputs),
        ("input after the call", got.given, want.given),
    ):
        for position, (left, right) in enumerate(zip(mine, eagers, strict=True)):
            found = _value_difference(left, right, bitwise)
            if found is not None:
                return f"{what}: {found[0]}", f"{what} {position}: {found[1]}"
    for kind, relation in (("aliases", _sharing), ("objects", _objects)):
        have, expected = relation(got.tensors), relation(want.tensors)
        if have != expected:
            return kind, f"{kind} of inputs and outputs: {have}, eager's: {expected}"
    offsets = _offsets(got.tensors), _offsets(want.tensors)
    if offsets[0] != offsets[1]:
        return "offsets", f"offsets in shared memory: {offsets[0]}, eager's: {offsets[1]}"
    if not torch.equal(got.generator, want.generator):
        return "generator", "the random generator is in another state"
    return None


def _objects(values):
    first = {}
    return [first.setdefault(id(value), position) for position, value in enumerate(values)]


def _sharing(tensors):
    """The first tensor that each shares memory with; None for one that shares with no other."""
    classes = alias_classes(tensors)
    return [place if place >= 0 and classes.count(place) > 1 else None for place in classes]


def _offsets(tensors):
    """Where tensors that share memory with another one begin in it; None for the others."""
    shared = _sharing(tensors)
    return [
        None if place is None else tensor.storage_offset()
        for tensor, place in zip(tensors, shared, strict=True)
    ]


def _value_difference(got, want, bitwise):
    if not isinstance(want, torch.Tensor):
        same = type(got) is type(want) and repr(got) == repr(want)
        return None if same else ("number", f"{got!r}, eager gives {want!r}")
    if not isinstance(got, torch.Tensor):
        return "structure", f"{got!r} is not a tensor"
    for name in ("dtype", "shape", "stride", "is_conj", "is_neg"):
        mine, eagers = getattr(got, name), getattr(want, name)
        if callable(mine):
            mine, eagers = mine(), eagers()
        if mine != eagers:
            return name, f"{name} {mine}, eager gives {eagers}"
    return _content_difference(_real(got), _real(want), bitwise)


def _real(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.dtype.is_complex else tensor


def _content_difference(got, want, bitwise):
    bits = BITS[want.element_size()]
    if torch.equal(got.view(bits), want.view(bits)):
        return None
    told = f"{got.tolist()}, eager gives {want.tolist()}"
    if not want.dtype.is_floating_point:
        return "values", told
    numbers = ~want.isnan()
    if not torch.equal(numbers, ~got.isnan()):
        return "NaN", told
    if not torch.equal(got.isinf() & numbers, want.isinf() & numbers):
        return "infinity", told
    zero = want == 0
    if torch.equal(zero, got == 0) and not torch.equal(got.signbit() & zero, want.signbit() & zero):
        return "sign of zero", told
    got, want = got[numbers], want[numbers]
    limit = 0.0 if bitwise else TOLERANCES.get(want.dtype, 1e-8)
    close = torch.isclose(got.double(), want.double(), rtol=limit, atol=limit)
    return None if close.all() else ("values", told)
