"""SDPA: scaled dot-product attention.

    softmax(query @ key.transpose(-2, -1) * scale + mask) @ value    ->    SDPA(...)

Found: scores multiplied or divided by a number, or by none; a floating-point mask that is added; a
boolean one in ``where`` or ``masked_fill``; the softmax in another floating-point dtype; heads that
are folded into the batch for the products; and torch's own operators for it, where they drop
nothing out.

Left alone: dropout; something else between scores and softmax, such as a cap or a second mask; a
mask that might hide a row with -inf throughout, where eager gives NaN and most kernels do not; a
number that takes the place of scores without hiding them; a mask that the scores are broadcast to;
a scale known at run time only, or one that is not finite.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten, same_size
from xpu_graph.passes.patterns.forms import cast, either, form, reshaped
from xpu_graph.passes.patterns.masks import why_not_hiding, why_not_open
from xpu_graph.passes.patterns.match import Matcher
from xpu_graph.passes.patterns.passing import keeps_order
from xpu_graph.passes.patterns.predicates import why_not_floating, why_not_number
from xpu_graph.passes.patterns.shape import Match
from xpu_graph.passes.patterns.structure.base import Structure
from xpu_graph.passes.rewriter import Rewriter

_VIEWS = frozenset({aten.view.default, aten._unsafe_view.default})
_MASKING = frozenset({aten.add.Tensor, aten.where.self, aten.masked_fill.Scalar})


def reference(query: Any, key: Any, value: Any, mask: Any, scale: Any, is_causal: Any) -> Any:
    """Attention, https://arxiv.org/abs/1706.03762.

    Args:
        query: [..., L, E], floating point.
        key: [..., S, E], the same dtype.
        value: [..., S, V], the same dtype.
        mask: added to the scores, [..., L, S] or what is broadcast to that; no row of the scores
            becomes -inf throughout. None for none.
        scale: what the scores are multiplied by.
        is_causal: whether a place sees those up to its own alone; there is no mask then.
    """
    scores = query @ key.transpose(-2, -1) * scale
    if is_causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    scores = scores if mask is None else scores + mask
    wide = scores if scores.dtype == torch.float64 else scores.float()
    return wide.softmax(-1).to(query.dtype) @ value


def attention(
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    seen: Any,
    hides: Any,
    hidden: Any,
    factor: Any,
    divisor: Any,
    dim: Any,
) -> Any:
    product = reshaped(_product(query, key))
    scores = either(aten.mul.Tensor(product, factor), aten.div.Tensor(product, divisor), product)
    scores = reshaped(cast(reshaped(scores)))
    masked = either(
        aten.add.Tensor(scores, mask),
        aten.where.self(seen, scores, hidden),
        aten.masked_fill.Scalar(scores, hides, hidden),
        scores,
    )
    weights = cast(aten._softmax.default(reshaped(cast(masked)), dim, False))
    return _product(reshaped(weights), value)


def _product(left: Any, right: Any) -> Any:
    """A product of matrices; some devices have a kernel for any number of batch dimensions."""
    return either(aten.bmm.default(left, right), aten.matmul.default(left, right))


def flash_for_cpu(query: Any, key: Any, value: Any, mask: Any, scale: Any, is_causal: Any) -> Any:
    return aten._scaled_dot_product_flash_attention_for_cpu.default(
        query, key, value, 0.0, is_causal, attn_mask=mask, scale=scale
    )[0]


class AttentionMatcher(Matcher):
    """The form; its operands with the heads in a dimension of their own, where they have one."""

    def __init__(self) -> None:
        super().__init__(form(attention))
        calls = self.template.calls
        self._softmax = next(n for n in calls if n.target is aten._softmax.default)
        self._masked = [n for n in calls if n.target in _MASKING]

    @override
    def candidates(self, rewriter: Rewriter) -> Iterable[fx.Node]:
        self._unit = rewriter.unit
        return super().candidates(rewriter)

    @override
    def result(self, known: Any) -> Match:
        match = super().result(known)
        *operands, mask, seen, hides, hidden, factor, divisor, dim = match.inputs
        softmax = known.nodes[self._softmax]
        lead = softmax.meta["val"].shape[:-2]
        has_leads = all(_is_led_by(operand, lead) for operand in operands)
        operands = [_with_heads(operand, lead) for operand in operands]
        match.inputs = [*operands, mask, seen, hides, hidden, factor, divisor]
        masked = next((known.nodes[n] for n in self._masked if n in known.nodes), None)
        match.refusal = (
            match.refusal
            or _why_not(softmax, operands, dim, factor, divisor)
            or _why_not_masked(masked, mask)
            or why_not_open(self._unit, mask, seen, hides, hidden)
            or why_not_hiding(self._unit, operands[0].meta["val"].dtype, seen, hides, hidden)
        )
        (product,) = match.outputs
        if aten.matmul.default in {node.target for node in (product, *match.inner)}:
            match.call = _with_own_heads
            if not has_leads:
                match.refusal = match.refusal or "the operands of a product are broadcast"
            return match
        final = _only_view(product)
        match.call = _folded
        if final is not None and _is_led_by(final, lead) and _has_end(final, product):
            match.outputs, match.inner = [final], [*match.inner, product]
            match.call = _with_own_heads
        return match


class FlashMatcher(Matcher):
    """Torch's own operator on the CPU."""

    is_fused = True

    def __init__(self) -> None:
        super().__init__(form(flash_for_cpu))

    @override
    def candidates(self, rewriter: Rewriter) -> Iterable[fx.Node]:
        self._unit = rewriter.unit
        return super().candidates(rewriter)

    @override
    def result(self, known: Any) -> Match:
        match = super().result(known)
        query, key, value, mask, scale, is_causal = match.inputs
        if scale is None:
            size = query.meta["val"].shape[-1]
            scale = size**-0.5 if isinstance(size, int) and size else size
            match.inputs = [query, key, value, mask, scale, is_causal]
        match.refusal = why_not_open(self._unit, mask, None, None, None)
        return match


