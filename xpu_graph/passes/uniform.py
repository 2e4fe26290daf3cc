"""What the graph says about the numbers in a tensor.

A value is *uniform* if it consists of one number: ``full`` and its relatives, a constant of equal
elements, and what views and casts make of these.

The signs of NaNs are not told apart anywhere: arithmetic does not define them.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import torch
from torch import fx

from xpu_graph import fx as graph_facts
from xpu_graph.fx import aten
from xpu_graph.passes.arguments import argument
from xpu_graph.passes.drafts import Call, Draft
from xpu_graph.passes.rewriter import Rewriter
from xpu_graph.stage import Unit
from xpu_graph.torch_compat import no_dispatch_modes

prims = torch.ops.prims

Number = bool | int | float | complex

MAX_LINKS = 8
"""How far up a chain is looked; it keeps the passes linear."""

MAX_CONSTANT_BYTES = 1 << 20
"""How large a constant may be whose elements are compared."""

CASTS = frozenset({aten._to_copy.default, prims.convert_element_type.default})

_FILLED_WITH: dict[Any, str | int] = {
    aten.zeros.default: 0,
    aten.zeros_like.default: 0,
    aten.new_zeros.default: 0,
    aten.zero.default: 0,
    aten.ones.default: 1,
    aten.ones_like.default: 1,
    aten.new_ones.default: 1,
    aten.full.default: "fill_value",
    aten.full_like.default: "fill_value",
    aten.new_full.default: "fill_value",
    aten.fill.Scalar: "value",
    aten.scalar_tensor.default: "s",
}
"""Operator -> the number it fills with, or the name of the argument that is it."""

FILLS = frozenset(_FILLED_WITH)

REARRANGEMENTS = frozenset(
    {
        aten._reshape_alias.default,
        aten._unsafe_view.default,
        aten.alias.default,
        aten.clone.default,
        aten.contiguous.default,
        aten.detach.default,
        aten.diagonal.default,
        aten.expand.default,
        aten.expand_copy.default,
        aten.flip.default,
        aten.lift_fresh.default,
        aten.lift_fresh_copy.default,
        aten.permute.default,
        aten.repeat.default,
        aten.reshape.default,
        aten.roll.default,
        aten.select.int,
        aten.slice.Tensor,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.t.default,
        aten.transpose.int,
        aten.unfold.default,
        aten.unsqueeze.default,
        aten.view.default,
    }
)
"""Operators whose result holds elements of their first argument and nothing else."""

SAME_NUMBERS = REARRANGEMENTS | CASTS
"""Operators whose result holds the numbers of their first argument, rounded at most."""

_FIRST = object()
_NUMBER_OF: dict[Any, Any] = {**_FILLED_WITH, **dict.fromkeys(SAME_NUMBERS, _FIRST)}
"""The same for all of them; one look-up, for hashing an operator is slow."""

_constants: weakref.WeakKeyDictionary[Rewriter, dict[str, Number | None]] = (
    weakref.WeakKeyDictionary()
)


def unwritten(operand: object, unit: Unit) -> fx.Node | None:
    """The operator call that gave an operand, if nothing writes to the result afterwards."""
    if (
        not isinstance(operand, fx.Node)
        or operand.op != "call_function"
        or unit.rewriter.is_written(operand)
    ):
        return None
    return operand


def known_scalar(operand: object, unit: Unit, links: int = MAX_LINKS) -> Number | None:
    """The one number an operand consists of, if it can be read off the graph.

    Args:
        operand: an argument of a call.
        unit: the graph.
        links: how many views and casts to look through.
    """
    if isinstance(operand, (bool, int, float, complex)):
        return operand
    if not isinstance(operand, fx.Node):
        return None
    number: Number | None = None
    if operand.op == "get_attr":
        number = _of_constant(operand, unit)
    elif operand.op == "call_function":
        kind = _NUMBER_OF.get(operand.target)
        if kind is None or (kind is _FIRST and not links):
            return None
        if kind is _FIRST:
            source = operand.args[0]
            number = known_scalar(source, unit, links - 1) if isinstance(source, fx.Node) else None
        else:
            filled = argument(operand, kind) if isinstance(kind, str) else kind
            number = filled if isinstance(filled, (bool, int, float, complex)) else None
    value = operand.meta.get("val")
    if (
        number is None
        or not isinstance(value, torch.Tensor)
        or value.layout != torch.strided
        or unit.rewriter.is_written(operand)
    ):
        return None
    return as_dtype(number, value.dtype)


def _of_constant(node: fx.Node, unit: Unit) -> Number | None:
    known = _constants.setdefault(unit.rewriter, {})
    name = str(node.target)
    if name not in known:
        known[name] = _only_element(graph_facts.attribute(unit.gm, name))
    return known[name]


def _only_element(tensor: Any) -> Number | None:
    """The number that all elements of a tensor are, to the last bit."""
    if (
        type(tensor) not in (torch.Tensor, torch.nn.Parameter)
        or tensor.layout != torch.strided
        or tensor.device.type != "cpu"
        or not 0 < tensor.numel() * tensor.element_size() <= MAX_CONSTANT_BYTES
    ):
        return None
    with no_dispatch_modes(), torch.no_grad():
        plain = tensor.resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        flat = plain.view(-1)
        elements = flat.view(torch.uint8).reshape(flat.numel(), -1)
        return flat[0].item() if bool((elements == elements[0]).all()) else None


def as_dtype(number: Number, dtype: torch.dtype) -> Number | None:
    """The number as a tensor of this dtype holds it: 0.5 in an integer tensor is 0.

    None where ``full`` would not take it, as 300 for uint8.
    """
    return _as_dtype(repr(number), number, dtype)


@functools.lru_cache(maxsize=1024, typed=True)
def _as_dtype(spelling: str, number: Number, dtype: torch.dtype) -> Number | None:
    """The same; ``spelling`` tells zeros of two signs apart."""
    try:
        with no_dispatch_modes():
            # of two elements, for a tensor of one takes what overflows, too
            return torch.full((2,), number, dtype=dtype, device="cpu")[0].item()
    except (RuntimeError, TypeError, OverflowError):
        return None


def same_number(left: Number, right: Number) -> bool:
    """Whether two numbers are of one kind and equal, to the sign of zero; NaN equals NaN."""
    return repr(left) == repr(right)


def call_full(call: Draft, value: torch.Tensor, number: Number) -> Call:
    """A tensor of one number, spelled in the one way that equal ones share.

    Args:
        call: where the call is added.
        value: has the shape, which must be static, the dtype and the device.
        number: as ``as_dtype`` gives it.
    """
    return call(aten.full.default, list(value.shape), number, **full_options(value))


def full_options(value: torch.Tensor) -> dict[str, Any]:
    """The keyword arguments of ``call_full``."""
    return {
        "dtype": value.dtype,
        "layout": torch.strided,
        "device": value.device,
        "pin_memory": False,
    }
