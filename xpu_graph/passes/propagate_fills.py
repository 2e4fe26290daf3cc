"""Constant propagation through tensors that consist of one number.

    zeros_like(x), ones(s), new_full(x, s, 1), scalar_tensor(2), ...    ->    full(shape, number)
    view(full), slice(full), repeat(full), cat([full, full]), ...       ->    full
    cast(full)                                                          ->    full
    full + full, full * 2, full < full, where(full, full, full), ...    ->    full

A ``full`` is spelled in one way, with dtype, layout and device, so that equal ones are found to be
equal, and depends on no other tensor. What is computed is what the operator itself gives on small
tensors of the same rank and dtype.

Left alone: symbolic sizes; views of a fill that others read, too (two would be made instead of
one); operators that are not rounded correctly on every device, and so might give another number
for another size; floating point that does not fit the integers it is cast to; complex arithmetic,
and complex numbers that cannot be written down; whatever would change stride or aliasing.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph import fx as graph_facts
from xpu_graph.config import XpuGraphConfig
from xpu_graph.fx import aten
from xpu_graph.passes.arguments import argument
from xpu_graph.passes.base import RewritePass
from xpu_graph.passes.stand_ins import fill_in
from xpu_graph.passes.uniform import (
    FILLS,
    MAX_LINKS,
    SAME_NUMBERS,
    Number,
    as_dtype,
    full_options,
    known_scalar,
    same_number,
)
from xpu_graph.stage import Unit
from xpu_graph.torch_compat import no_dispatch_modes

_DIVISIONS = frozenset({aten.div.Tensor, aten.div.Scalar})
_SUMS = frozenset({aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar})
_EXACT = frozenset(
    {
        *_DIVISIONS,
        *_SUMS,
        aten.abs.default,
        aten.bitwise_and.Tensor,
        aten.bitwise_and.Scalar,
        aten.bitwise_not.default,
        aten.bitwise_or.Tensor,
        aten.bitwise_or.Scalar,
        aten.bitwise_xor.Tensor,
        aten.bitwise_xor.Scalar,
        aten.eq.Scalar,
        aten.eq.Tensor,
        aten.ge.Scalar,
        aten.ge.Tensor,
        aten.gt.Scalar,
        aten.gt.Tensor,
        aten.le.Scalar,
        aten.le.Tensor,
        aten.logical_and.default,
        aten.logical_not.default,
        aten.logical_or.default,
        aten.logical_xor.default,
        aten.lt.Scalar,
        aten.lt.Tensor,
        aten.masked_fill.Scalar,
        aten.mul.Scalar,
        aten.mul.Tensor,
        aten.ne.Scalar,
        aten.ne.Tensor,
        aten.neg.default,
        aten.where.self,
    }
)
"""Operators that are exact, or that every device rounds to the nearest; division on CPU only."""

_JOINS = frozenset({aten.cat.default, aten.stack.default})


class PropagateFills(RewritePass):
    """Computes what consists of one number, and makes it where it is needed.

    By its name it runs when the passes that drop fills have: what is left is worth a spelling.
    """

    name = "propagate_fills"
    targets = FILLS | SAME_NUMBERS | _JOINS | _EXACT

    def __init__(self, config: XpuGraphConfig) -> None:
        super().__init__(config)
        self._made: dict[Any, fx.Node] = {}

    @override
    def candidates(self, unit: Unit, since: int) -> Iterable[fx.Node]:
        """What computes; what only rearranges, backwards, so that a chain goes at once; fills."""
        computing: list[fx.Node] = []
        rearranging: list[fx.Node] = []
        filling: list[fx.Node] = []
        for node in super().candidates(unit, since) if since else self._within_reach(unit):
            is_computing = node.target in _COMPUTING
            later = filling if node.target in FILLS else rearranging
            (computing if is_computing else later).append(node)
        return itertools.chain(computing, reversed(rearranging), filling)

    def _within_reach(self, unit: Unit) -> list[fx.Node]:
        """The targets that a number can get to: fills, and what reads them or a constant."""
        reached = dict.fromkeys(unit.rewriter.calls_of(FILLS, 0))
        pending = [*reached, *unit.gm.graph.find_nodes(op="get_attr", sort=False)]
        while pending:
            for user in pending.pop().users:
                if user not in reached and user.target in self.targets:
                    reached[user] = None
                    pending.append(user)
        return sorted(reached)

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return
        compute = _COMPUTING.get(node.target)
        if compute is not None:
            number = compute(node, unit)
        else:
            number = None if _is_kept(node, unit) else known_scalar(node, unit)
        if number is None or not _can_be_written(number) or not graph_facts.is_static(value):
            return
        shape, layout = tuple(value.shape), value.stride()
        key = (shape, layout, value.dtype, value.device, repr(number), unit.rewriter.section(node))
        if _is_canonical(node, number):
            self._made.setdefault(key, node)
        elif not self._is_made(node, key, unit):
            made = fill_in(node, number, unit)
            if made is not None:
                self._made[key] = made

    def _is_made(self, node: fx.Node, key: Any, unit: Unit) -> bool:
        """Take a fill from before that nothing can tell from this one; quicker than a new one."""
        rewriter = unit.rewriter
        made = self._made.get(key)
        return (
            made is not None
            and rewriter.is_alive(made)
            and made < node
            and not (rewriter.is_returned(node) or rewriter.is_returned(made))
            and rewriter.replace(node, made)
        )


def _is_canonical(node: fx.Node, number: Number) -> bool:
    """Whether the node is spelled as ``fill_in`` would spell it."""
    return (
        node.target is aten.full.default
        and len(node.args) == 2
        and isinstance(node.args[1], (bool, int, float, complex))
        and same_number(node.args[1], number)
        and node.kwargs == full_options(node.meta["val"])
    )


def _is_kept(node: fx.Node, unit: Unit) -> bool:
    """Whether a fill, a view or a cast is better left as it is, whatever it holds."""
    source = node.args[0]
    if node.kwargs.get("pin_memory"):
        return True
    if not isinstance(source, fx.Node) or node.target in FILLS:
        return False
    if _holds_constant(source):
        return True  # of what the module owns, constant folding keeps the result
    storages = unit.rewriter.memory.storages
    return len(source.users) > 1 and storages(node) == storages(source)  # two would be made


def _holds_constant(operand: Any) -> bool:
    """Whether an operand is a tensor that the module owns, seen through views and casts."""
    for _ in range(MAX_LINKS):
        if not isinstance(operand, fx.Node) or operand.target not in SAME_NUMBERS:
            break
        operand = operand.args[0]
    return isinstance(operand, fx.Node) and operand.op == "get_attr"


def _can_be_written(number: Number) -> bool:
    """Whether Python code gives the number back: ``complex(-0.0, 1)`` prints as ``(-0+1j)``."""
    if not isinstance(number, complex):
        return True
    try:
        return repr(ast.literal_eval(repr(number))) == repr(number)
    except ValueError:  # a part is no number, or infinite
        return False


def _joined(node: fx.Node, unit: Unit) -> Number | None:
    """The one number that all parts consist of."""
    parts = node.args[0]
    if not isinstance(parts, (list, tuple)) or not parts:
        return None
    dtype = node.meta["val"].dtype
    first: Number | None = None
    for part in parts:
        number = known_scalar(part, unit)
        held = None if number is None else as_dtype(number, dtype)
        if held is None or (first is not None and not same_number(first, held)):
            return None
        first = held
    return first


def _computed(node: fx.Node, unit: Unit) -> Number | None:
    """The number that an operator gives, from small tensors of the numbers it is given."""
    used = node.all_input_nodes
    numbers: list[Number] = []
    for operand in used:
        number = known_scalar(operand, unit)
        if number is None:
            return None
        numbers.append(number)
    values = [operand.meta["val"] for operand in (node, *used)]
    if any(value.dtype.is_complex or not graph_facts.is_static(value) for value in values):
        return None
    if node.target in _DIVISIONS and values[0].device.type != "cpu":
        return None  # some devices multiply by the reciprocal
    alpha = argument(node, "alpha") if node.target in _SUMS else 1
    if alpha != 1 or any(map(_holds_constant, used)):
        return None  # the product with alpha is rounded or not, as the kernel likes
    small: dict[fx.Node, torch.Tensor] = {}
    for operand, number, value in zip(used, numbers, values[1:], strict=True):
        # Two elements where there are more: a tensor of one is read as a scalar, without rounding.
        shape = [min(size, 2) for size in value.shape]
        with no_dispatch_modes():
            small[operand] = torch.full(shape, number, dtype=value.dtype)
    args, kwargs = fx.map_arg((node.args, node.kwargs), small.__getitem__)
    with no_dispatch_modes(), torch.no_grad():
        result: Any = node.target(*args, **kwargs)  # type: ignore[operator]
        numbers = result.flatten().tolist()
    if not numbers or result.dtype != values[0].dtype:
        return None
    first, *others = numbers
    return first if all(same_number(first, other) for other in others) else None


_COMPUTING: dict[Any, Callable[[fx.Node, Unit], Number | None]] = {
    **dict.fromkeys(_EXACT, _computed),
    **dict.fromkeys(_JOINS, _joined),
}
