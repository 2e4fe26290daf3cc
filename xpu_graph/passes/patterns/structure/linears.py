"""Linear layers as programs have them: what three structures look for.

    addmm(bias, x, t(weight))    mm(x, t(weight))    add(mm(x, t(weight)), bias)

``weight`` is laid out as ``nn.Linear`` has it, [N, K]; where a program multiplies by [K, N], it is
given as a transposed view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import fx
from torch.nn import functional

from xpu_graph.fx import aten
from xpu_graph.passes.arguments import argument
from xpu_graph.passes.patterns.forms import either, form
from xpu_graph.passes.patterns.match import Matcher
from xpu_graph.passes.patterns.predicates import why_not_floating, why_not_shape
from xpu_graph.passes.patterns.structure import gelu
from xpu_graph.passes.rewriter import Rewriter

NONE = "none"
"""In the place of an activation: there is none."""

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": torch.relu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "silu": functional.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
"""The activations that are found, by the name that implementations are given."""

LINEARS = frozenset({aten.addmm.default, aten.mm.default})

_CALLED: dict[Any, str] = {
    aten.relu.default: "relu",
    aten.silu.default: "silu",
    aten.sigmoid.default: "sigmoid",
    aten.tanh.default: "tanh",
}
_GELUS = {"none": "gelu", "tanh": "gelu_tanh"}


@dataclass(frozen=True)
class Linear:
    """A linear layer of a graph.

    Attributes:
        x: what it is of.
        weight: what it multiplies by.
        bias: what it adds; None for nothing.
        is_turned: whether ``weight`` is [K, N].
        calls: the calls that it is; the last one is its result.
        refusal: why it is no plain linear layer, or None.
    """

    x: fx.Node
    weight: fx.Node
    bias: Any
    is_turned: bool
    calls: tuple[fx.Node, ...]
    refusal: str | None

    @property
    def result(self) -> fx.Node:
        """The node that has its value."""
        return self.calls[-1]


@dataclass(frozen=True)
class Layer:
    """A linear layer with what is computed of its result element by element.

    Attributes:
        linear: the linear layer.
        activation: a name in ``ACTIVATIONS``, or ``NONE``.
        calls: all its calls; the last one is its result.
    """

    linear: Linear
    activation: str
    calls: tuple[fx.Node, ...]

    @property
    def result(self) -> fx.Node:
        """The node that has its value."""
        return self.calls[-1]


def linear_of(node: fx.Node) -> Linear | None:
    """The linear layer whose result a node is; None if there is none."""
    args: Any = node.args
    if node.target is aten.addmm.default:
        bias, x, factor = args[:3]
        is_scaled = argument(node, "beta") != 1 or argument(node, "alpha") != 1
        return _linear((node,), x, factor, bias, is_scaled)
    if node.target is aten.mm.default:
        return _linear((node,), args[0], args[1], None)
    if node.target is aten.add.Tensor and argument(node, "alpha") == 1:
        for product, bias in (args, reversed(args)):
            if not isinstance(product, fx.Node) or not isinstance(bias, fx.Node):
                continue
            if product.target is aten.mm.default and bias.meta["val"].dim() == 1:
                return _linear((product, node), product.args[0], product.args[1], bias)
    return None


def _linear(
    calls: tuple[fx.Node, ...], x: Any, factor: Any, bias: Any, is_scaled: bool = False
) -> Linear:
    value = x.meta["val"]
    is_turned = factor.target is not aten.t.default
    weight = factor if is_turned else factor.args[0]
    refusal = why_not_floating("x", value)
    if is_scaled:
        refusal = "addmm scales the product or the bias"
    if refusal is None and bias is not None:
        refusal = _why_not_bias(bias.meta["val"], value, factor.meta["val"].shape[1:])
    return Linear(x, weight, bias, is_turned, calls, refusal)


def _why_not_bias(bias: torch.Tensor, x: torch.Tensor, width: Any) -> str | None:
    if bias.dtype != x.dtype:
        return f"the bias is {bias.dtype}, x {x.dtype}"
    return why_not_shape("the bias", bias, width)


class Layers:
    """Finds layers with an activation. An object serves one graph."""

    def __init__(self) -> None:
        self._written: dict[fx.Node, list[tuple[Matcher, _Written]]] = {}

    def candidates(self, rewriter: Rewriter) -> list[fx.Node]:
        """The nodes that may be the result of an activation, in graph order."""
        self._written = {}
        if not rewriter.calls_of(LINEARS, 0):
            return []
        found = set(rewriter.calls_of((*_CALLED, aten.gelu.default), 0))
        for one in _WRITTEN:
            matcher = Matcher(one.template)
            for node in matcher.candidates(rewriter):
                self._written.setdefault(node, []).append((matcher, one))
                found.add(node)
        return sorted(found)

    def ending_at(self, node: fx.Node) -> Iterator[Layer]:
        """The layers whose activation a node is the result of."""
        for name, source, calls in self._activations(node):
            linear = linear_of(source)
            if linear is not None:
                yield Layer(linear, name, (*linear.calls, *calls))

    def _activations(self, node: fx.Node) -> Iterator[tuple[str, fx.Node, tuple[fx.Node, ...]]]:
        """The activations that a node is the result of: name, operand, calls."""
        name = _CALLED.get(node.target)
        if node.target is aten.gelu.default:
            name = _GELUS[argument(node, "approximate")]
        if name is not None:
            (source,) = node.all_input_nodes
            yield name, source, (node,)
        for matcher, one in self._written.get(node, ()):
            for match in matcher.find(node):
                if one.why_not is None or one.why_not(*match.inputs) is None:
                    yield one.name, match.inputs[0], (*match.inner, node)


@dataclass(frozen=True, eq=False)
class _Written:
    """An activation in several calls; the first parameter of its form is what it is of."""

    name: str
    traced: Callable[..., Any]
    why_not: Callable[..., str | None] | None = None

    @cached_property
    def template(self) -> Any:
        return form(self.traced)


def _silu(x: Any) -> Any:
    return either(
        aten.mul.Tensor(x, aten.sigmoid.default(x)),
        aten.div.Tensor(x, aten.add.Tensor(aten.exp.default(aten.neg.default(x)), 1)),
    )


_WRITTEN = (
    _Written("gelu", gelu.with_erf, gelu.why_not_erf),
    _Written("gelu_tanh", gelu.with_tanh, gelu.why_not_tanh),
    _Written("silu", _silu),
)


def weight_of(weight: Any, is_turned: bool) -> Any:
    """A weight, [N, K]."""
    return weight.t() if is_turned else weight


def dense(x: Any, weight: Any, bias: Any, activation: str) -> Any:
    """What a dense layer computes."""
    result = functional.linear(x, weight, bias)
    return result if activation == NONE else ACTIVATIONS[activation](result)
