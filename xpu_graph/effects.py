"""What a node may do besides computing its result: draw, write, assert, have effects."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import fx
from torch.utils import _pytree as pytree

from xpu_graph.fx import VENDOR_CASTS, aten, attribute
from xpu_graph.torch_compat import CHECKPOINT

_SIZE_ARITHMETIC = (
    "abs add and_ eq floordiv ge getitem gt index invert le lshift lt mod mul ne neg not_ or_ pos "
    "pow rshift sub truediv xor"
)
_SYMBOLIC_FUNCTIONS = frozenset(
    {
        torch.sym_float,
        torch.sym_int,
        torch.sym_ite,
        torch.sym_max,
        torch.sym_min,
        torch.sym_not,
        torch.sym_sum,
        *(getattr(operator, name) for name in _SIZE_ARITHMETIC.split()),
    }
)
_FUNCTIONAL_HIGHER_ORDER = frozenset(
    {
        "associative_scan",
        "auto_functionalized",
        "auto_functionalized_v2",
        "cond",
        "flex_attention",
        "invoke_subgraph",
        "map_impl",
        "scan",
        "triton_kernel_wrapper_functional",
        "while_loop",
    }
)
"""Higher-order operators that write to no argument; what is not listed may do anything."""

_TRUSTED_NAMESPACES = ("aten", "prims")
_COLLECTIVE_NAMESPACES = frozenset(
    {
        "c10d",
        "c10d_functional",
        "_c10d_functional",
        "_c10d_functional_autograd",
        "_dtensor",
        "symm_mem",
    }
)
"""Of operators that talk to other processes, and of those that wait for an answer."""

_KEEPS_STATISTICS = {
    aten._batch_norm_impl_index.default: "training",
    aten.batch_norm.default: "training",
    aten.cudnn_batch_norm.default: "training",
    aten.instance_norm.default: "use_input_stats",
    aten.miopen_batch_norm.default: "training",
    aten.native_batch_norm.default: "training",
}
"""Operators that write to their running statistics where a flag is set; their schemas hide it."""

_STATISTICS = ("running_mean", "running_var")

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


_NEVER_DRAWING = frozenset({aten._scaled_dot_product_flash_attention_for_cpu.default})
"""Tagged as random for the sake of a dropout that their kernels refuse."""


def is_random(node: fx.Node) -> bool:
    """Whether the node draws from a random generator."""
    return _draws(node.target)


def written_args(node: fx.Node) -> list[fx.Node]:
    """The nodes whose memory this node writes to.

    An operator's schema says so. What has no schema, and is not known to be functional, may write
    to everything it is given.
    """
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        opaque = node.op in ("call_module", "call_method") or (
            node.op == "call_function"
            and target not in _SYMBOLIC_FUNCTIONS
            and not _is_functional_higher_order(target)
        )
        return node.all_input_nodes if opaque and not _is_pure_checkpoint(node) else []
    facts = _facts(node, target)
    if facts.keeps_statistics is not None:
        return _written_statistics(node, target, facts.keeps_statistics)
    if not facts.is_mutable:
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


def _written_statistics(node: fx.Node, target: torch._ops.OpOverload, flag: str) -> list[fx.Node]:
    given = {
        argument.name: node.kwargs.get(
            argument.name, node.args[position] if position < len(node.args) else None
        )
        for position, argument in enumerate(target._schema.arguments)
    }
    if given[flag] is False:
        return []
    return [value for name in _STATISTICS if isinstance(value := given[name], fx.Node)]


def _is_pure_checkpoint(node: fx.Node) -> bool:
    """Whether it is a region to be computed again that writes to nothing."""
    return node.target is CHECKPOINT and not any(
        written_args(inner) for body in _subgraphs(node) for inner in body.graph.nodes
    )


def is_collective(node: fx.Node) -> bool:
    """Whether the node talks to other processes, or waits for what they send.

    The processes meet in the order of their calls, so all of them stay, the unused ones too: on
    another rank the graph may differ. Until its wait, a collective may read what it was given.
    """
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target.namespace in _COLLECTIVE_NAMESPACES


def is_wait(node: fx.Node) -> bool:
    """Whether the node waits for a collective; what it gives is the very tensor it was given."""
    target = node.target
    return (
        isinstance(target, torch._ops.OpOverload)
        and target.namespace in _COLLECTIVE_NAMESPACES
        and target._opname == "wait_tensor"
    )


def is_size_arithmetic(node: fx.Node) -> bool:
    """Whether the node computes with sizes, on the host; taking an item of a sequence counts."""
    return node.op == "call_function" and node.target in _SYMBOLIC_FUNCTIONS


def is_removable(node: fx.Node) -> bool:
    """Whether the node may go when nobody uses it.

    Random, mutating, effectful and asserting operators stay, and so do collectives, and what binds
    an unbacked symbol. A higher-order operator goes only if it is functional and nothing inside has
    to stay.
    """
    if node.op in ("placeholder", "output", "call_module", "call_method"):
        return False
    if node.op == "get_attr":
        return True
    if node.meta.get("unbacked_bindings"):
        return False
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        facts = _facts(node, target)
        if facts.keeps_statistics is not None and written_args(node):
            return False
        return not (_is_impure(node, target) if facts.is_impure is None else facts.is_impure)
    return target in _SYMBOLIC_FUNCTIONS or (
        _is_functional_higher_order(target)
        and not node.is_impure()
        and not any(_draws(argument) for argument in node.args)
        and all(
            is_removable(inner)
            for submodule in _subgraphs(node)
            for inner in submodule.graph.nodes
            if inner.op not in ("placeholder", "output")
        )
    )


def is_deterministic(node: fx.Node) -> bool:
    """Whether two calls with equal arguments give equal results and touch nothing else.

    Only torch's own operators are trusted to, and what vendors put in their place: a custom
    operator may count, log or draw.
    """
    if node.op != "call_function" or node.meta.get("unbacked_bindings"):
        return False
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return target in _SYMBOLIC_FUNCTIONS
    facts = _facts(node, target)
    if facts.keeps_statistics is not None and written_args(node):
        return False
    return facts.may_be_deterministic and not facts.is_impure


def is_ordered(node: fx.Node) -> bool:
    """Whether the node's place among its kind is part of the program: random, mutating, effects."""
    return node.op in ("call_function", "call_module", "call_method") and not is_removable(node)


