"""DenseTower: dense layers one behind the other.

    relu(addmm(b0, x, t(w0))) -> relu(addmm(b1, ., t(w1))) -> addmm(b2, ., t(w2))
        ->    DenseTower(x, [w0, w1, w2], [b0, b1, b2], ["relu", "relu", "none"])

Found: two layers or more, each as ``dense_layer.py`` has it, as many as there are; the last one may
lack an activation. Between two layers there may be views that undo each other.

Left alone: a tower ends where something else reads a result, where a layer before the last has no
activation, and where a layer is none that ``dense_layer.py`` takes; what is left of it is looked
at by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten, same_size
from xpu_graph.passes.patterns.passing import keeps_order
from xpu_graph.passes.patterns.shape import Match, Shape
from xpu_graph.passes.patterns.structure.base import Structure
from xpu_graph.passes.patterns.structure.linears import (
    LINEARS,
    NONE,
    Layer,
    Layers,
    dense,
    linear_of,
    weight_of,
)
from xpu_graph.passes.rewriter import Rewriter


def reference(x: Any, weights: Any, biases: Any, activations: Any) -> Any:
    """Dense layers, each of the result of the one before.

    Args:
        x: [..., K], floating point.
        weights: one a layer, [N, K of the layer], the same dtype, in any layout.
        biases: one a layer, [N], the same dtype; None where there is none.
        activations: one a layer, as for DenseLayer; the last may be ``"none"``.
    """
    for layer in zip(weights, biases, activations, strict=True):
        x = dense(x, *layer)
    return x


class DenseTowerShape(Shape):
    """Dense layers of which each is all that reads the one before."""

    def __init__(self) -> None:
        self._layers = Layers()

    @override
    def candidates(self, rewriter: Rewriter) -> Iterable[fx.Node]:
        """The ends of towers, the last first: a tower is found whole before a part of it is."""
        found = {*self._layers.candidates(rewriter), *rewriter.calls_of(LINEARS, 0)}
        found.update(rewriter.calls_reading(aten.add.Tensor, [aten.mm.default]))
        return sorted(found, reverse=True)

    @override
    def find(self, candidate: fx.Node) -> Iterator[Match]:
        for top in self._ends(candidate):
            layers, calls = [top], list(top.calls)
            below = self._below(top)
            while below is not None:
                layer, passed = below
                layers.insert(0, layer)
                calls = [*layer.calls, *passed, *calls]
                below = self._below(layer)
            if len(layers) > 1:
                yield _match(layers, calls)

    def _ends(self, node: fx.Node) -> Iterator[Layer]:
        yield from (one for one in self._layers.ending_at(node) if one.linear.refusal is None)
        linear = linear_of(node)
        if linear is not None and linear.refusal is None:
            yield Layer(linear, NONE, linear.calls)

    def _below(self, layer: Layer) -> tuple[Layer, list[fx.Node]] | None:
        """The layer whose result another one reads, and the views between them."""
        reader, source, passed = layer.linear.calls[0], layer.linear.x, [layer.linear.x]
        shape = source.meta["val"].shape
        while list(source.users) == [reader]:
            if all(map(same_size, source.meta["val"].shape, shape)):
                for below in self._layers.ending_at(source):
                    if below.linear.refusal is None:
                        return below, passed[:-1]
            if not keeps_order(source) or not isinstance(source.args[0], fx.Node):
                return None
            reader, source = source, source.args[0]
            passed.append(source)
        return None


def _match(layers: list[Layer], calls: list[fx.Node]) -> Match:
    linears = [layer.linear for layer in layers]
    return Match(
        inputs=[
            linears[0].x,
            [linear.weight for linear in linears],
            [linear.bias for linear in linears],
            [layer.activation for layer in layers],
            [linear.is_turned for linear in linears],
        ],
        outputs=[layers[-1].result],
        inner=calls[:-1],
        call=_call,
    )


def _call(
    function: Callable[..., Any],
    x: Any,
    weights: Any,
    biases: Any,
    activations: Any,
    are_turned: Any,
) -> Any:
    laid_out = list(map(weight_of, weights, are_turned))
    return function(x, laid_out, list(biases), list(activations))


def examples() -> tuple[Any, ...]:
    weights = [torch.randn(6, 8), torch.randn(3, 6)]
    return torch.randn(5, 8), weights, [torch.randn(6), None], ["relu", NONE]


DENSE_TOWER = Structure("DenseTower", reference, examples, coded=(DenseTowerShape,), benefit=14)
"""More than its layers alone, and than their first ones side by side: results in between vanish."""
