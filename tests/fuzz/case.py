"""A graph, the inputs it is run on, and the memory these live in.

Sizes and strides are numbers, or texts such as ``"2*s"`` in terms of the one size that varies.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx
from torch.fx._lazy_graph_module import _LazyGraphModule

from xpu_graph.stage import Stage, Unit

aten = torch.ops.aten

SPECIAL = (
    float("nan"),
    float("inf"),
    -float("inf"),
    -0.0,
    -0.0,
    0.0,
    1.0,
    -1.0,
    1e-30,
    -1e-9,
    3e4,
    0.5,
)


@functools.cache
def _compiled(text):
    return compile(text, "<size>", "eval")


def evaluate(size, s):
    """A size, or a sequence of sizes, for a value of the varying size."""
    if isinstance(size, (tuple, list)):
        return tuple(evaluate(entry, s) for entry in size)
    return eval(_compiled(size), {"s": s}) if isinstance(size, str) else size


@dataclass
class Storage:
    """Memory of inputs or of a constant; ``data`` is there once a fill was replaced by numbers."""

    dtype: torch.dtype
    length: int | str
    fill: str = "numbers"
    seed: int = 0
    data: list[Any] | None = None

    def numbers(self, s=None):
        length = evaluate(self.length, s)
        if self.data is not None:
            return (self.data * (length // max(1, len(self.data)) + 1))[:length]
        return fill(self.fill, self.dtype, length, random.Random(self.seed))

    def tensor(self, s=None):
        return torch.tensor(self.numbers(s), dtype=self.dtype)


def fill(kind, dtype, length, rng):
    """Numbers of one kind that the dtype can hold."""
    if kind == "zeros":
        zeros = [0.0, -0.0] if dtype.is_floating_point else [0]
        return [rng.choice(zeros) for _ in range(length)]
    if kind == "ones":
        return [1] * length
    if dtype == torch.bool:
        return [rng.random() < 0.5 for _ in range(length)]
    if not (dtype.is_floating_point or dtype.is_complex):
        limits = torch.iinfo(dtype)
        numbers = [limits.min, limits.max, 0, 1, 255, 2**31 - 1]
        numbers = [n for n in numbers if limits.min <= n <= limits.max]
        extreme = 0.7 if kind == "special" else 0.1
        return [
            rng.choice(numbers) if rng.random() < extreme else rng.randrange(max(-4, limits.min), 6)
            for _ in range(length)
        ]
    if dtype.is_complex:
        parts = fill(kind, torch.float32, 2 * length, rng)
        return [complex(parts[i], parts[i + 1]) for i in range(0, 2 * length, 2)]
    if kind in ("special", "mixed"):
        share = 1.0 if kind == "special" else 0.2
        return [
            rng.choice(SPECIAL) if rng.random() < share else rng.gauss(0.0, 2.0)
            for _ in range(length)
        ]
    if kind == "small":
        return [rng.randrange(-3, 4) * rng.choice((1.0, -1.0)) for _ in range(length)]
    return [rng.gauss(0.0, 2.0) for _ in range(length)]


@dataclass
class TensorInput:
    """How a tensor lies in a storage; the storage is a position in ``Case.storages``."""

    storage: int
    size: tuple[int | str, ...]
    stride: tuple[int | str, ...]
    offset: int = 0


class SizeInput:
    """The varying size, handed in as a number."""


@dataclass
class Case:
    """One graph and what it is run on.

    Attributes:
        gm: the graph; ``meta["val"]`` is set on every node.
        inputs: one entry a placeholder, in order.
        storages: memory of the inputs.
        constants: memory of the tensors that the module owns, by name.
        hint: what the varying size is taken for while the graph is made; None if nothing varies.
        sizes: the values of it to run the graph at, or ``(None,)``.
        seed: given to the generator before each run.
        about: where the graph comes from.
        has_operators_values: whether fake values come from the operators, see ``worlds.py``.
        lies: operators that were left out because their fake value was not like the real one.
    """

    gm: fx.GraphModule
    inputs: list[TensorInput | SizeInput]
    storages: list[Storage]
    constants: dict[str, TensorInput]
    hint: int | None = None
    sizes: tuple[int | None, ...] = (None,)
    seed: int = 0
    about: str = ""
    has_operators_values: bool = True
    lies: Counter = field(default_factory=Counter)
    _tensors: dict[Any, torch.Tensor] = field(default_factory=dict, repr=False)

    def real_inputs(self, s):
        """Fresh inputs; those that share a storage do so again."""
        fresh = {}
        return [
            s if isinstance(spec, SizeInput) else self._laid_out(spec, s, fresh)
            for spec in self.inputs
        ]

    def real_constants(self, s=None):
        """Fresh constants, by name."""
        fresh = {}
        return {name: self._laid_out(spec, s, fresh) for name, spec in self.constants.items()}

    def _laid_out(self, spec, s, fresh):
        if spec.storage not in fresh:
            key = (spec.storage, s)
            if key not in self._tensors:
                self._tensors[key] = self.storages[spec.storage].tensor(s)
            fresh[spec.storage] = self._tensors[key].clone()
        size, stride = evaluate(spec.size, s), evaluate(spec.stride, s)
        return fresh[spec.storage].as_strided(size, stride, spec.offset)

    def fake_inputs(self):
        """The fake values of the placeholders, in order."""
        return [node.meta["val"] for node in self.gm.graph.find_nodes(op="placeholder")]

    def copied(self):
        """The same case over a graph and constants of its own."""
        graph = fx.Graph()
        graph.output(graph.graph_copy(self.gm.graph, {}))
        return self.over(graph)

    def over(self, graph, **changes):
        """The same case with another graph, with fresh constants, and with other fields changed."""
        fields = {name: value for name, value in vars(self).items() if name[0] != "_"}
        case = Case(**{**fields, "gm": None, **changes})
        used = {node.target for node in graph.find_nodes(op="get_attr")}
        case.constants = {name: spec for name, spec in case.constants.items() if name in used}
        case._keep_used_storages()
        case.gm = graph_module(graph, case.real_constants())
        return case

    def _keep_used_storages(self):
        specs = [spec for spec in self.inputs if isinstance(spec, TensorInput)]
        used = sorted({spec.storage for spec in [*specs, *self.constants.values()]})
        number = {old: new for new, old in enumerate(used)}
        self.storages = [self.storages[old] for old in used]
        self.inputs = [
            replace(spec, storage=number[spec.storage]) if isinstance(spec, TensorInput) else spec
            for spec in self.inputs
        ]
        self.constants = {
            name: replace(spec, storage=number[spec.storage])
            for name, spec in self.constants.items()
        }

    def unit(self):
        """The graph as the passes take it. They change it in place."""
        return Unit(Stage.inference, self.gm, self.fake_inputs(), name="fuzz")


def graph_module(graph, constants):
    """A module over a graph whose code is made only when it is called."""
    root = torch.nn.Module()
    for name, tensor in constants.items():
        root.register_buffer(name, tensor, persistent=False)
    return _LazyGraphModule(root, graph)


def fake_tensors(specs, storages, mode, s):
    """Fake values of inputs; those that share a storage do so again."""
    made = {}
    fakes = []
    with mode, torch.no_grad():
        for spec in specs:
            if isinstance(spec, SizeInput):
                fakes.append(s)
                continue
            storage = storages[spec.storage]
            size, stride = evaluate(spec.size, s), evaluate(spec.stride, s)
            if spec.storage not in made and not spec.offset and _needs(spec) == storage.length:
                made[spec.storage] = torch.empty_strided(size, stride, dtype=storage.dtype)
                fakes.append(made[spec.storage])
                continue
            if spec.storage not in made:
                length = evaluate(storage.length, s)
                made[spec.storage] = torch.empty(length, dtype=storage.dtype)
            fakes.append(made[spec.storage].as_strided(size, stride, spec.offset))
    return fakes


def _needs(spec):
    return extent(spec.size, spec.stride)


def extent(size, stride):
    """How many elements lie between the first and the last of a tensor; a text where it varies."""
    terms = [1]
    for length, step in zip(size, stride, strict=True):
        if length == 0:
            return 0
        if isinstance(length, int) and isinstance(step, int):
            terms[0] += (length - 1) * step
        else:
            terms.append(f"({length}-1)*({step})")
    return terms[0] if len(terms) == 1 else "+".join(map(str, terms))
