"""What torch knows of symbolic sizes: guards, facts and bounds."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch._dynamo.source import LocalSource
from torch._guards import TracingContext, detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor

from xpu_graph.errors import NotCacheable


def _shape_env(values: Sequence[Any]) -> Any:
    first = next((value for value in values if isinstance(value, FakeTensor)), None)
    mode = detect_fake_mode(values) if first is None else first.fake_mode
    if mode is not None and mode.shape_env is not None:
        return mode.shape_env
    context = TracingContext.try_get()
    return context.fake_mode.shape_env if context is not None and context.fake_mode else None


def guard_count(values: Sequence[Any]) -> int:
    """How many guards and deferred assertions the shape environment of these fake values holds."""
    env = _shape_env(values)
    return len(env.guards) + env.num_deferred_runtime_asserts if env is not None else 0


def shape_facts(values: Sequence[Any]) -> list[str]:
    """What is known to hold of the symbolic inputs, each written in terms of ``L['t<number>']``.

    Guards about sizes that the graph does not take are left out: nothing in the graph asks them.

    Raises:
        NotCacheable: a size of the graph is made of one that the graph does not take.
    """
    sizes = [value for value in values if isinstance(value, torch.SymInt)]
    if not sizes:
        return []
    env = sizes[0].node.shape_env
    expressions = [env.simplify(size.node.expr) for size in sizes]
    own = {expression for expression in expressions if expression.is_Symbol}
    if any(not expression.free_symbols <= own for expression in expressions):
        raise NotCacheable("a size is made of one that the graph does not take")
    guards = [guard for guard in env.guards if env.simplify(guard.expr).free_symbols <= own]
    sources = [LocalSource(f"t{number}") for number in range(len(sizes))]
    return [f"({fact})" for fact in env.produce_guards(sizes, sources, guards=guards)]


def shape_guards(values: Sequence[Any], known: Collection[str] = ()) -> str | None:
    """What must hold of the symbolic inputs, as an expression; None if there is nothing.

    Args:
        values: the fake inputs of a graph.
        known: what ``shape_facts`` gave before; what is there is left out here.
    """
    return " and ".join(fact for fact in shape_facts(values) if fact not in known) or None


def evaluate_shape_guards(expression: str, values: Sequence[Any]) -> bool:
    """Whether a stored guard expression holds here; if it does, it becomes a guard of this program.

    Torch evaluates it as Python, so what is not plain arithmetic on sizes does not hold.

    Args:
        expression: what ``shape_guards`` gave when the artifact was made.
        values: the fake inputs of the graph at hand, in the same order as then.
    """
    env = _shape_env(values)
    symbols = [value for value in values if isinstance(value, torch.SymInt)]
    if env is None or not _is_arithmetic(expression):
        return False
    hints = [symbol.node.hint for symbol in symbols]
    if any(hint is None for hint in hints):
        return False
    try:
        holds = env.evaluate_guards_expression(expression, hints)
    except (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError):
        return False
    return bool(holds) and bool(env.evaluate_guards_expression(expression, symbols))


def _is_arithmetic(expression: str) -> bool:
    try:
        parts = list(ast.walk(ast.parse(expression, mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(
        isinstance(part, _ARITHMETIC)
        or (isinstance(part, ast.Name) and part.id in _GUARD_NAMES)
        or (
            isinstance(part, ast.Attribute)
            and isinstance(part.value, ast.Name)
            and (part.value.id == "math" or part.attr.lstrip("_").startswith("sym_"))
        )
        for part in parts
    )


_ARITHMETIC = (
    *(ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Call),
    *(ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.Constant, ast.Subscript, ast.Load),
)
_GUARD_NAMES = frozenset(
    {
        *("L", "math", "torch", "abs", "float", "int", "max", "min", "round"),
        *("IsNonOverlappingAndDenseIndicator", "cast_symbool_to_symint_guardless"),
    }
)


def symbol_ranges(size: torch.SymInt) -> list[tuple[Any, str, str]]:
    """The free symbols of a size, each with the bounds torch knows, in a fixed order."""
    known = size.node.shape_env.var_to_range
    free = sorted(size.node.expr.free_symbols, key=str)
    return [
        (s, str(known[s].lower), str(known[s].upper)) if s in known else (s, "", "") for s in free
    ]