def _why_not(
    softmax: fx.Node, operands: list[fx.Node], dim: Any, factor: Any, divisor: Any
) -> str | None:
    rank = softmax.meta["val"].dim()
    if dim not in (-1, rank - 1):
        return "the softmax does not go over the last dimension"
    if all(operand.meta["val"].dim() != rank for operand in operands):
        return "how many heads there are is not to be seen"
    numbers = [number for number in (factor, divisor) if number is not None]
    reason = next(filter(None, (why_not_number("the scale", one) for one in numbers)), None)
    if reason is None and divisor == 0:
        return "the scores are divided by zero"
    return reason


def _why_not_masked(masked: fx.Node | None, mask: Any) -> str | None:
    """Whether something else than a mask is added, or one that is larger than the scores."""
    if masked is None:
        return None
    if masked.target is aten.add.Tensor and not isinstance(mask, fx.Node):
        return "what is added to the scores is a number"
    shape = masked.meta["val"].shape
    scores = masked.args[1 if masked.target is aten.where.self else 0]
    if scores is mask:  # a sum is found in either order
        scores = masked.args[1]
    assert isinstance(scores, fx.Node)
    before = scores.meta["val"].shape
    if len(before) == len(shape) and all(map(same_size, before, shape)):
        return None
    return "the scores are broadcast to the mask"


def _with_heads(operand: fx.Node, lead: Any) -> fx.Node:
    """What an operand of a product was before its heads were folded into the batch."""
    source = found = operand
    while source.op == "call_function" and keeps_order(source):
        source = source.all_input_nodes[0]
        if _is_led_by(source, lead) and _has_end(source, operand):
            found = source
    return found


def _is_led_by(node: fx.Node, lead: Any) -> bool:
    shape = node.meta["val"].shape
    return len(shape) == len(lead) + 2 and all(map(same_size, shape[:-2], lead))


def _has_end(node: fx.Node, other: fx.Node) -> bool:
    return all(map(same_size, node.meta["val"].shape[-2:], other.meta["val"].shape[-2:]))


def _only_view(node: fx.Node) -> fx.Node | None:
    users = list(node.users)
    return users[0] if len(users) == 1 and users[0].target in _VIEWS else None


def _call(
    function: Callable[..., Any],
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    seen: Any,
    hides: Any,
    hidden: Any,
    factor: Any,
    divisor: Any,
    is_folded: bool,
) -> Any:
    led = max((query, key, value), key=torch.Tensor.dim)
    lead = led.shape[:-2]
    query, key, value = (_reshaped(one, lead) for one in (query, key, value))
    if seen is not None or hides is not None:
        # Added to a score, the least number still is that number: a row of nothing else is even.
        zero, least = (
            torch.full((), number, dtype=query.dtype, device=query.device)
            for number in (0.0, torch.finfo(query.dtype).min)
        )
        mask = torch.where(seen, zero, least) if hides is None else torch.where(hides, least, zero)
    scale = (1.0 if factor is None else factor) / (1.0 if divisor is None else divisor)
    result = function(query, key.transpose(-2, -1), value, mask, scale, False)
    return result.flatten(0, -3) if is_folded and result.dim() > 3 else result


def _reshaped(value: Any, lead: Any) -> Any:
    return value if value.dim() == len(lead) + 2 else value.reshape(*lead, *value.shape[-2:])


_folded = functools.partial(_call, is_folded=True)
_with_own_heads = functools.partial(_call, is_folded=False)


def why_not(query: Any, key: Any, value: Any, mask: Any, scale: Any, is_causal: Any) -> str | None:
    for name, operand in (("the query", query), ("the key", key), ("the value", value)):
        reason = why_not_floating(name, operand)
        if reason is not None:
            return reason
        if operand.dtype != query.dtype:
            return f"{name} is {operand.dtype}, the query {query.dtype}"
    if isinstance(mask, torch.Tensor) and not mask.is_floating_point():
        return f"the mask is {mask.dtype}"
    reason = why_not_number("the scale", scale)
    if reason is None and not math.isfinite(scale):
        return f"the scale is {scale}"
    return reason


def examples() -> tuple[Any, ...]:
    query, key, value = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 7, 8), torch.randn(2, 3, 7, 8)
    return query, key, value, torch.randn(2, 1, 5, 7), 8**-0.5, False


SDPA = Structure(
    "SDPA",
    reference,
    examples,
    coded=(AttentionMatcher, FlashMatcher),
    conditions=(why_not,),
    benefit=40,
)
