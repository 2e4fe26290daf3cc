"""ParallelLinears: linear layers of one input.

    addmm(b0, x, t(w0)), addmm(b1, x, t(w1)), mm(x, t(w2))
        ->    ParallelLinears(x, [w0, w1, w2], [b0, b1, None])

Found: two layers or more that read one node, of any widths, such as the projections to query, key
and value, a gate and what it gates, and the first layers of experts. A bias that is added apart
stays apart.

Left alone, each by itself, the others being found: a layer whose bias is not one number a column,
or of another dtype; one that ``addmm`` scales. All of them: where a weight is computed after the
result of another layer is used; integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.passes.patterns.shape import Match, Shape
from xpu_graph.passes.patterns.structure.base import Structure
from xpu_graph.passes.patterns.structure.linears import (
    LINEARS,
    NONE,
    dense,
    linear_of,
    weight_of,
)
from xpu_graph.passes.rewriter import Rewriter


def reference(x: Any, weights: Any, biases: Any) -> Any:
    """A list of the results of linear layers; none shares memory with another.

    Args:
        x: [..., K], floating point.
        weights: one a layer, [N of the layer, K], the same dtype, in any layout.
        biases: one a layer, [N of the layer], the same dtype; None where there is none.
    """
    layers = zip(weights, biases, strict=True)
    return [dense(x, weight, bias, NONE) for weight, bias in layers]


class ParallelLinearsShape(Shape):
    """All linear layers of one input that lie between two operators with an effect."""

    def __init__(self) -> None:
        self._groups: dict[fx.Node, list[fx.Node]] = {}

    @override
    def candidates(self, rewriter: Rewriter) -> Iterable[fx.Node]:
        self._rewriter = rewriter
        groups: dict[Any, list[fx.Node]] = {}
        for node in rewriter.calls_of(LINEARS, 0):
            linear = linear_of(node)
            if linear is not None:
                groups.setdefault((linear.x, rewriter.section(node)), []).append(node)
        self._groups = {group[-1]: group for group in groups.values() if len(group) > 1}
        return sorted(self._groups)

    @override
    def find(self, candidate: fx.Node) -> Iterator[Match]:
        alive = filter(self._rewriter.is_alive, self._groups[candidate])
        group = [linear for linear in map(linear_of, alive) if linear is not None]
        if len(group) < 2:
            return
        plain = [linear for linear in group if linear.refusal is None]
        refusal = None
        if len(plain) < 2:
            refusal = next(linear.refusal for linear in group if linear.refusal is not None)
            plain = group
        yield Match(
            inputs=[
                plain[0].x,
                [linear.weight for linear in plain],
                [linear.bias for linear in plain],
                [linear.is_turned for linear in plain],
            ],
            outputs=[linear.result for linear in plain],
            refusal=refusal,
            call=_call,
        )


def _call(function: Callable[..., Any], x: Any, weights: Any, biases: Any, are_turned: Any) -> Any:
    return function(x, list(map(weight_of, weights, are_turned)), list(biases))


def examples() -> tuple[Any, ...]:
    return torch.randn(5, 8), [torch.randn(6, 8), torch.randn(3, 8)], [torch.randn(6), None]


PARALLEL_LINEARS = Structure(
    "ParallelLinears", reference, examples, coded=(ParallelLinearsShape,), benefit=13
)
"""Less than a tower, which keeps more out of memory; more than one dense layer of several."""
