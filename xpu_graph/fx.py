"""Graph facts that two passes share: storage, geometry, provenance."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from xpu_graph.torch_compat import (
    FakeTensor,
    FakeTensorMode,
    detect_fake_mode,
    free_unbacked_symbols,
    has_symbolic_sizes,
    storage_id,
)

aten = torch.ops.aten

VENDOR_CASTS = frozenset({"npu._npu_dtype_cast.default"})
"""What vendors put in the place of casts inside torch's operators; by name, they may be absent."""

PROVENANCE = (
    "stack_trace",
    "nn_module_stack",
    "source_fn_stack",
    "fwd_source_fn_stack",
    "original_aten",
    "from_node",
    "seq_nr",
    "custom",
    "partitioner_tag",
    "recompute",
    "ac_graph_id",
    "xpu_graph_made_by",
)
"""Metadata that says where a node comes from, and that a node in its place inherits."""


_MARKS = "xpu_graph_marks"


def mark(placeholder: fx.Node, name: str, value: Any) -> None:
    """Say something about an input that its fake value does not say; it enters the cache key.

    Args:
        placeholder: the input.
        name: ``"static"`` (its memory stays where it is: ``"given"`` for a parameter, a buffer or
            a tensor the user marked, ``"folded"`` for a result of the fold part), or a name that a
            backend uses, such as ``"dim_gears"``.
        value: plain data.
    """
    placeholder.meta[_MARKS] = {**marks(placeholder), name: value}


def marks(placeholder: fx.Node) -> dict[str, Any]:
    """What ``mark`` said about an input."""
    return placeholder.meta.get(_MARKS, {})  # type: ignore[no-any-return]


def attribute(module: torch.nn.Module, path: str) -> Any:
    """What a ``get_attr`` node of this module names."""
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value


def tensors_of(node: fx.Node) -> list[torch.Tensor]:
    """The tensors in a node's fake value, in order."""
    return tensors_in(node.meta.get("val"))


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in a fake value, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def fake_mode_of(graph: fx.Graph) -> FakeTensorMode | None:
    """The mode that a graph's fake values belong to."""
    for node in graph.nodes:
        tensors = tensors_of(node)
        if tensors:
            # torch would look at the tracing context first, whose mode may be another one
            first = next((tensor for tensor in tensors if isinstance(tensor, FakeTensor)), None)
            return detect_fake_mode(tensors) if first is None else first.fake_mode
    return None


def storages_of(node: fx.Node) -> list[int | None]:
    """The storages of the tensors in a node's fake value, in order."""
    return [storage_id(tensor) for tensor in tensors_of(node)]


def output_leaves(graph: fx.Graph) -> list[fx.Node]:
    """The nodes that the graph returns, in order, repeated ones repeated."""
    leaves = pytree.tree_leaves(graph.output_node().args[0])
    return [leaf for leaf in leaves if isinstance(leaf, fx.Node)]


def placeholders(graph: fx.Graph) -> list[fx.Node]:
    """The inputs of the graph, in order."""
    return list(graph.find_nodes(op="placeholder"))


def same_size(left: Any, right: Any) -> bool:
    """Whether two sizes are equal for certain; asks nothing that would become a guard."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    if isinstance(left, torch.SymInt) and isinstance(right, torch.SymInt):
        return bool(left.node.expr == right.node.expr)
    symbol, number = (left, right) if isinstance(left, torch.SymInt) else (right, left)
    return isinstance(symbol, torch.SymInt) and bool(symbol.node.expr == number)


def is_static(tensor: torch.Tensor) -> bool:
    """Whether no size, stride or offset of the tensor is symbolic."""
    return not has_symbolic_sizes(tensor)


def is_unbacked(node: fx.Node) -> bool:
    """Whether a size in the node's fake value is known at run time only, such as a count."""
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return any(
        (isinstance(leaf, torch.Tensor) and not is_static(leaf))
        or isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool))
        for leaf in leaves
    ) and bool(free_unbacked_symbols(leaves))


