"""Who implements which structure on which target.

    @register_this_as_structure("RMSNorm", "npu", check=lambda x, weight, eps: x.dim() > 1)
    def fused_rms_norm(x, weight, eps):
        return torch.ops.mylib.rms_norm(x, weight, eps)

What the package brings for a target is in ``targets/<target>/`` and of lower priority than what is
registered here. A program compiled before is compiled again only when torch is told to
(``torch.compiler.reset()``).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import torch

from xpu_graph.config import OptLevel
from xpu_graph.errors import ConfigError, NotCacheable, PassError, unknown_name
from xpu_graph.identity import identity_text
from xpu_graph.passes.base import Pass
from xpu_graph.passes.patterns.check_pair import compare_on_examples, name_of
from xpu_graph.passes.patterns.pattern import Condition, Pattern, PatternPass, pass_of
from xpu_graph.passes.patterns.structure import STRUCTURES
from xpu_graph.passes.patterns.structure.base import Implementation, Structure
from xpu_graph.target import Target, known_targets

_F = TypeVar("_F", bound=Callable[..., Any])

_lock = threading.Lock()
_registered: list[Implementation] = []
_passes: dict[Implementation, type[PatternPass]] = {}


def register_structure(
    name: str,
    target: Target | str,
    fn: Callable[..., Any],
    check: Callable[..., Any] | None = None,
    priority: int = 0,
    level: OptLevel | str = OptLevel.level2,
    postfix: str | None = None,
    verify: bool | Sequence[Any] = False,
) -> None:
    """Let a function compute a structure on a target, wherever programs have it.

    Args:
        name: the structure; ``python -m xpu_graph patterns`` lists them, with their operands.
        target: the target.
        fn: a function of the structure's operands, with its results in the same shape and dtype;
            a result in a narrower layout or dtype than was found is converted. It is called with
            fake tensors, and may call custom operators.
        check: a function of the operands (fake tensors, numbers) that returns True or None where
            the implementation applies, and False, or the reason as a text, where it does not.
        priority: of several that apply, the one with the most is taken; what the package brings
            has -100.
        level: the lowest optimisation level it is used at.
        postfix: added to the pattern's name, ``structure-function``, with a hyphen.
        verify: compute the function, and compare it with what the structure means: on examples
            (True), or on operands that are given here.

    Raises:
        ConfigError: there is no such structure or target, the function does not take the
            structure's operands, it is registered already, or ``verify`` found a difference.
    """
    structure = _structure(name)
    label = name_of(fn) if postfix is None else f"{name_of(fn)}-{postfix}"
    made = Implementation(
        structure=name,
        target=Target(target),
        function=fn,
        check=check,
        priority=priority,
        level=OptLevel.parse(level),
        label=label,
    )
    where = f"register_structure({made.name!r})"
    for function, what in ((fn, "the function"), (check, "the check")):
        _check_operands(function, what, structure, where)
    if not isinstance(priority, int) or isinstance(priority, bool):
        raise ConfigError(f"{where}: priority is a whole number, not {priority!r}")
    if verify is not False:
        _verify(made, structure, verify, where)
    with _lock:
        if any(one.name == made.name and one.target == made.target for one in _registered):
            raise ConfigError(
                f"{where} is registered for target {made.target.value!r} already; give another "
                "postfix=, or unregister the other one"
            )
        _registered.append(made)


def register_this_as_structure(
    name: str,
    target: Target | str,
    check: Callable[..., Any] | None = None,
    priority: int = 0,
    level: OptLevel | str = OptLevel.level2,
    postfix: str | None = None,
    verify: bool | Sequence[Any] = False,
) -> Callable[[_F], _F]:
    """The same as a decorator of the function, which it leaves as it is.

    Args:
        name: as for ``register_structure``.
        target: the same.
        check: the same.
        priority: the same.
        level: the same.
        postfix: the same.
        verify: the same.

    Raises:
        ConfigError: when it decorates, for the reasons given there.
    """

    def decorate(function: _F) -> _F:
        register_structure(name, target, function, check, priority, level, postfix, verify)
        return function

    return decorate


def unregister_structure(
    name: str, target: Target | str | None = None, fn: Callable[..., Any] | None = None
) -> int:
    """Forget implementations that were registered.

    Args:
        name: the structure.
        target: those for one target alone.
        fn: those by one function alone.

    Returns:
        How many there were.

    Raises:
        ConfigError: there is no such structure or target.
    """
    _structure(name)
    only = None if target is None else Target(target)
    with _lock:
        gone = [
            one
            for one in _registered
            if one.structure == name
            and only in (None, one.target)
            and (fn is None or fn is one.function)
        ]
        for one in gone:
            _registered.remove(one)
            _passes.pop(one, None)
    return len(gone)


def implementations(target: Target | str | None = None) -> list[Implementation]:
    """Who implements what, registered ones first.

    Args:
        target: for one target alone; None for all that are known.
    """
    names = known_targets() if target is None else [Target(target).value]
    with _lock:
        registered = [one for one in _registered if one.target.value in names]
    return [*registered, *(one for name in names for one in _built_in(name))]


def structure_patterns(target: Target) -> list[type[Pass]]:
    """The passes of all implementations for a target."""
    found = implementations(target)
    with _lock:
        for one in found:
            if one not in _passes:
                _passes[one] = pass_of(_pattern(one))
        return [_passes[one] for one in found]


@cache
def _built_in(target: str) -> tuple[Implementation, ...]:
    """What the package brings for a target."""
    module = f"xpu_graph.passes.patterns.targets.{target}"
    if importlib.util.find_spec(module) is None:
        return ()
    found: tuple[Implementation, ...] = importlib.import_module(module).IMPLEMENTATIONS
    return found


def _structure(name: str) -> Structure:
    if name not in STRUCTURES:
        raise ConfigError(unknown_name("structure", name, STRUCTURES, "register_structure"))
    return STRUCTURES[name]


def _check_operands(
    function: Callable[..., Any] | None, what: str, structure: Structure, where: str
) -> None:
    if function is None or isinstance(
        function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)
    ):
        return
    if not callable(function):
        raise ConfigError(f"{where}: {what} is {function!r}, which cannot be called")
    try:
        inspect.signature(function).bind(*structure.operands)
    except TypeError as error:
        raise ConfigError(
            f"{where}: {what} {name_of(function)} takes {inspect.signature(function)}, and "
            f"{structure.name} has the operands ({', '.join(structure.operands)})"
        ) from error
    except ValueError as error:  # some of those that are written in C
        raise ConfigError(
            f"{where}: {what} {name_of(function)} does not tell its parameters; give a function "
            "that calls it"
        ) from error


def _verify(
    made: Implementation, structure: Structure, given: bool | Sequence[Any], where: str
) -> None:
    if isinstance(given, (list, tuple)) and len(given) == len(structure.operands):
        examples = list(given)
    elif given is True:
        examples = list(structure.examples())
    else:
        raise ConfigError(
            f"{where}: verify is {given!r}; it is True, False, or the operands "
            f"({', '.join(structure.operands)})"
        )
    refusal = None if made.check is None else _told(made.check(*examples), made)
    if refusal is not None:
        raise ConfigError(
            f"{where}: the check refuses the operands it is verified on ({refusal}); give others: "
            f"verify=({', '.join(structure.operands)})"
        )
    compare_on_examples(structure.reference, made.function, examples, where, numbers=True)


def _pattern(one: Implementation) -> Pattern:
    structure = STRUCTURES[one.structure]
    conditions: list[Condition] = list(structure.conditions)
    if one.check is not None:
        conditions.append(lambda *operands: _told(one.check(*operands), one))  # type: ignore[misc]
    identity: str | None = f" {one.structure} for {one.target.value} priority {one.priority}"
    try:
        for part in (one.function, one.check):
            identity = f"{identity} {identity_text(part, 'a structure')}"
    except NotCacheable:
        identity = None
    return Pattern(
        name=one.name,
        shapes=structure.shapes if one.takes_fused else structure.unfused_shapes,
        replacement=one.function,
        identity=identity,
        conditions=conditions,
        target=one.target,
        level=one.level,
        benefit=structure.benefit,
        priority=one.priority,
        converts=True,
        wanted=one.wanted,
    )


def _told(answer: Any, one: Implementation) -> str | None:
    """What a check said, as a reason or None."""
    if answer is None or answer is True:
        return None
    if answer is False:
        return "its check says no"
    if isinstance(answer, str):
        return answer
    raise PassError(
        f"the check of {one.name!r} returned {answer!r}; it says True or None where the "
        "implementation applies, and False or the reason where it does not"
    )
