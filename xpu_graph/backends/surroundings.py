"""What a backend may ask for around its compiler, where a graph becomes an ATen graph.

All of it is optional; a backend that needs nothing has no such function.

    attach() -> None
        called when a backend object is made; may import the installed vendor packages
    surroundings(config) -> Surroundings
        called before AOTAutograd sees a graph, where the target can be used here
    why_not_training(config) -> str | None
        one sentence: why graphs that need gradients cannot be compiled
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from torch import fx


def _as_it_is(gm: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule:
    return gm


def _no_marks(gm: fx.GraphModule, inputs: Sequence[Any]) -> Mapping[int, Mapping[str, Any]]:
    return MappingProxyType({})


@dataclass(frozen=True)
class Surroundings:
    """What a backend needs done around AOTAutograd.

    Attributes:
        decompositions: operator -> function that computes it from others, used while tracing.
        keep_input_mutations: whether inference graphs write to their inputs themselves, or
            AOTAutograd's runtime does it after them.
        partition_fn: how a joint graph is cut, where the configuration names no way.
        prepare: changes Dynamo's graph of torch-level operators; takes it and its real inputs.
        input_marks: further facts about inputs, by position in Dynamo's graph; see ``fx.mark``.
    """

    decompositions: Mapping[Any, Callable[..., Any]] = field(default_factory=dict)
    keep_input_mutations: bool = True
    partition_fn: Callable[..., Any] | None = None
    prepare: Callable[[fx.GraphModule, Sequence[Any]], fx.GraphModule] = _as_it_is
    input_marks: Callable[[fx.GraphModule, Sequence[Any]], Mapping[int, Mapping[str, Any]]] = (
        _no_marks
    )
