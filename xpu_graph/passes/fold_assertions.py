"""Runtime assertions that cannot fail.

    _assert_tensor_metadata(x, size, stride, dtype)    ->    nothing, where x has them
    _assert_scalar(True)                               ->    nothing
    _assert_scalar(s0 >= 2)                            ->    nothing, where the guards say so
    _assert_scalar(sym_size(x) >= 0)                   ->    nothing

Left alone: assertions about values (``_assert_async``), and about sizes that are known at run time
only: what is known of such a size is known because the assertion is there.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph import fx as graph_facts
from xpu_graph.fx import aten
from xpu_graph.passes.base import RewritePass
from xpu_graph.stage import Unit
from xpu_graph.torch_compat import statically_known_true

_METADATA = aten._assert_tensor_metadata.default
_SCALAR = aten._assert_scalar.default
_SIZES = frozenset({aten.sym_size.int, aten.sym_numel.default})


class FoldAssertions(RewritePass):
    """Removes assertions that the metadata of their arguments proves."""

    name = "fold_assertions"
    targets = frozenset({_METADATA, _SCALAR})

    @override
    def visit(self, node: fx.Node, unit: Unit) -> None:
        if is_proven(node):
            unit.rewriter.erase(node, proven=True)
        else:
            unit.rewriter.refuse("the assertion is not known to hold")


def is_proven(node: fx.Node) -> bool:
    """Whether the node is an assertion that holds for all inputs that pass the guards."""
    if node.target is _SCALAR:
        return _is_true(node.args[0])
    return node.target is _METADATA and _has_metadata(node)


def _is_true(condition: Any) -> bool:
    if not isinstance(condition, fx.Node):
        return bool(condition)
    if _is_size_at_least_zero(condition):
        return True
    value = condition.meta.get("val")
    if isinstance(value, bool):
        return value
    return (
        isinstance(value, torch.SymBool)
        and not graph_facts.is_unbacked(condition)
        and statically_known_true(value)
    )


def _is_size_at_least_zero(condition: fx.Node) -> bool:
    if condition.target is not operator.ge:
        return False
    size, least = condition.args
    return (
        isinstance(size, fx.Node)
        and size.target in _SIZES
        and isinstance(least, int)
        and least <= 0
    )


def _has_metadata(node: fx.Node) -> bool:
    tensor, *positional = node.args
    given: dict[str, Any] = dict(zip(("size", "stride", "dtype"), positional, strict=False))
    given.update(node.kwargs)
    value = tensor.meta.get("val") if isinstance(tensor, fx.Node) else None
    if not isinstance(value, torch.Tensor):
        return False
    has: dict[str, Any] = {"dtype": value.dtype, "device": value.device, "layout": value.layout}
    for name, wanted in given.items():
        if wanted is None:
            continue
        if name in has:
            if has[name] != wanted:
                return False
            continue
        if value.layout != torch.strided:
            return False
        mine = value.shape if name == "size" else value.stride()
        sizes = [n.meta.get("val") if isinstance(n, fx.Node) else n for n in wanted]
        if len(mine) != len(sizes) or not all(map(graph_facts.same_size, mine, sizes)):
            return False
    return True
