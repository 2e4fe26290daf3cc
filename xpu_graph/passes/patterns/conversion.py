"""Results of an implementation, brought into the dtype and the layout that were found."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from xpu_graph.fx import aten, same_size
from xpu_graph.passes.drafts import Call, Draft, DraftRefused

_MAX_DIMENSIONS = 5


def in_dtype(result: Call | fx.Node, old: fx.Node, draft: Draft) -> Call | fx.Node:
    """A result in the dtype that was found; as it is where that would be wider.

    Args:
        result: what the implementation gives.
        old: what was found.
        draft: where a cast is added.
    """
    value, wanted = _value(result), old.meta["val"].dtype
    if value.dtype == wanted or not (value.is_floating_point() and wanted.is_floating_point):
        return result
    if torch.finfo(value.dtype).bits < torch.finfo(wanted).bits:
        return result
    return draft(aten._to_copy.default, result, dtype=wanted)


def in_layout(
    results: Sequence[Call | fx.Node], olds: Sequence[fx.Node], draft: Draft
) -> list[Call | fx.Node]:
    """Results in the layouts that were found, where these have no gaps.

    Args:
        results: what the implementation gives.
        olds: what was found.
        draft: where copies are added.

    Raises:
        DraftRefused: they are in them already, or one is of another kind.
    """
    made = [_laid_out(one, old.meta["val"], draft) for one, old in zip(results, olds, strict=True)]
    if all(one is before for one, before in zip(made, results, strict=True)):
        raise DraftRefused("the layout that was found is not made of it")
    return made


def _laid_out(result: Call | fx.Node, old: Any, draft: Draft) -> Call | fx.Node:
    value = _value(result)
    if value.shape != old.shape or all(map(same_size, value.stride(), old.stride())):
        return result
    order = _order(old)
    if order is None:
        raise DraftRefused("the layout that was found is not made of it")
    if order == sorted(order):
        return draft(aten.clone.default, result, memory_format=torch.contiguous_format)
    back = sorted(range(len(order)), key=order.__getitem__)
    moved = draft(aten.permute.default, result, order)
    copied = draft(aten.clone.default, moved, memory_format=torch.contiguous_format)
    return draft(aten.permute.default, copied, back)


def _order(value: Any) -> list[int] | None:
    """The order of dimensions in which a tensor is contiguous; asks nothing about sizes."""
    if value.dim() > _MAX_DIMENSIONS:
        return None
    for order in itertools.permutations(range(value.dim())):
        expected: Any = 1
        for dim in reversed(order):
            if not same_size(value.stride(dim), expected):
                break
            expected = expected * value.shape[dim]
        else:
            return list(order)
    return None


def _value(result: Call | fx.Node) -> Any:
    return result.value if isinstance(result, Call) else result.meta["val"]
