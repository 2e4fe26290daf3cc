"""Whether a pattern and its replacement fit together, and give the same on the example inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from xpu_graph.errors import ConfigError
from xpu_graph.torch_compat import FakeTensorMode


def compare_on_examples(
    function: Callable[..., Any],
    replacement: Callable[..., Any],
    examples: Sequence[Any],
    where: str,
    *,
    numbers: bool,
) -> None:
    """Compute both functions, on fake tensors or on the examples themselves.

    Args:
        function: the pattern.
        replacement: what is to take its place.
        examples: what both are called with; none is changed.
        where: begins the messages.
        numbers: whether the numbers are computed, too, and must agree as ``torch.testing`` would
            have it for their dtype.

    Raises:
        ConfigError: one cannot be computed, or they differ; says how.
    """
    mode = None if numbers else FakeTensorMode()
    found, instead = (
        _results(call, examples, mode, f"{where}: {what}")
        for call, what in ((function, "the pattern"), (replacement, "the replacement"))
    )
    compare_results(found, instead, where, numbers=numbers)


def compare_results(
    found: Sequence[Any], instead: Sequence[Any], where: str, *, numbers: bool
) -> None:
    """Compare what a pattern and its replacement gave.

    Args:
        found: the results of the pattern.
        instead: those of the replacement.
        where: begins the messages.
        numbers: whether the numbers count.

    Raises:
        ConfigError: they differ; says how.
    """
    if len(found) != len(instead):
        raise ConfigError(
            f"{where}: the replacement gives {len(instead)} results, the pattern {len(found)}"
        )
    for position, (want, got) in enumerate(zip(found, instead, strict=True)):
        if not isinstance(want, torch.Tensor) or not isinstance(got, torch.Tensor):
            raise ConfigError(
                f"{where}: result {position} is {got!r} in the replacement, {want!r} in the "
                "pattern; only tensors can be replaced"
            )
        for name in ("dtype", "shape", "stride", "device"):
            left, right = (getattr(value, name) for value in (got, want))
            left, right = (left(), right()) if callable(left) else (left, right)
            if left != right:
                raise ConfigError(
                    f"{where}: result {position} has {name} {left} in the replacement, "
                    f"{right} in the pattern"
                )
        if numbers:
            try:
                torch.testing.assert_close(got, want, equal_nan=True)
            except AssertionError as error:
                raise ConfigError(
                    f"{where}: result {position} of the replacement differs on the example inputs. "
                    f"{error}"
                ) from error


def check_signatures(
    function: Callable[..., Any],
    replacement: Callable[..., Any],
    checks: Sequence[Callable[..., bool]],
    examples: Sequence[Any],
    where: str,
) -> None:
    """Whether a pattern, its replacement, its checks and the example inputs fit together.

    Args:
        function: the pattern.
        replacement: of the same parameters, by name; or an operator.
        checks: of as many parameters.
        examples: one an argument, a tensor among them.
        where: begins the messages.

    Raises:
        ConfigError: they do not; says what was given and what was expected.
    """
    parameters = list(inspect.signature(function).parameters.values())
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if any(parameter.kind in variadic for parameter in parameters):
        raise ConfigError(f"{where} takes *args or **kwargs; name its parameters")
    names = [parameter.name for parameter in parameters]
    if not isinstance(examples, (list, tuple)) or len(examples) != len(names):
        raise ConfigError(
            f"{where}: example_inputs gives {examples!r}, and the function takes "
            f"{len(names)} arguments: {', '.join(names)}"
        )
    if not any(isinstance(value, torch.Tensor) for value in examples):
        raise ConfigError(f"{where}: no tensor is among the example inputs")
    for other, what in ((replacement, "the replacement"), *((c, "an extra check") for c in checks)):
        if isinstance(other, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
            continue  # it is called with what stands at the inputs, and says itself what it lacks
        theirs = list(inspect.signature(other).parameters)
        if len(theirs) != len(names) or (what == "the replacement" and theirs != names):
            raise ConfigError(
                f"{where}: {what} {name_of(other)} takes ({', '.join(theirs)}), "
                f"the pattern ({', '.join(names)})"
            )


def name_of(function: Callable[..., Any]) -> str:
    """The name that a function's patterns have: ``module-function``."""
    if isinstance(function, torch._ops.OpOverloadPacket):
        # what it has as a module tells how torch was built
        return f"torch._ops-{function}"
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}-{named.__qualname__}"


def _results(
    call: Callable[..., Any], examples: Sequence[Any], mode: FakeTensorMode | None, where: str
) -> list[Any]:
    def own(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().clone() if mode is None else mode.from_tensor(value.detach())

    arguments = pytree.tree_map(own, list(examples))
    try:
        with torch.no_grad():
            if mode is None:
                returned = call(*arguments)
            else:
                with mode:
                    returned = call(*arguments)
    except Exception as error:  # it is the user's function: anything may come out of it
        raise ConfigError(
            f"{where} failed on the example inputs: {type(error).__name__}: {error}"
        ) from error
    return list(pytree.tree_leaves(returned))
