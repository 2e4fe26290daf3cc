"""DenseLayer: a linear layer and the activation of its result.

    relu(addmm(bias, x, t(weight)))    ->    DenseLayer(x, weight, bias, "relu")

Found: with or without a bias, also where that is added apart; with an activation of
``ACTIVATIONS`` as torch's operator, or as GELU and SiLU are written by hand; with a weight that is
[K, N].

Left alone: a linear layer without an activation, which gains nothing; one whose result something
else reads; a bias that is not one number a column, or of another dtype; a product that ``addmm``
scales; integers. Other activations, such as PReLU, have parameters, and none of these names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.passes.patterns.shape import Match, Shape
from xpu_graph.passes.patterns.structure.base import Structure
from xpu_graph.passes.patterns.structure.linears import Layers, dense, weight_of
from xpu_graph.passes.rewriter import Rewriter


def reference(x: Any, weight: Any, bias: Any, activation: Any) -> Any:
    """A linear layer, and an activation.

    Args:
        x: [..., K], floating point.
        weight: [N, K], the same dtype, in any layout.
        bias: [N], the same dtype; None for none.
        activation: ``"relu"``, ``"gelu"``, ``"gelu_tanh"``, ``"silu"``, ``"sigmoid"`` or
            ``"tanh"``.
    """
    return dense(x, weight, bias, activation)


class DenseLayerShape(Shape):
    """A linear layer of two dimensions, and an activation that is all that reads it."""

    def __init__(self) -> None:
        self._layers = Layers()

    @override
    def candidates(self, rewriter: Rewriter) -> Iterable[fx.Node]:
        return self._layers.candidates(rewriter)

    @override
    def find(self, candidate: fx.Node) -> Iterator[Match]:
        for layer in self._layers.ending_at(candidate):
            linear = layer.linear
            yield Match(
                inputs=[linear.x, linear.weight, linear.bias, layer.activation, linear.is_turned],
                outputs=[candidate],
                inner=list(layer.calls[:-1]),
                refusal=linear.refusal,
                call=_call,
            )


def _call(
    function: Callable[..., Any],
    x: Any,
    weight: Any,
    bias: Any,
    activation: str,
    is_turned: bool,
) -> Any:
    return function(x, weight_of(weight, is_turned), bias, activation)


def examples() -> tuple[Any, ...]:
    return torch.randn(5, 8), torch.randn(6, 8), torch.randn(6), "relu"


DENSE_LAYER = Structure("DenseLayer", reference, examples, coded=(DenseLayerShape,), benefit=12)
"""Less than what is gated by such a layer, more than its activation alone."""
