"""Which operators may be captured, and why others may not.

A capture records what is launched on the device and nothing that the host does: neither what it
reads, decides, counts or draws, nor what it copies from memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from xpu_graph import effects
from xpu_graph.fx import aten, tensors_of

_NAMESPACES = ("aten", "prims")
_COLLECTIVES = ("c10d", "_c10d_functional", "c10d_functional", "_c10d_functional_autograd")
_INDEXING = frozenset(
    {
        aten.index.Tensor,
        aten.index_put.default,
        aten.index_put_.default,
        aten._unsafe_index.Tensor,
        aten._unsafe_index_put.default,
    }
)
_PLAIN = (
    *(type(None), bool, int, float, complex, str, torch.dtype, torch.device, torch.layout),
    *(torch.memory_format, torch.SymInt, torch.SymFloat, torch.SymBool, slice, type(...)),
)


def device_of(gm: fx.GraphModule, kind: str) -> torch.device | None:
    """The device of the graph's first tensor of a type of device; None where there is none."""
    for node in gm.graph.nodes:
        for tensor in tensors_of(node):
            if tensor.device.type == kind:
                return tensor.device
    return None


def rebinds_memory(gm: fx.GraphModule) -> str | None:
    """The first operator that changes where a tensor's memory is, or how it is laid out.

    It would do so once, when it is captured.
    """
    for node in gm.graph.nodes:
        target = node.target
        if isinstance(target, OpOverload) and torch.Tag.inplace_view in target.tags:
            return str(target)
    return None


def refusals(
    device: torch.device | None, namespaces: Sequence[str], captures_random: bool
) -> Callable[[fx.Node, Sequence[torch.Tensor]], str | None]:
    """Makes the function that says why a call must not be captured.

    Args:
        device: the device that captures.
        namespaces: of operators that the device vouches for, beside torch's own.
        captures_random: whether the device draws anew at each replay.
    """

    def why_not(node: fx.Node, tensors: Sequence[torch.Tensor]) -> str | None:
        target = node.target
        if device is None:
            return "nothing in the graph is on the device"
        if not isinstance(target, OpOverload):
            return "nobody says what it does"
        if target.namespace in _COLLECTIVES:
            return "it talks to other processes"
        if target.namespace not in (*_NAMESPACES, *namespaces):
            return "a custom operator may do something on the host"
        if torch.Tag.cudagraph_unsafe in target.tags:
            return "it is marked as not to be captured"
        if torch.Tag.nondeterministic_seeded in target.tags and not captures_random:
            return "it draws from a random generator"
        if "val" not in node.meta:
            return "it has no fake value"
        if not tensors:
            return "it works on the host"
        elsewhere = next((t.device for t in tensors if t.device != device), None)
        if elsewhere is not None:
            return f"it works on {elsewhere}, too"
        if any(tensor.layout != torch.strided for tensor in tensors):
            return "a tensor is not strided"
        if node.meta.get("unbacked_bindings") or torch.Tag.data_dependent_output in target.tags:
            return "the host reads its result"
        if target in _INDEXING:
            return "a mask's size is read by the host" if _has_mask(node) else None
        if torch.Tag.dynamic_output_shape in target.tags:
            return "the size of its result depends on content"
        if effects.returns_nothing(target):
            return "it has no result"
        arguments = pytree.tree_leaves((node.args, dict(node.kwargs)))
        odd = next((a for a in arguments if not isinstance(a, (fx.Node, *_PLAIN))), None)
        if odd is not None:
            return f"it takes a {type(odd).__name__}"
        return None

    return why_not


def _has_mask(node: fx.Node) -> bool:
    indices: Any = node.args[1] if len(node.args) > 1 else node.kwargs.get("indices")
    return any(
        tensor.dtype in (torch.bool, torch.uint8)
        for index in pytree.tree_leaves(indices)
        if isinstance(index, fx.Node)
        for tensor in tensors_of(index)
    )
