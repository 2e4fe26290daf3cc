"""Casts of casts.

    cast(cast(x, wide), dtype of x)    ->    x
    cast(cast(x, wide), other)         ->    cast(x, other)
    cast(cast(x, int32), int8)         ->    cast(x, int8)    for any integer x

The inner cast goes where it loses nothing and the outer one then converts the same number in the
same way. ``_EXACT`` lists what loses nothing; among integers, what cuts bits off may be preceded by
what cuts fewer.

Left alone: an inner cast that rounds; floating point to integers, where out of its range the result
depends on the dtype it comes from; ``int32`` through ``float64`` to 16 bits, which rounds twice on
one way and once on the other; complex numbers; casts between devices or into pinned memory; results
inside that are written to.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.uniform import CASTS, unwritten
from xpu_graph.stage import Unit

_HALVES = {torch.float16, torch.bfloat16}
_FLOATS = {torch.float32, torch.float64}
_EXACT: dict[torch.dtype, set[torch.dtype]] = {
    torch.bool: {
        *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *_HALVES,
        *_FLOATS,
    },
    # integers of magnitudes up to 2 ** 11 are float16, to 2 ** 8 bfloat16, to 2 ** 24 float32, to
    # 2 ** 53 float64
    torch.uint8: {torch.int16, torch.int32, torch.int64, *_HALVES, *_FLOATS},
    torch.int8: {torch.int16, torch.int32, torch.int64, *_HALVES, *_FLOATS},
    torch.int16: {torch.int32, torch.int64, *_FLOATS},
    torch.int32: {torch.int64, torch.float64},
    # more digits, and no smaller range of exponents
    torch.float16: _FLOATS,
    torch.bfloat16: _FLOATS,
    torch.float32: {torch.float64},
}
"""dtype -> the others that hold every number it holds."""

_INTEGERS = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
_TARGETS = {torch.bool, *_INTEGERS, *_HALVES, *_FLOATS}


class FoldCasts(RewritePass):
    """Drops casts that the next cast makes unnecessary."""

    name = "fold_casts"
    targets = CASTS

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        inner = unwritten(node.args[0], unit)
        if inner is None or inner.target not in CASTS or not isinstance(inner.args[0], fx.Node):
            return
        source = inner.args[0]
        values: list[Any] = [given.meta.get("val") for given in (source, inner, node)]
        if not all(isinstance(value, torch.Tensor) for value in values):
            return
        first, middle, last = (value.dtype for value in values)
        if middle in (first, last):
            return  # the one that changes nothing is a copy
        reason = _why_not(inner, node, values) or _why_not_dtypes(first, middle, last)
        if reason is not None:
            unit.rewriter.refuse(reason)
        elif first != last or not unit.rewriter.replace(node, source):
            options = dict(node.kwargs)
            if node.target is aten._to_copy.default and "memory_format" in inner.kwargs:
                options.setdefault("memory_format", inner.kwargs["memory_format"])
            unit.rewriter.replace_with_call(node, node.target, (source, *node.args[1:]), options)


def _why_not(inner: fx.Node, outer: fx.Node, values: list[Any]) -> str | None:
    if any(call.kwargs.get("pin_memory") for call in (inner, outer)):
        return "a cast goes to pinned memory"
    if len({value.device for value in values}) > 1:
        return "the casts go from device to device"
    return None


def _why_not_dtypes(first: torch.dtype, middle: torch.dtype, last: torch.dtype) -> str | None:
    """Why converting directly may give another number."""
    if {first, middle, last} <= _INTEGERS and middle.itemsize >= last.itemsize:
        return None  # both ways keep the lowest bits
    if middle not in _EXACT.get(first, ()):
        return "the inner cast may round"
    if last not in _TARGETS:
        return f"how {last} is cast to is not known"
    is_truncation = last in _INTEGERS and middle.is_floating_point
    if is_truncation and last not in {first, *_EXACT[first]}:
        return "a number out of range may convert in another way"
    if first == torch.int32 and middle == torch.float64 and last in _HALVES:
        return "the number may be rounded twice"
    return None
