"""Patterns of users: a function, and another that takes its place where it is found.

    @register_this_as_plugin_pattern((torch.randn(4, 8), torch.randn(4, 8)), fused, Target.none)
    def silu_and_multiply(gate, up):
        return torch.nn.functional.silu(gate) * up

They are looked for in graphs for inference, after the passes have brought these into their form; or
with ``is_training=True`` in programs that need gradients, before these are differentiated.
Patterns are kept for the whole process; ``enable_plugin_patterns()`` keeps them for a block. A
program that was compiled before a pattern was registered is compiled again only when torch is told
to (``torch.compiler.reset()``).
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from xpu_graph.config import XpuGraphConfig
from xpu_graph.errors import ConfigError, NotCacheable, PassError
from xpu_graph.identity import identity_text
from xpu_graph.passes.patterns.check_gradients import compare_gradients
from xpu_graph.passes.patterns.check_pair import check_signatures, compare_on_examples, name_of
from xpu_graph.passes.patterns.match import Matcher, contains
from xpu_graph.passes.patterns.pattern import Condition, Pattern, PatternPass, pass_of
from xpu_graph.passes.patterns.template import is_number, templates_of
from xpu_graph.stage import Stage
from xpu_graph.target import Target

_F = TypeVar("_F", bound=Callable[..., Any])

_lock = threading.Lock()
_registered: list[type[PatternPass]] = []
_functions: dict[type[PatternPass], tuple[str, Callable[..., Any]]] = {}
"""Pattern -> the name and the function that it is deregistered by."""

_last: list[type[PatternPass]] = []

_FIRST = 1000
"""More benefit than any structure has: what a user registers comes first."""


def plugin_patterns() -> list[type[PatternPass]]:
    """The passes of all registered patterns, in the order they were registered."""
    with _lock:
        return list(_registered)


def register_plugin_pattern(
    eager_func: Callable[..., Any],
    example_inputs: Sequence[Any],
    replacement: Callable[..., Any],
    target: Target | str,
    extra_checks: Sequence[Callable[..., bool]] | None = None,
    is_training: bool = False,
    postfix: str | None = None,
    ignore_literal: bool = False,
    verify: bool = False,
) -> None:
    """Look for what a function computes, and let another function compute it.

    Args:
        eager_func: what to look for: a function of tensors, and of numbers that are captured.
        example_inputs: one an argument. Tensors show the rank; their sizes and dtypes do not
            matter. A number is found as whatever number stands there; anything else as it is.
        replacement: a function of the same parameters, with results of the same dtype, shape and
            strides; it is called with fake tensors, and may call custom operators.
        target: the target that the pattern is for.
        extra_checks: functions of the matched inputs (fake tensors, numbers) that say True where
            the pattern applies, and False where it does not.
        is_training: whether it is looked for in programs that are going to be differentiated, and
            not in graphs for inference. It is then found before differentiation, so that gradients
            are those of the replacement: of the operators that it calls.
        postfix: added to the name, ``module-function``, with a hyphen.
        ignore_literal: whether any number fits where the function has one.
        verify: compute both functions on the example inputs, which must agree; with
            ``is_training`` also the gradients of the floating-point ones.

    Raises:
        ConfigError: the functions and the example inputs do not fit together, the function cannot
            be looked for, the replacement has no gradient where one is needed, or ``verify`` found
            a difference.
    """
    _register(
        eager_func,
        example_inputs,
        replacement,
        target,
        extra_checks,
        is_training,
        postfix,
        ignore_literal,
        verify,
        name_of(eager_func),
    )


def register_this_as_plugin_pattern(
    example_inputs: Sequence[Any],
    replacement: Callable[..., Any],
    target: Target | str,
    extra_checks: Sequence[Callable[..., bool]] | None = None,
    is_training: bool = False,
    argument_elimination: Callable[..., tuple[Sequence[Any], dict[str, Any]]] | None = None,
    postfix: str | None = None,
    ignore_literal: bool = False,
    verify: bool = False,
) -> Callable[[_F], _F]:
    """The same as a decorator of the function to look for, which it leaves as it is.

    Args:
        example_inputs: as for ``register_plugin_pattern``.
        replacement: the same.
        target: the same.
        extra_checks: the same.
        is_training: the same.
        argument_elimination: a function of fewer parameters that returns the positional and the
            keyword arguments for both functions; examples and checks are then of its parameters.
        postfix: the same.
        ignore_literal: the same.
        verify: the same.

    Raises:
        ConfigError: when it decorates, for the reasons given there.
    """

    def decorate(function: _F) -> _F:
        pattern: Callable[..., Any] = function
        other = replacement
        if argument_elimination is not None:
            pattern = _with_fewer(function, argument_elimination)
            other = _with_fewer(replacement, argument_elimination)
        _register(
            pattern,
            example_inputs,
            other,
            target,
            extra_checks,
            is_training,
            postfix,
            ignore_literal,
            verify,
            name_of(function),
        )
        return function

    return decorate


def register_this_as_pattern_constraint(function: _F) -> _F:
    """Let the pattern that was registered last apply only where a function says True.

    Args:
        function: of the same parameters as the pattern; it is given what was matched.

    Raises:
        ConfigError: no pattern was registered, or it has other parameters.
    """
    with _lock:
        if not _last or _last[0] not in _functions:
            raise ConfigError(
                f"register_this_as_pattern_constraint: {name_of(function)} is for the pattern "
                "that was registered last, and there is none"
            )
        pattern = _last[0]
    expected = inspect.signature(_functions[pattern][1]).parameters
    if list(inspect.signature(function).parameters) != list(expected):
        raise ConfigError(
            f"register_this_as_pattern_constraint: {name_of(function)} takes "
            f"{inspect.signature(function)}, the pattern {pattern.name!r} {list(expected)}"
        )
    pattern.pattern.conditions.append(_condition(function, pattern.name))
    pattern.pattern.identity = _identity(pattern.pattern.identity, function)
    return function


def deregister_plugin_patterns(
    func_or_func_name: Callable[..., Any] | str, target: Target | str | None = None
) -> None:
    """Forget the patterns of a function.

    Args:
        func_or_func_name: the function, or its name, ``module-function``.
        target: those of one target alone.

    Raises:
        ConfigError: neither a function nor a name.
    """
    if not callable(func_or_func_name) and not isinstance(func_or_func_name, str):
        raise ConfigError(
            f"deregister_plugin_patterns takes a function or its name, not {func_or_func_name!r}"
        )
    name = func_or_func_name if isinstance(func_or_func_name, str) else name_of(func_or_func_name)
    only = None if target is None else Target(target)
    with _lock:
        for pattern in list(_registered):
            if _functions[pattern][0] == name and only in (None, pattern.pattern.target):
                _registered.remove(pattern)
                del _functions[pattern]


@contextmanager
def enable_plugin_patterns() -> Iterator[None]:
    """Forget, at the end of the block, the patterns that were registered in it."""
    with _lock:
        before = set(_registered)
    try:
        yield
    finally:
        with _lock:
            for pattern in [p for p in _registered if p not in before]:
                _registered.remove(pattern)
                del _functions[pattern]


def _register(
    function: Callable[..., Any],
    examples: Sequence[Any],
    replacement: Callable[..., Any],
    target: Target | str,
    extra_checks: Sequence[Callable[..., bool]] | None,
    is_training: bool,
    postfix: str | None,
    ignore_literal: bool,
    verify: bool,
    handle: str,
) -> None:
    name = f"{handle}-{postfix}" if postfix else handle
    where = f"pattern {name!r}"
    only = Target(target)
    checks = [extra_checks] if callable(extra_checks) else list(extra_checks or ())
    check_signatures(function, replacement, checks, examples, where)
    simplify = None if is_training else _simplify
    templates = templates_of(function, examples, simplify, where, is_training)
    if is_training:
        compare_gradients(function, replacement, examples, where, numbers=verify)
    else:
        compare_on_examples(function, replacement, examples, where, numbers=verify)
    if any(contains(found, replacement, examples, where, is_training) for found in templates):
        raise ConfigError(f"{where}: the replacement contains the pattern, which would never end")
    identity: str | None = f" for {only.value}"
    for part in (function, replacement, *checks):
        identity = _identity(identity, part)
    pattern = Pattern(
        name=name,
        shapes=lambda: [Matcher(t, ignore_literals=ignore_literal) for t in templates],
        replacement=replacement,
        identity=_identity(identity, _described(examples), ignore_literal),
        conditions=[_condition(check, name) for check in checks],
        target=only,
        stages=frozenset({Stage.pregrad if is_training else Stage.inference}),
        benefit=_FIRST + len(templates[-1].calls),
        literals={
            position: value
            for position, value in enumerate(examples)
            if not isinstance(value, torch.Tensor) and not is_number(value)
        },
    )
    made = pass_of(pattern)
    with _lock:
        if any(p.name == name and p.pattern.target == only for p in _registered):
            raise ConfigError(
                f"{where} is registered for target {only.value!r} already; give another postfix=, "
                "or deregister the other one"
            )
        _registered.append(made)
        _functions[made] = (handle, function)
        _last[:] = [made]


def _with_fewer(
    function: Callable[..., Any], fewer: Callable[..., tuple[Sequence[Any], dict[str, Any]]]
) -> Callable[..., Any]:
    """A function of the parameters of another one, which says what to call the first with."""

    @functools.wraps(function)
    def call(*given: Any) -> Any:
        args, kwargs = fewer(*given)
        return function(*args, **kwargs)

    call.__signature__ = inspect.signature(fewer)  # type: ignore[attr-defined]
    return call


def _condition(check: Callable[..., bool], name: str) -> Condition:
    def condition(*values: Any) -> str | None:
        fits = check(*values)
        if not isinstance(fits, bool):
            raise PassError(
                f"the check {name_of(check)} of pattern {name!r} returned {fits!r}; it says True "
                "where the pattern applies, and False where it does not"
            )
        return None if fits else f"{name_of(check)} says no"

    return condition


def _identity(known: str | None, *parts: Any) -> str | None:
    """One text for a pattern with what it is made of; None where a part has none."""
    if known is None:
        return None
    try:
        return " ".join([known, *(identity_text(part, "a pattern") for part in parts)])
    except NotCacheable:
        return None


def _described(examples: Sequence[Any]) -> list[str]:
    return [
        f"{value.dtype} {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
        for value in examples
    ]


def _simplify(unit: Any) -> None:
    """Bring a traced pattern into the form that graphs have when patterns are looked for."""
    from xpu_graph.passes import DEFAULT_PASSES, Pipeline  # noqa: PLC0415  the other way round, too

    config = XpuGraphConfig(verify="off", enable_cache=False, opt_level="level1")  # type: ignore[arg-type]
    Pipeline(DEFAULT_PASSES, config).run(unit, finish=False)
