"""Reductions over dimensions of size 1, and over no dimension at all.

    amax, amin, prod, max.dim, min.dim    ->    x, without the dimensions
    sum, mean, cumsum                     ->    the same where x is never -0.0
    any, all                              ->    the same, as booleans
    cumprod                               ->    x
    argmax, argmin, indices of max.dim    ->    full of zeros

Results that are wider than ``x``, such as an integer sum, are cast.

Left alone: ``sum``, ``mean`` and ``cumsum`` in floating point otherwise (``0 + -0.0`` is ``+0.0``);
complex numbers, for the same reason; ``any`` and ``all`` of uint8, which give uint8; sums of
floating point as integers; ``var``, ``logsumexp``, norms and others that compute something; results
that leave the graph, since a reduction returns memory of its own (the rewriter checks that).
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten
from xpu_graph.passes.arguments import argument
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.drafts import Call, Draft
from xpu_graph.passes.signs import is_never_negative_zero
from xpu_graph.passes.stand_ins import fill_in
from xpu_graph.stage import Unit

_WITHOUT_DIM = frozenset(
    {
        aten.all.default,
        aten.any.default,
        aten.max.default,
        aten.mean.default,
        aten.min.default,
        aten.prod.default,
        aten.sum.default,
    }
)
_SCANS = frozenset({aten.cumsum.default, aten.cumprod.default})
_SUMS = frozenset(
    {
        aten.cumsum.default,
        aten.mean.default,
        aten.mean.dim,
        aten.sum.default,
        aten.sum.dim_IntList,
    }
)
_TRUTHS = frozenset(
    {
        aten.all.default,
        aten.all.dim,
        aten.all.dims,
        aten.any.default,
        aten.any.dim,
        aten.any.dims,
    }
)
_OVER_NOTHING = frozenset({aten.any.dims, aten.all.dims})
"""Operators that take an empty list of dimensions for none; to the others it means all."""

_PLACES = frozenset({aten.argmax.default, aten.argmin.default})
_PAIRS = frozenset({aten.max.dim, aten.min.dim})


class FoldReductions(RewritePass):
    """Drops reductions that have one number each to reduce."""

    name = "fold_reductions"
    targets = (
        _WITHOUT_DIM
        | _SCANS
        | _SUMS
        | _TRUTHS
        | _PLACES
        | _PAIRS
        | {aten.amax.default, aten.amin.default, aten.prod.dim_int}
    )

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        source = node.args[0]
        value = source.meta.get("val") if isinstance(source, fx.Node) else None
        if not isinstance(source, fx.Node) or not isinstance(value, torch.Tensor):
            return
        dims = _dims(node, value.dim())
        if any(not isinstance(value.shape[d], int) or value.shape[d] != 1 for d in dims):
            return
        if node.target in _PLACES:
            fill_in(node, 0, unit)
            return
        reason = _why_not(node, source, unit)
        if reason is not None:
            unit.rewriter.refuse(reason)
        elif node.target in _PAIRS:
            for item in [user for user in node.users if user.target is operator.getitem]:
                if not item.users:
                    continue
                if item.args[1] == 0:
                    self._replace(item, source, dims, argument(node, "keepdim"), unit)
                else:
                    fill_in(item, 0, unit)
        else:
            keeps = node.target in _SCANS or (
                node.target not in _WITHOUT_DIM and argument(node, "keepdim")
            )
            self._replace(node, source, dims, keeps, unit)

    def _replace(
        self, node: fx.Node, source: fx.Node, dims: list[int], keeps_dims: bool, unit: Unit
    ) -> None:
        value, dtype = source.meta["val"], node.meta["val"].dtype
        drops = bool(dims) and not keeps_dims
        if not drops and value.dtype == dtype:
            unit.rewriter.replace(node, source)
            return

        def build(call: Draft) -> Call:
            result: Any = source
            if drops:
                result = call(aten.squeeze.dims, result, dims)
            if value.dtype != dtype:
                result = call(aten._to_copy.default, result, dtype=dtype)
            return result  # type: ignore[no-any-return]

        unit.rewriter.replace_with_calls(node, build)


def _dims(node: fx.Node, rank: int) -> list[int]:
    """The dimensions that a call reduces; none of a tensor that has none."""
    if not rank:
        return []
    given = None if node.target in _WITHOUT_DIM else argument(node, "dim")
    dims = [given] if isinstance(given, int) else given
    if dims is None or (not dims and node.target not in _OVER_NOTHING):
        return list(range(rank))
    return sorted(dim % rank for dim in dims)


def _why_not(node: fx.Node, source: fx.Node, unit: Unit) -> str | None:
    """Why the numbers that come out may not be those that go in."""
    value, result = source.meta["val"], node.meta["val"]
    if value.dtype.is_complex:
        return "complex arithmetic may change the sign of a zero"
    if node.target in _TRUTHS:
        return None if result.dtype == torch.bool else "the result is a number, not a boolean"
    if node.target in _PAIRS:
        return None
    is_cast = value.dtype != result.dtype
    is_float = value.dtype.is_floating_point
    if is_cast and (
        result.dtype.is_complex
        or result.dtype == torch.bool
        or (is_float and not result.dtype.is_floating_point)
    ):
        return "the result is of another kind of numbers"
    if node.target not in _SUMS or not is_float:
        return None
    if is_cast and value.dtype.itemsize >= result.dtype.itemsize:
        return "the numbers are rounded, and may become -0.0, before they are summed up"
    return None if is_never_negative_zero(source, unit) else "0 + -0.0 is +0.0"
