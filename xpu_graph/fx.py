"""Graph facts that two passes share: purity, storage, geometry, fake values, provenance."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from xpu_graph.torch_compat import FakeTensorMode, storage_id, suppressed_guards

aten = torch.ops.aten

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
)
"""Metadata that says where a node comes from, and that a node in its place inherits."""

_SYMBOLIC_FUNCTIONS = frozenset(
    {
        torch.sym_float,
        torch.sym_int,
        torch.sym_ite,
        torch.sym_max,
        torch.sym_min,
        torch.sym_not,
        torch.sym_sum,
        *(getattr(operator, name) for name in operator.__all__ if not name.startswith("i")),
    }
)
_UNINITIALISED = frozenset(
    {
        aten.empty.memory_format,
        aten.empty_like.default,
        aten.empty_permuted.default,
        aten.empty_strided.default,
        aten.new_empty.default,
        aten.new_empty_strided.default,
    }
)


# --- what an operator may do ----------------------------------------------------------------------


def is_random(node: fx.Node) -> bool:
    """Whether the node draws from a random generator."""
    target = node.target
    return (
        isinstance(target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded in target.tags
    )


def written_args(node: fx.Node) -> list[fx.Node]:
    """The nodes whose memory this node writes to, by its schema."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or not target._schema.is_mutable:
        return []
    written: list[fx.Node] = []
    for position, argument in enumerate(target._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        given = node.kwargs.get(argument.name)
        if given is None and position < len(node.args):
            given = node.args[position]
        written += [leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, fx.Node)]
    return written


def is_removable(node: fx.Node) -> bool:
    """Whether the node may go when nobody uses it.

    Random, mutating, effectful and asserting operators stay, and so does what binds an unbacked
    symbol. A higher-order operator goes only if nothing in its subgraphs has to stay.
    """
    if node.op in ("placeholder", "output", "call_module", "call_method"):
        return False
    if node.op == "get_attr":
        return True
    if node.meta.get("unbacked_bindings"):
        return False
    target = node.target
    if isinstance(target, torch._ops.HigherOrderOperator):
        return not node.is_impure() and all(
            is_removable(inner)
            for submodule in _subgraphs(node)
            for inner in submodule.graph.nodes
            if inner.op not in ("placeholder", "output")
        )
    if target in _SYMBOLIC_FUNCTIONS:
        return True
    return isinstance(target, torch._ops.OpOverload) and not is_random(node) and not _impure(node)


def is_deterministic(node: fx.Node) -> bool:
    """Whether two calls with equal arguments give equal results and touch nothing else.

    Only torch's own operators are trusted to: a custom operator may count, log or draw.
    """
    if node.op != "call_function" or node.meta.get("unbacked_bindings"):
        return False
    target = node.target
    if target in _SYMBOLIC_FUNCTIONS:
        return True
    return (
        isinstance(target, torch._ops.OpOverload)
        and target.namespace in ("aten", "prims")
        and target not in _UNINITIALISED
        and not is_random(node)
        and not _impure(node)
    )


def is_ordered(node: fx.Node) -> bool:
    """Whether the node's place among its kind is part of the program: random, mutating, effects."""
    return (
        node.op in ("call_function", "call_module", "call_method")
        and node.target not in _SYMBOLIC_FUNCTIONS
        and (is_random(node) or not is_removable(node))
    )


def _impure(node: fx.Node) -> bool:
    target = node.target
    return (
        isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable
    ) or node.is_impure()


def _subgraphs(node: fx.Node) -> Iterator[fx.GraphModule]:
    owner = node.graph.owning_module
    for used in node.all_input_nodes:
        if used.op == "get_attr" and owner is not None:
            value = attribute(owner, str(used.target))
            if isinstance(value, fx.GraphModule):
                yield value


# --- values ---------------------------------------------------------------------------------------


def attribute(module: torch.nn.Module, path: str) -> Any:
    """What a ``get_attr`` node of this module names."""
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value


def tensors_of(node: fx.Node) -> list[torch.Tensor]:
    """The tensors in a node's fake value, in order."""
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


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
    return all(
        isinstance(size, int) for size in (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    )


def geometry_difference(old: torch.Tensor, new: torch.Tensor) -> str | None:
    """What a reader could tell apart about two tensors of equal content; None for nothing."""
    for name in ("dtype", "device", "layout"):
        if getattr(old, name) != getattr(new, name):
            return f"{name} {getattr(old, name)} would become {getattr(new, name)}"
    if type(old) is not type(new):
        return f"a {type(old).__name__} would become a {type(new).__name__}"
    if len(old.shape) != len(new.shape) or not all(map(same_size, old.shape, new.shape)):
        return f"shape {tuple(old.shape)} would become {tuple(new.shape)}"
    if old.layout != torch.strided:
        return None
    if not all(map(same_size, old.stride(), new.stride())):
        return f"stride {old.stride()} would become {new.stride()}"
    if not same_size(old.storage_offset(), new.storage_offset()):
        return "the storage offset would change"
    if old.is_conj() != new.is_conj() or old.is_neg() != new.is_neg():
        return "a lazy conjugate or negative bit would change"
    return None


def value_difference(old: Any, new: Any) -> str | None:
    """The same for whole fake values: tensors, numbers and sequences of them."""
    old_leaves, old_spec = pytree.tree_flatten(old)
    new_leaves, new_spec = pytree.tree_flatten(new)
    if len(old_leaves) != len(new_leaves) or str(old_spec) != str(new_spec):
        return "the structure of the result would change"
    for left, right in zip(old_leaves, new_leaves, strict=True):
        if isinstance(left, torch.Tensor) and isinstance(right, torch.Tensor):
            difference = geometry_difference(left, right)
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


def run_fake(node: fx.Node, mode: FakeTensorMode | None) -> Any:
    """The fake value of a call node, from the fake values of its arguments."""
    args, kwargs = pytree.tree_map_only(
        fx.Node, lambda argument: argument.meta["val"], (node.args, node.kwargs)
    )
    return call_fake(node.target, args, kwargs, mode)


def call_fake(target: Any, args: Any, kwargs: Any, mode: FakeTensorMode | None) -> Any:
    """Call an operator on fake values; adds no guard."""
    if mode is None:
        return target(*args, **kwargs)
    with mode, suppressed_guards(mode), torch.no_grad():
        return target(*args, **kwargs)


def inherit_provenance(node: fx.Node, source: fx.Node) -> None:
    """Give a new node the origin of the one it stands in for."""
    for key in PROVENANCE:
        if key in source.meta:
            node.meta[key] = source.meta[key]


def shallow_copy(gm: fx.GraphModule) -> fx.GraphModule:
    """A graph of its own over the same tensors; safe while a fake or tracing mode is active."""
    return fx.GraphModule(gm, copy.deepcopy(gm.graph))
