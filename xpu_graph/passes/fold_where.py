"""Choices whose outcome is known, or that were made before.

    where(c, x, x)                         ->    x
    where(True, x, y), where(False, x, y)  ->    x, y
    where(not c, x, y)                     ->    where(c, y, x)
    where(c, where(c, x, y), z)            ->    where(c, x, z)
    where(c, z, where(c, x, y))            ->    where(c, z, y)
    masked_fill(x, False, v)               ->    x
    masked_fill(x, True, v)                ->    full of v
    masked_fill(x, c, v)                   ->    x    where x consists of v

``True``, ``False`` and equal numbers are read off tensors that consist of one number. What is
chosen is broadcast and cast as the choice did it.

Left alone: conditions that are not boolean; an inner ``where`` that casts what is chosen;
conditions and inner results that are written to; whatever would change stride or aliasing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.stand_ins import fill_in, stand_in
from xpu_graph.passes.uniform import Number, as_dtype, known_scalar, same_number, unwritten
from xpu_graph.stage import Unit

_WHERE = aten.where.self
_MASKED_FILLS = frozenset({aten.masked_fill.Scalar, aten.masked_fill.Tensor})
_NOT = frozenset({aten.logical_not.default, aten.bitwise_not.default})


class FoldWhere(RewritePass):
    """Drops choices that choose nothing."""

    name = "fold_where"
    targets = _MASKED_FILLS | {_WHERE}

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        if len(node.args) < 3 or not all(isinstance(entry, fx.Node) for entry in node.args[:2]):
            return
        if not isinstance(node.meta.get("val"), torch.Tensor):
            return
        if node.target is not _WHERE:
            self._fold_fill(node, unit)
        elif isinstance(node.args[2], fx.Node):
            self._fold_where(node, unit)

    def _fold_where(self, node: fx.Node, unit: Unit) -> None:
        condition: Any
        condition, left, right = node.args[:3]
        known = known_scalar(condition, unit)
        if left is right or known is not None:
            chosen: Any = left if left is right or known else right
            stand_in(node, chosen, unit, cast=True)
            return
        number = _held(left, node, unit)
        if number is not None and _same(number, _held(right, node, unit)):
            fill_in(node, number, unit)
            return
        opposite = unwritten(condition, unit)
        if opposite is not None and opposite.target in _NOT:
            source: Any = opposite.args[0]
            if source.meta["val"].dtype != torch.bool:
                unit.rewriter.refuse("the condition is not boolean")
            else:
                unit.rewriter.replace_with_call(node, _WHERE, (source, right, left))
            return
        for position in (1, 2):
            if self._fold_nested(node, condition, position, unit):
                return

    def _fold_nested(self, node: fx.Node, condition: fx.Node, position: int, unit: Unit) -> bool:
        inner = unwritten(node.args[position], unit)
        if inner is None or inner.target is not _WHERE or inner.args[0] is not condition:
            return False
        chosen: Any = inner.args[position]
        if unit.rewriter.is_written(condition):
            unit.rewriter.refuse("the condition is written to")
            return False
        if chosen.meta["val"].dtype != inner.meta["val"].dtype:
            unit.rewriter.refuse("the inner choice casts what it chooses")
            return False
        args = list(node.args)
        args[position] = chosen
        return unit.rewriter.replace_with_call(node, _WHERE, tuple(args)) is not None

    def _fold_fill(self, node: fx.Node, unit: Unit) -> None:
        source: Any
        source, mask, filling = node.args[:3]
        known = known_scalar(mask, unit)
        number = _held(filling, node, unit)
        if known is not None and not known:
            stand_in(node, source, unit)
        elif number is None:
            return
        elif known:
            fill_in(node, number, unit)
        elif _same(number, _held(source, node, unit)):
            stand_in(node, source, unit)


def _held(operand: Any, node: fx.Node, unit: Unit) -> Number | None:
    """The number an operand consists of, as the result of the choice holds it."""
    number = known_scalar(operand, unit)
    return None if number is None else as_dtype(number, node.meta["val"].dtype)


def _same(left: Number, right: Number | None) -> bool:
    return right is not None and same_number(left, right)
