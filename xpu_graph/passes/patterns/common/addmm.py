"""A product and a sum become one operator.

    add(mm(a, b), bias)                  ->    addmm(bias, a, b)
    add(view(mm(a, b), [..., N]), bias)  ->    view(addmm(bias, a, b), [..., N])    for a bias [N]
    add(bmm(a, b), c)                    ->    baddbmm(c, a, b)

The kernel adds before it rounds, or in another order: level 2. Off where torch's CPU kernels run,
which gain nothing by it (docs/patterns.md has the figures). Left alone: integers; a sum that is
scaled, that broadcasts the product, or that promotes it to another dtype.
"""

from __future__ import annotations

from typing import Any

from torch import fx
from typing_extensions import override

from xpu_graph.config import OptLevel, XpuGraphConfig
from xpu_graph.fx import aten, same_size
from xpu_graph.passes.drafts import Call, Draft
from xpu_graph.passes.patterns.forms import either, form
from xpu_graph.passes.patterns.match import Matcher
from xpu_graph.passes.patterns.pattern import Pattern
from xpu_graph.passes.patterns.shape import Match
from xpu_graph.target import Target


def viewed_sum(a: Any, b: Any, bias: Any, shape: Any) -> Any:
    product = aten.mm.default(a, b)
    viewed = either(aten.view.default(product, shape), aten._unsafe_view.default(product, shape))
    return aten.add.Tensor(viewed, bias)


def plain_sum(a: Any, b: Any, bias: Any) -> Any:
    return aten.add.Tensor(aten.mm.default(a, b), bias)


def batched_sum(a: Any, b: Any, bias: Any) -> Any:
    return aten.add.Tensor(aten.bmm.default(a, b), bias)


class SumMatcher(Matcher):
    """A form of these, and the operator that it becomes.

    Args:
        function: the form.
        fused: the operator.
    """

    def __init__(self, function: Any, fused: Any) -> None:
        super().__init__(form(function))
        self._fused = fused

    @override
    def result(self, known: Any) -> Match:
        match = super().result(known)
        a, b, bias = match.inputs[:3]
        (total,) = match.outputs
        viewed = match.inputs[3:]
        match.refusal = _why_not(total, a, b, bias, is_viewed=bool(viewed))

        def build(draft: Draft) -> list[Call | fx.Node]:
            fused = draft(self._fused, bias, a, b)
            return [draft(aten.view.default, fused, *viewed)] if viewed else [fused]

        match.build = build
        return match


def _why_not(total: fx.Node, a: fx.Node, b: fx.Node, bias: Any, *, is_viewed: bool) -> str | None:
    if not isinstance(bias, fx.Node):
        return "what is added is a number"
    value, added = total.meta["val"], bias.meta["val"]
    dtypes = {one.dtype for one in (value, added, a.meta["val"], b.meta["val"])}
    if len(dtypes) > 1 or not value.is_floating_point():
        return f"it computes with {', '.join(sorted(map(str, dtypes)))}"
    columns = b.meta["val"].shape[-1]
    if added.dim() == 1 and same_size(added.shape[0], columns):
        whole = same_size(value.shape[-1], columns)
        return None if whole else "the view cuts what is added to"
    if is_viewed:
        return "what is added to the view is no row"
    expected = (*a.meta["val"].shape[:-1], columns)
    fits = len(value.shape) == len(expected) and all(map(same_size, value.shape, expected))
    return None if fits else "the product is broadcast"


def _wanted(config: XpuGraphConfig) -> bool:
    return config.target not in (Target.none, Target.cpu)


ADDMM = Pattern(
    name="common-addmm",
    shapes=lambda: [
        SumMatcher(plain_sum, aten.addmm.default),
        SumMatcher(viewed_sum, aten.addmm.default),
    ],
    identity="",
    level=OptLevel.level2,
    benefit=5,
    wanted=_wanted,
)
BADDBMM = Pattern(
    name="common-baddbmm",
    shapes=lambda: [SumMatcher(batched_sum, aten.baddbmm.default)],
    identity="",
    level=OptLevel.level2,
    benefit=5,
    wanted=_wanted,
)
