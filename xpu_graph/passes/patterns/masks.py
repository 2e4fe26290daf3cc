"""Whether a mask leaves something to see in every row.

Where the scores of a row are -inf throughout, softmax gives NaN, and a fused kernel zeros or
something else. A mask that is made of finite numbers hides nothing for good.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from xpu_graph.fx import aten, attribute
from xpu_graph.passes.uniform import MAX_CONSTANT_BYTES, REARRANGEMENTS, as_dtype, known_scalar
from xpu_graph.stage import Unit
from xpu_graph.torch_compat import no_dispatch_modes

_MOVED = REARRANGEMENTS | {
    aten.expand.default,
    aten.permute.default,
    aten.select.int,
    aten.slice.Tensor,
    aten.squeeze.dim,
    aten.t.default,
    aten.transpose.int,
    aten.unsqueeze.default,
    aten.view.default,
}
_LINKS = 16
_UNKNOWN = "nothing shows that the mask leaves something to see in every row"


def why_not_open(unit: Unit, mask: Any, seen: Any, hides: Any, hidden: Any) -> str | None:
    """Why a row of the scores might become -inf throughout; None if none can.

    Args:
        unit: the graph.
        mask: what is added to the scores; None for nothing.
        seen: a boolean mask of what keeps its score; None for none.
        hides: a boolean mask of what loses its score; None for none.
        hidden: what stands where the score is not kept.
    """
    if isinstance(mask, fx.Node):
        numbers = _numbers(mask, unit, _LINKS)
        is_half = mask.meta["val"].dtype in _HALVES
        if numbers is None or (is_half and not all(map(_is_alike_in_halves, numbers))):
            return None if _is_open_constant(mask, unit, is_half) else _UNKNOWN
        return None if all(map(math.isfinite, numbers)) else _UNKNOWN
    if seen is None and hides is None:
        return None
    number = known_scalar(hidden, unit)
    if isinstance(number, (int, float)) and math.isfinite(number):
        return None
    return _UNKNOWN


def why_not_hiding(unit: Unit, dtype: Any, seen: Any, hides: Any, hidden: Any) -> str | None:
    """Why a mask that is added might give others than a number in the place of scores does.

    Beside a score that is seen, both must hide; where a row is hidden throughout, its scores are
    alike in the one way, and must be in the other, which float16 has no number for.

    Args:
        unit: the graph.
        dtype: that of the mask that would be added.
        seen: a boolean mask of what keeps its score; None for none.
        hides: a boolean mask of what loses its score; None for none.
        hidden: what stands where the score is not kept.
    """
    if seen is None and hides is None:
        return None
    number = known_scalar(hidden, unit)
    if not isinstance(number, (int, float)) or number > _HIDING:
        return "what takes the place of scores does not hide them"
    if dtype != torch.float16 or _sees_in_every_row(seen, hides, unit):
        return None
    return "a row that is hidden throughout is not even in float16"


def _sees_in_every_row(seen: Any, hides: Any, unit: Unit) -> bool:
    """Whether a boolean mask is a constant that leaves something to see in every row."""
    mask = hides if seen is None else seen
    tensor = _constant(mask, unit) if isinstance(mask, fx.Node) else None
    if tensor is None or not tensor.dim():
        return False
    with no_dispatch_modes(), torch.no_grad():
        return bool((tensor if hides is None else ~tensor).any(-1).all())


_HALVES = (torch.float16, torch.bfloat16)
_NEARLY_NOTHING = -128.0


def _is_alike_in_halves(number: float) -> bool:
    """Whether adding a number rounds alike in half precision and in the float32 of kernels.

    In half precision scores vanish beside -1e4, and a row that is hidden throughout becomes even;
    in float32 they do not. Beside the least number of bfloat16 they vanish in both.
    """
    return number >= _NEARLY_NOTHING or number <= -1e30


_HIDING = -9e3
"""Programs hide with -1e4, which bfloat16 rounds: its weight is zero beside any common score."""


def _numbers(node: fx.Node, unit: Unit, links: int) -> set[float] | None:
    """All numbers that the elements of a tensor may be; None where they cannot be told."""
    number = known_scalar(node, unit)
    if isinstance(number, (int, float)):
        return {float(number)}
    if links == 0 or node.op != "call_function" or unit.rewriter.is_written(node):
        return None
    if node.target is aten.where.self:
        sources: list[Any] = list(node.args[1:])
    elif node.target in _MOVED or node.target is aten._to_copy.default:
        sources = [node.args[0]]
    else:
        return None
    found: set[float] = set()
    for source in sources:
        numbers = _numbers(source, unit, links - 1) if isinstance(source, fx.Node) else None
        if numbers is None:
            return None
        found |= numbers
    dtype = node.meta["val"].dtype
    rounded = [as_dtype(one, dtype) if math.isfinite(one) else one for one in found]
    return {float(one) if isinstance(one, (int, float)) else math.inf for one in rounded}


def _is_open_constant(mask: fx.Node, unit: Unit, is_half: bool) -> bool:
    """Whether a tensor of the graph has something to see in every row, or nothing infinite."""
    moved = list(_moves(mask))
    tensor = _constant(moved[-1], unit)
    if tensor is None or any(map(unit.rewriter.is_written, moved)):
        return False
    rows_stay = all(node.target in _OF_ROWS for node in moved[:-1]) and (
        tensor.dim() > 0 and 1 < tensor.shape[-1] == mask.meta["val"].shape[-1]
    )
    with no_dispatch_modes(), torch.no_grad():
        if not is_half and bool(tensor.isfinite().all()):
            return True
        least = _NEARLY_NOTHING if is_half else -math.inf
        return rows_stay and bool((tensor.amax(-1) > least).all())


_OF_ROWS = frozenset({aten.alias.default, aten.expand.default, aten.unsqueeze.default})
"""Operators that leave rows as they are, where the last dimension keeps its size above one."""


def _constant(node: fx.Node, unit: Unit) -> torch.Tensor | None:
    """A tensor of the graph, where it is not too large to be looked through."""
    if node.op != "get_attr" or unit.rewriter.is_written(node):
        return None
    tensor = attribute(unit.gm, str(node.target))
    if not isinstance(tensor, torch.Tensor) or tensor.is_meta:
        return None
    is_small = tensor.numel() * tensor.element_size() <= 64 * MAX_CONSTANT_BYTES
    return tensor if is_small else None


def _moves(node: fx.Node) -> Iterator[fx.Node]:
    yield node
    while node.target in _MOVED and isinstance(node.args[0], fx.Node):
        node = node.args[0]
        yield node