def returns_nothing(target: torch._ops.OpOverload) -> bool:
    """Whether an operator gives no value: its schema ends in ``-> ()`` or ``-> None``."""
    return all(str(result.type) == "NoneType" for result in target._schema.returns)


def opens_section(node: fx.Node) -> bool:
    """Whether what lies on two sides of the node may run under other conditions.

    A custom operator that returns nothing may switch streams, or open or close a scope; and so may
    a function that is no operator, such as the switches of gradients and of autocast.
    """
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return _facts(node, target).opens_section
    return (
        node.op == "call_function"
        and target not in _SYMBOLIC_FUNCTIONS
        and not isinstance(target, torch._ops.HigherOrderOperator)
    )


def _draws(target: Any) -> bool:
    return (
        isinstance(target, torch._ops.OpOverload)
        and torch.Tag.nondeterministic_seeded in target.tags
        and target not in _NEVER_DRAWING
    )


def _is_functional_higher_order(target: Any) -> bool:
    return (
        isinstance(target, torch._ops.HigherOrderOperator)
        and str(target) in _FUNCTIONAL_HIGHER_ORDER
    )


class _Facts(NamedTuple):
    """What an operator's schema says, read once: every pass asks it of every node."""

    operator: torch._ops.OpOverload
    is_mutable: bool
    returns_nothing: bool
    opens_section: bool
    may_be_deterministic: bool
    is_impure: bool | None
    """None for a custom operator: an effect may be registered for it later."""
    keeps_statistics: str | None
    """The flag under which it writes to its running statistics."""


_known: dict[int, _Facts] = {}
"""By ``id``, as torch hashes operators slowly; a fact holds its operator, so the id stays its."""


def _facts(node: fx.Node, target: torch._ops.OpOverload) -> _Facts:
    """The facts about the operator that a node calls."""
    known = _known.get(id(target))
    if known is None:
        nothing = returns_nothing(target)
        trusted = target.namespace in _TRUSTED_NAMESPACES or str(target) in VENDOR_CASTS
        known = _known[id(target)] = _Facts(
            operator=target,
            is_mutable=target._schema.is_mutable,
            returns_nothing=nothing,
            opens_section=nothing and not trusted,
            may_be_deterministic=trusted and target not in _UNINITIALISED,
            is_impure=_is_impure(node, target) if trusted else None,
            keeps_statistics=_KEEPS_STATISTICS.get(target),
        )
    return known


def _is_impure(node: fx.Node, target: torch._ops.OpOverload) -> bool:
    """Whether an operator call draws, writes, asserts, communicates or has another effect."""
    return bool(
        _draws(target)
        or target._schema.is_mutable
        or returns_nothing(target)
        or is_collective(node)
        or node.is_impure(impure_random=False)
    )


def _subgraphs(node: fx.Node) -> Iterator[fx.GraphModule]:
    owner = node.graph.owning_module
    for used in node.all_input_nodes:
        if used.op == "get_attr" and owner is not None:
            value = attribute(owner, str(used.target))
            if isinstance(value, fx.GraphModule):
                yield value