def geometry_difference(
    old: torch.Tensor,
    new: torch.Tensor,
    *,
    ignore_offset: bool = False,
    ignore_layout: bool = False,
) -> str | None:
    """What a reader could tell apart about two tensors of equal content; None for nothing.

    Args:
        old: a tensor.
        new: another.
        ignore_offset: do not compare storage offsets. Torch's cache of fake results forgets them.
        ignore_layout: do not compare strides and storage offsets.
    """
    if _has_same_geometry(old, new):
        return None
    if type(old) is not type(new):
        return f"a {type(old).__name__} would become a {type(new).__name__}"
    if len(old.shape) != len(new.shape) or not all(map(same_size, old.shape, new.shape)):
        return f"shape {tuple(old.shape)} would become {tuple(new.shape)}"
    for name in ("dtype", "device", "layout"):
        if getattr(old, name) != getattr(new, name):
            return f"{name} {getattr(old, name)} would become {getattr(new, name)}"
    if old.layout != torch.strided:
        return None
    if not ignore_layout and not all(map(same_size, old.stride(), new.stride())):
        return f"stride {old.stride()} would become {new.stride()}"
    if not (ignore_offset or ignore_layout) and not same_size(
        old.storage_offset(), new.storage_offset()
    ):
        return "the storage offset would change"
    if old.is_conj() != new.is_conj() or old.is_neg() != new.is_neg():
        return "a lazy conjugate or negative bit would change"
    return None


def _has_same_geometry(old: torch.Tensor, new: torch.Tensor) -> bool:
    """Whether two tensors are equal in all of it; quick, and False where sizes are symbolic."""
    return (
        type(old) is type(new)
        and is_static(old)
        and is_static(new)
        and old.shape == new.shape
        and old.dtype == new.dtype
        and old.layout == new.layout == torch.strided
        and old.stride() == new.stride()
        and old.storage_offset() == new.storage_offset()
        and old.device == new.device
        and old.is_conj() == new.is_conj()
        and old.is_neg() == new.is_neg()
    )


def has_plain_strides(value: torch.Tensor) -> bool:
    """Whether dimensions of size 1 have the stride that they have in a tensor of its own.

    Operators treat other strides on real tensors in other ways than on fake ones.
    """
    following: Any = 1
    for size, stride in zip(reversed(value.shape), reversed(value.stride()), strict=True):
        if isinstance(size, int) and size == 1 and not same_size(stride, following):
            return False
        following = size * stride
    return True


def value_difference(old: Any, new: Any, *, ignore_offset: bool = False) -> str | None:
    """The same for whole fake values: tensors, numbers and sequences of them."""
    if isinstance(old, torch.Tensor) and isinstance(new, torch.Tensor):
        return geometry_difference(old, new, ignore_offset=ignore_offset)
    old_leaves, old_spec = pytree.tree_flatten(old)
    new_leaves, new_spec = pytree.tree_flatten(new)
    if len(old_leaves) != len(new_leaves) or str(old_spec) != str(new_spec):
        return "the structure of the result would change"
    for left, right in zip(old_leaves, new_leaves, strict=True):
        if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
            difference = geometry_difference(left, right, ignore_offset=ignore_offset)
            if difference:
                return difference
        elif isinstance(left, (int, torch.SymInt)) and isinstance(right, (int, torch.SymInt)):
            if type(left) is not type(right) or not same_size(left, right):
                return f"the number {left} would become {right}"
        elif isinstance(left, torch.Tensor) or isinstance(right, torch.Tensor):
            return "a tensor would become something else"
        elif type(left) is not type(right) or str(left) != str(right):
            return f"{left!r} would become {right!r}"
    return None


def user_line(node: fx.Node) -> str:
    """Where the user's program made a node, as an end of a sentence; empty if that is not known."""
    trace = node.meta.get("stack_trace")
    lines = [line.strip() for line in trace.splitlines() if line.strip()] if trace else []
    frames = [i for i, line in enumerate(lines) if line.startswith("File ")]
    if not frames:
        return ""
    place = lines[frames[-1]].removeprefix("File ")
    code = "".join(f": {line}" for line in lines[frames[-1] + 1 : frames[-1] + 2])
    return f" (from {place}{code})"


def has_provenance(node: fx.Node) -> bool:
    """Whether the node says where it comes from."""
    meta = node.meta
    return bool(meta.get("stack_trace")) or any(meta.get(key) for key in PROVENANCE)


def inherit_provenance(node: fx.Node, source: fx.Node) -> None:
    """Give a new node the origin of the one it stands in for."""
    for key in PROVENANCE:
        if key in source.meta:
            node.meta[key] = source.meta[key]


def shallow_copy(gm: fx.GraphModule) -> fx.GraphModule:
    """A graph of its own over the same tensors; safe while a fake or tracing mode is active."""
    return fx.GraphModule(gm, copy.deepcopy(gm.graph))
