"""Fake values of calls: the geometry of a result, without its numbers."""

from __future__ import annotations

import operator
from contextlib import nullcontext
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from xpu_graph.effects import is_wait
from xpu_graph.fx import aten, fake_mode_of, is_static, same_size, storages_of
from xpu_graph.torch_compat import (
    FakeTensor,
    FakeTensorMode,
    call_factory,
    call_view,
    fake_contiguous,
    may_be_a_copy,
    refused_guards,
    suppressed_guards,
    uncached,
)


def run_fake(node: fx.Node, mode: FakeTensorMode | None) -> Any:
    """The fake value of a call node, from the fake values of its arguments."""
    args, kwargs = pytree.tree_map_only(
        fx.Node, lambda argument: argument.meta["val"], (node.args, node.kwargs)
    )
    return call_fake(node.target, args, kwargs, mode)


def call_fake(
    target: Any, args: Any, kwargs: Any, mode: FakeTensorMode | None, *, ask: bool = True
) -> Any:
    """Call an operator on fake values; adds no guard.

    Args:
        target: the operator.
        args: fake values.
        kwargs: the same by name.
        mode: their mode.
        ask: whether the operator may ask for facts about sizes that are not known, and is answered
            for the sizes that were traced. Right for what the program calls; a call that was
            not in the program has to do without.

    Raises:
        NeedsGuard: ``ask`` is False, and the operator asked.
    """
    if mode is None or target is operator.getitem:
        return target(*args, **kwargs)
    if not ask and id(target) in _VIEWS and _is_static_view(args, kwargs):
        return call_view(target, args[0], args[1:], mode)
    if not ask and target is aten.full.default and _is_static_full(args, kwargs):
        return call_factory(target, args, kwargs, mode)
    if not ask and target is aten.clone.default and _is_static_copy(args, kwargs):
        return fake_contiguous(args[0], mode)
    guards = suppressed_guards(mode) if ask else refused_guards(mode)
    keeps_offset = id(target) in _KEEP_OFFSET
    with mode, guards, torch.no_grad(), uncached(mode) if keeps_offset else nullcontext():
        return target(*args, **kwargs)


def refresh_values(graph: fx.Graph) -> None:
    """Mend the fake values that torch leaves wrong in a graph it has traced.

    The value of a view shares memory with what it is a view of: torch turns Python numbers into
    tensor arithmetic afterwards, and gives the new nodes fake values of their own; the views of
    what they replaced keep the old memory. What copies a whole storage has the storage offset of
    its operand, which torch's cache of fake results forgets. Waiting for a collective gives the
    very tensor that was waited for, where torch's fake value is a new one. What a partitioner puts
    in to draw the same random numbers again has no value.
    """
    mode = fake_mode_of(graph)
    for node in graph.nodes:
        target = node.target
        if target is _DRAW_AGAIN and "val" not in node.meta:
            node.meta["val"] = run_fake(node, mode)
            continue
        if id(target) in _KEEP_OFFSET:
            given, value = (n.meta["val"].storage_offset() for n in (node.args[0], node))
            if not same_size(given, value):
                node.meta["val"] = run_fake(node, mode)
            continue
        if not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable:
            continue
        if is_wait(node):
            node.meta["val"] = node.args[0].meta["val"]
            continue
        if may_be_a_copy(target) or not any(r.alias_info for r in target._schema.returns):
            continue
        sources = {storage for used in node.all_input_nodes for storage in storages_of(used)}
        if not sources.issuperset(storages_of(node)):
            node.meta["val"] = run_fake(node, mode)


_DRAW_AGAIN = torch.ops.higher_order.run_with_rng_state

_KEEP_OFFSET = {
    id(operator)
    for operator in (
        aten.as_strided_scatter.default,
        aten.copy.default,
        aten.diagonal_scatter.default,
        aten.select_scatter.default,
        aten.slice_scatter.default,
    )
}
"""What copies the whole storage of its first operand, and so has its storage offset."""

_VIEWS = {
    id(view)
    for view in (
        aten.alias.default,
        aten.detach.default,
        aten.expand.default,
        aten.permute.default,
        aten.select.int,
        aten.slice.Tensor,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.t.default,
        aten.transpose.int,
        aten.unsqueeze.default,
        aten.view.default,
    )
}
"""Views whose geometry follows from that of their operand and from numbers.

Torch's dispatch of a call on fake values takes some 100 us; most new calls of a rewrite are views.
"""


def _is_static_view(args: Any, kwargs: Any) -> bool:
    """Whether arguments are a strided fake tensor of static sizes, then numbers and lists."""
    first, *rest = args
    return (
        not kwargs
        and type(first) is FakeTensor
        and first.layout == torch.strided
        and is_static(first)
        and not first.is_conj()
        and not first.is_neg()
        and all(
            type(value) is int
            for given in rest
            for value in (given if isinstance(given, (list, tuple)) else (given,))
        )
    )


def _is_static_copy(args: Any, kwargs: Any) -> bool:
    """Whether arguments of ``clone`` ask for a contiguous copy of such a tensor."""
    plain = kwargs.get("memory_format") == torch.contiguous_format and len(kwargs) == 1
    return plain and len(args) == 1 and _is_static_view(args, {})


def _is_static_full(args: Any, kwargs: Any) -> bool:
    """Whether arguments of ``full`` are numbers, and name a device."""
    return (
        len(args) == 2
        and all(type(size) is int for size in args[0])
        and isinstance(args[1], (bool, int, float, complex))
        and isinstance(kwargs.get("device"), torch.device)
    )
