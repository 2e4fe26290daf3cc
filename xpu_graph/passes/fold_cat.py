"""Concatenations of fewer parts.

    cat([x])                       ->    x
    stack([x], d)                  ->    unsqueeze(x, d)
    cat([a, empty, b])             ->    cat([a, b])
    cat([cat([a, b], d), c], d)    ->    cat([a, b, c], d)

A cat inside another is taken apart where nothing else reads it: then a copy goes. Where something
does, both would be made, and the outer one from more parts. The outermost cat of a nest takes in
all the others at once, so that a chain of them costs what its parts do.

Left alone: empty parts that decide about dtype or strides, parts of another dtype, an inner cat of
another dtype (it rounds on its own) or dimension, results that leave the graph where the part is an
input or another output, nests of more than ``MAX_PARTS`` parts, and cats of empty parts only.
``concat`` and ``concatenate`` come as ``cat``, ``hstack`` and the like, too.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.config import OptLevel, XpuGraphConfig
from xpu_graph.fx import aten
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.pieces import cat_dim, size_in_cat
from xpu_graph.stage import Unit

MAX_PARTS = 1024
"""How many parts a cat may get by taking in others: a chain of ``cat([y, y])`` has no end."""


class FoldCat(RewritePass):
    """Drops parts, nests and whole concatenations that change nothing."""

    name = "fold_cat"
    targets = frozenset({aten.cat.default, aten.stack.default})

    def __init__(self, config: XpuGraphConfig) -> None:
        super().__init__(config)
        self._relayout = config.opt_level >= OptLevel.level2

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        parts: Any = node.args[0]
        if not isinstance(parts, (list, tuple)):
            return
        rewriter, dim = unit.rewriter, cat_dim(node)
        if node.target == aten.stack.default:
            if len(parts) == 1:
                rewriter.replace_with_call(
                    node, aten.unsqueeze.default, (parts[0], dim), relayout=self._relayout
                )
            return
        if _is_taken_in(node, unit):
            return
        flat = _flat(node, unit)
        kept = [part for part in flat if not _is_nothing(part, node, dim)]
        if len(kept) == 1 and rewriter.replace(node, kept[0], relayout=self._relayout):
            return
        if kept and kept != list(parts):
            if rewriter.replace_with_call(node, aten.cat.default, (kept, dim)) is not None:
                return
            if len(flat) not in (len(kept), len(parts)):  # an empty part decides about something
                rewriter.replace_with_call(node, aten.cat.default, (flat, dim))


def _is_taken_in(node: fx.Node, unit: Unit) -> bool:
    """Whether the only reader is a cat that takes this one apart."""
    if len(node.users) != 1:
        return False
    reader = next(iter(node.users))
    return reader.target is aten.cat.default and _why_not_inside(node, reader, unit) is None


def _why_not_inside(inner: fx.Node, outer: fx.Node, unit: Unit) -> str | None:
    """Why a cat that another one reads cannot give its parts to it."""
    if len(inner.users) != 1:
        return "something else reads the inner cat"
    before, after = inner.meta["val"], outer.meta["val"]
    if before.dim() != after.dim() or cat_dim(inner) != cat_dim(outer):
        return "the inner cat is along another dimension"
    if before.dtype != after.dtype:
        return "the inner cat has another dtype"
    if any(unit.rewriter.is_written(part) for part in inner.all_input_nodes):
        return "a read would move across a write"
    return None


def _flat(node: fx.Node, unit: Unit) -> list[fx.Node]:
    """The parts, those of the cats among them in place of these."""
    parts: Any = node.args[0]
    limit = max(MAX_PARTS, len(parts))
    flat: list[fx.Node] = []
    pending = [(part, node) for part in reversed(parts)]
    while pending:
        part, reader = pending.pop()
        is_cat = part.target is aten.cat.default and isinstance(part.args[0], (list, tuple))
        reason = _why_not_inside(part, reader, unit) if is_cat else None
        if reason is not None:
            unit.rewriter.refuse(reason)
        if not is_cat or reason is not None:
            flat.append(part)
        else:
            pending += [(inner, part) for inner in reversed(part.args[0])]
        if len(flat) + len(pending) > limit:
            unit.rewriter.refuse(f"the cat would have more than {limit} parts")
            return list(parts)
    return flat


def _is_nothing(part: fx.Node, node: fx.Node, dim: int) -> bool:
    """Whether a part takes up no place for certain."""
    value = part.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return False
    size = size_in_cat(part, node, dim)
    return isinstance(size, int) and size == 0
