"""Batch norm in inference goes into the weights of what comes before it.

    batch_norm(convolution(x, weight, bias))    ->    convolution(x, weight * s, (bias - m) * s + b)
    batch_norm(addmm(bias, x, weight))          ->    addmm((bias - m) * s + b, x, weight * s)

with ``s = gamma / sqrt(variance + eps)``, m the mean and b the shift; see https://arxiv.org/abs/
1502.03167. It rounds otherwise: level 2.

Done under ``freeze`` alone, where the new weights are computed once, and not for Inductor on the
CPU, which does the same by itself. Left alone: weights that are
not frozen, or that something else reads, since they would be kept twice; transposed convolutions;
a batch norm of another dtype than its input.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from torch import fx
from typing_extensions import override

from xpu_graph.config import OptLevel, XpuGraphConfig
from xpu_graph.fx import aten
from xpu_graph.passes.drafts import Call, Draft
from xpu_graph.passes.patterns.forms import form
from xpu_graph.passes.patterns.match import Matcher
from xpu_graph.passes.patterns.pattern import Pattern
from xpu_graph.passes.patterns.shape import Match
from xpu_graph.passes.rewriter import Rewriter
from xpu_graph.target import Target


def convolution_and_norm(
    x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: Any,
    output_padding: Any, groups: Any, gamma: Any, shift: Any, mean: Any, variance: Any,
    momentum: Any, eps: Any,
) -> Any:  # fmt: skip
    result = aten.convolution.default(
        x, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
    return _normalized(result, gamma, shift, mean, variance, momentum, eps)


def linear_and_norm(
    x: Any, weight: Any, bias: Any, gamma: Any, shift: Any, mean: Any, variance: Any,
    momentum: Any, eps: Any,
) -> Any:  # fmt: skip
    result = aten.addmm.default(bias, x, weight)
    return _normalized(result, gamma, shift, mean, variance, momentum, eps)


def _normalized(
    x: Any, gamma: Any, shift: Any, mean: Any, variance: Any, momentum: Any, eps: Any
) -> Any:
    norm = aten._native_batch_norm_legit_no_training.default
    return operator.getitem(norm(x, gamma, shift, mean, variance, momentum, eps), 0)


class _NormMatcher(Matcher):
    """A form of these, where all parameters are frozen."""

    @override
    def candidates(self, rewriter: Rewriter) -> Iterable[fx.Node]:
        self._frozen = rewriter.unit.frozen
        return super().candidates(rewriter) if self._frozen else ()

    def why_not(self, weight: fx.Node, parameters: list[Any], eps: float) -> str | None:
        """Why new parameters are not computed from these."""
        if not eps > 0:  # a variance of zero gives an infinite scale, whose sums are no numbers
            return "eps is not positive"
        if not all(one is None or self._is_frozen(one) for one in (weight, *parameters)):
            return "a parameter is not frozen"
        if len(weight.users) > 1 or (weight.op == "call_function" and _is_shared(weight)):
            return "something else reads the weight"
        dtypes = {one.meta["val"].dtype for one in (weight, *parameters) if one is not None}
        return None if len(dtypes) == 1 else "batch norm has another dtype than its input"

    def _is_frozen(self, node: Any) -> bool:
        if not isinstance(node, fx.Node):
            return False
        if node.op == "placeholder":
            return node.name in self._frozen
        if node.op == "get_attr":
            return True
        return node.target is aten.t.default and self._is_frozen(node.args[0])


class ConvolutionMatcher(_NormMatcher):
    """Batch norm of a convolution."""

    def __init__(self) -> None:
        super().__init__(form(convolution_and_norm))

    @override
    def result(self, known: Any) -> Match:
        match = super().result(known)
        x, weight, bias, *how, gamma, shift, mean, variance, _, eps = match.inputs
        match.refusal = self.why_not(weight, [bias, gamma, shift, mean, variance], eps)
        if match.refusal is None and how[3] is not False:
            match.refusal = "the convolution is transposed"

        def build(draft: Draft) -> list[Call | fx.Node]:
            scale = _scale(draft, gamma, variance, eps)
            ones = [1] * (weight.meta["val"].dim() - 1)
            wide = draft(aten.view.default, scale, [-1, *ones])
            scaled = draft(aten.mul.Tensor, weight, wide)
            moved = _moved(draft, bias, scale, shift, mean)
            return [draft(aten.convolution.default, x, scaled, moved, *how)]

        match.build = build
        return match


class LinearMatcher(_NormMatcher):
    """Batch norm of a linear layer."""

    def __init__(self) -> None:
        super().__init__(form(linear_and_norm))

    @override
    def result(self, known: Any) -> Match:
        match = super().result(known)
        x, weight, bias, gamma, shift, mean, variance, _, eps = match.inputs
        match.refusal = self.why_not(weight, [bias, gamma, shift, mean, variance], eps)
        if match.refusal is None and bias.meta["val"].dim() != 1:
            match.refusal = "the bias is no row"

        def build(draft: Draft) -> list[Call | fx.Node]:
            scale = _scale(draft, gamma, variance, eps)
            scaled = draft(aten.mul.Tensor, weight, scale)
            return [draft(aten.addmm.default, _moved(draft, bias, scale, shift, mean), x, scaled)]

        match.build = build
        return match


def _is_shared(view: fx.Node) -> bool:
    return any(len(source.users) > 1 for source in view.all_input_nodes)


def _scale(draft: Draft, gamma: Any, variance: fx.Node, eps: float) -> Call:
    inverse = draft(aten.rsqrt.default, draft(aten.add.Tensor, variance, eps))
    return inverse if gamma is None else draft(aten.mul.Tensor, gamma, inverse)


def _moved(draft: Draft, bias: Any, scale: Call, shift: Any, mean: fx.Node) -> Call:
    target, args = (aten.neg.default, ()) if bias is None else (aten.sub.Tensor, (bias,))
    scaled = draft(aten.mul.Tensor, draft(target, *args, mean), scale)
    return scaled if shift is None else draft(aten.add.Tensor, scaled, shift)


def _wanted(config: XpuGraphConfig) -> bool:
    by_itself = config.target == Target.cpu and config.vendor_compiler_config is not None
    return config.freeze and not by_itself


CONVOLUTION_BATCH_NORM = Pattern(
    name="common-convolution_batch_norm",
    shapes=lambda: [ConvolutionMatcher()],
    identity="",
    level=OptLevel.level2,
    benefit=50,
    converts=True,
    wanted=_wanted,
)
LINEAR_BATCH_NORM = Pattern(
    name="common-linear_batch_norm",
    shapes=lambda: [LinearMatcher()],
    identity="",
    level=OptLevel.level2,
    benefit=50,
    converts=True,
    wanted=_wanted,
)
