"""Operators that give what they were given.

    repeat(x, ones), constant_pad_nd(x, zeros), roll(x, 0), flip of dims of size 1      ->    x
    expand_copy, view_copy, ..., pixel_shuffle to the shape of x                        ->    x
    index_select(x, d, arange), x[arange], embedding(x, arange)                         ->    x
    clamp(x, -inf, inf), clamp_min(x, the least there is), maximum(x, -inf), ...        ->    x
    round, floor, ceil, trunc, nan_to_num of integers                                   ->    x
    view_as_real(view_as_complex(x)), view_as_complex(view_as_real(x))                  ->    x
    lift_fresh, lift_fresh_copy of a constant                                           ->    it
    copy(x, y) where y fits x                                                           ->    y

Left alone: dropout, which draws random numbers wherever it does anything (AOTAutograd drops it
where it is off); an ``arange`` that is not known to count all of a dimension; bounds that are
within the numbers of the dtype; whatever would change dtype, stride or aliasing: these operators
return memory of their own, so the rewriter keeps those that leave the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph import fx as graph_facts
from xpu_graph.fx import aten
from xpu_graph.passes.arguments import argument
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.uniform import known_scalar, unwritten
from xpu_graph.stage import Unit

Check = Callable[[fx.Node, fx.Node, Unit], bool]
"""Whether a call gives its source back: the call, the source, the graph."""


def _always(node: fx.Node, source: fx.Node, unit: Unit) -> bool:
    return True


def _is_integral(node: fx.Node, source: fx.Node, unit: Unit) -> bool:
    dtype = source.meta["val"].dtype
    return not dtype.is_floating_point and not dtype.is_complex


def _pads_nothing(node: fx.Node, source: fx.Node, unit: Unit) -> bool:
    amounts = argument(node, "pad") if node.target is _PAD else argument(node, "padding")
    return all(type(amount) is int and amount == 0 for amount in amounts)


def _flips_nothing(node: fx.Node, source: fx.Node, unit: Unit) -> bool:
    shape = source.meta["val"].shape or (1,)  # without dimensions, 0 and -1 are legal
    return all(graph_facts.same_size(shape[dim], 1) for dim in argument(node, "dims"))


def _rolls_nothing(node: fx.Node, source: fx.Node, unit: Unit) -> bool:
    shape, shifts = source.meta["val"].shape or (1,), argument(node, "shifts")
    dims = argument(node, "dims") or range(0)
    if not all(type(shift) is int for shift in shifts):
        return False
    if not dims:
        return not any(shifts)
    return all(
        not shift or (isinstance(shape[dim], int) and shape[dim] and shift % shape[dim] == 0)
        for dim, shift in zip(dims, shifts, strict=True)
    )


def _turns_nothing(node: fx.Node, source: fx.Node, unit: Unit) -> bool:
    return bool(argument(node, "k") % 4 == 0)


def _bounds_nothing(node: fx.Node, source: fx.Node, unit: Unit) -> bool:
    low, high = (
        argument(node, name) if name in _BOUNDS[node.target] else None for name in ("min", "max")
    )
    return _is_bound(low, source, unit, -1) and _is_bound(high, source, unit, 1)


def _is_bound(bound: Any, source: fx.Node, unit: Unit, side: int) -> bool:
    """Whether no number of the source is beyond a bound."""
    if bound is None:
        return True
    number, dtype = known_scalar(bound, unit), source.meta["val"].dtype
    if number is None or isinstance(number, complex) or dtype.is_complex:
        return False
    if dtype.is_floating_point:
        return math.isinf(number) and (number > 0) == (side > 0)
    if dtype == torch.bool or isinstance(number, float):
        return False
    limits = torch.iinfo(dtype)  # beyond them, the bound would be cast, and wrap
    return number == (limits.max if side > 0 else limits.min)


def _selects_all(node: fx.Node, source: fx.Node, unit: Unit) -> bool:
    value = source.meta["val"]
    if not value.dim():
        return False
    return _counts(argument(node, "index"), value.shape[argument(node, "dim")], unit)


def _indexes_all(node: fx.Node, source: fx.Node, unit: Unit) -> bool:
    given = [(d, index) for d, index in enumerate(argument(node, "indices")) if index is not None]
    if len(given) != 1:
        return False
    dim, index = given[0]
    return _counts(index, source.meta["val"].shape[dim], unit)


def _embeds_all(node: fx.Node, source: fx.Node, unit: Unit) -> bool:
    return _counts(argument(node, "indices"), source.meta["val"].shape[0], unit)


def _counts(index: Any, size: Any, unit: Unit) -> bool:
    """Whether an index is 0, 1, ... up to a size, for certain."""
    call: Any = unwritten(index, unit)
    if call is None or not isinstance(size, int):
        return False
    dtype = call.meta["val"].dtype
    if dtype not in (torch.int32, torch.int64):
        return False
    if call.target is aten.arange.default:
        bounds = (0, call.args[0], 1)
    elif call.target in (aten.arange.start, aten.arange.start_step):
        bounds = (call.args[0], call.args[1], argument(call, "step") if len(call.args) > 2 else 1)
    elif call.target is torch.ops.prims.iota.default:
        start, step = argument(call, "start"), argument(call, "step")
        bounds = (start, start + call.args[0] if type(start) is int else None, step)
    else:
        return False
    return all(type(bound) is int for bound in bounds) and bounds == (0, size, 1)


def _is_constant(node: fx.Node, source: fx.Node, unit: Unit) -> bool:
    return source.op == "get_attr"


_PAD = aten.constant_pad_nd.default
_BOUNDS: dict[Any, tuple[str, ...]] = {
    aten.clamp.default: ("min", "max"),
    aten.clamp.Tensor: ("min", "max"),
    aten.clamp_min.default: ("min",),
    aten.clamp_min.Tensor: ("min",),
    aten.clamp_max.default: ("max",),
    aten.clamp_max.Tensor: ("max",),
}

_CHECKS: dict[Any, Check] = {
    # a result of the same shape is the source itself
    aten._reshape_copy.default: _always,
    aten.alias_copy.default: _always,
    aten.detach_copy.default: _always,
    aten.expand_copy.default: _always,
    aten.narrow_copy.default: _always,
    aten.pixel_shuffle.default: _always,
    aten.pixel_unshuffle.default: _always,
    aten.repeat.default: _always,
    aten.slice_copy.Tensor: _always,
    aten.squeeze_copy.default: _always,
    aten.squeeze_copy.dim: _always,
    aten.squeeze_copy.dims: _always,
    aten.view_copy.default: _always,
    # moved by nothing
    _PAD: _pads_nothing,
    aten.reflection_pad1d.default: _pads_nothing,
    aten.reflection_pad2d.default: _pads_nothing,
    aten.reflection_pad3d.default: _pads_nothing,
    aten.replication_pad1d.default: _pads_nothing,
    aten.replication_pad2d.default: _pads_nothing,
    aten.replication_pad3d.default: _pads_nothing,
    aten.flip.default: _flips_nothing,
    aten.roll.default: _rolls_nothing,
    aten.rot90.default: _turns_nothing,
    # chosen in order
    aten.index_select.default: _selects_all,
    aten.index.Tensor: _indexes_all,
    aten.embedding.default: _embeds_all,
    # bounded by nothing
    **dict.fromkeys(_BOUNDS, _bounds_nothing),
    # numbers of a kind that the operator does not change
    aten.ceil.default: _is_integral,
    aten.floor.default: _is_integral,
    aten.nan_to_num.default: _is_integral,
    aten.round.default: _is_integral,
    aten.trunc.default: _is_integral,
    aten.lift_fresh.default: _is_constant,
    aten.lift_fresh_copy.default: _is_constant,
}
_INVERSES: dict[Any, Any] = {
    aten.view_as_real.default: aten.view_as_complex.default,
    aten.view_as_complex.default: aten.view_as_real.default,
}
_EXTREMES: dict[Any, int] = {aten.maximum.default: -1, aten.minimum.default: 1}


class FoldNoops(RewritePass):
    """Drops operators that give what they were given."""

    name = "fold_noops"
    targets = frozenset({*_CHECKS, *_INVERSES, *_EXTREMES, aten.copy.default})

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return
        if node.target is aten.copy.default:
            self._replace(node, node.args[1], unit)
        elif node.target in _INVERSES:
            inner = unwritten(node.args[0], unit)
            if inner is not None and inner.target is _INVERSES[node.target]:
                self._replace(node, inner.args[0], unit)
        elif node.target in _EXTREMES:
            side = _EXTREMES[node.target]
            operands: Any = node.args
            for kept, bound in (operands[:2], operands[1::-1]):
                if _is_tensor(kept) and _is_bound(bound, kept, unit, side):
                    self._replace(node, kept, unit)
                    return
        else:
            source: Any = node.args[0]
            if _is_tensor(source) and _CHECKS[node.target](node, source, unit):
                self._replace(node, source, unit)

    def _replace(self, node: fx.Node, source: Any, unit: Unit) -> None:
        value, other = source.meta["val"], node.meta["val"]
        if len(value.shape) == len(other.shape) and all(
            map(graph_facts.same_size, value.shape, other.shape)
        ):
            unit.rewriter.replace(node, source)


def _is_tensor(operand: Any) -> bool:
    return isinstance(operand, fx.Node) and isinstance(operand.meta.get("val"), torch.Tensor)
