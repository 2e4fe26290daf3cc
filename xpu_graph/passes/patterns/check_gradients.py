"""Whether a replacement can be differentiated as its pattern is, and gives the same gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from xpu_graph import effects
from xpu_graph.errors import ConfigError
from xpu_graph.passes.patterns.check_pair import compare_results
from xpu_graph.passes.patterns.template import traced
from xpu_graph.torch_compat import FakeTensorMode


def compare_gradients(
    function: Callable[..., Any],
    replacement: Callable[..., Any],
    examples: Sequence[Any],
    where: str,
    *,
    numbers: bool,
) -> None:
    """Compute both functions and their gradients, on fake tensors or on the examples themselves.

    Args:
        function: the pattern.
        replacement: what is to take its place.
        examples: what both are called with; none is changed.
        where: begins the messages.
        numbers: whether the numbers are computed, too, and must agree as ``torch.testing`` would
            have it for their dtype.

    Raises:
        ConfigError: one cannot be computed or differentiated, or they differ; says how.
    """
    if not any(_has_gradient(value) for value in examples):
        raise ConfigError(
            f"{where}: none of the example inputs can have a gradient; is_training=True needs a "
            "floating-point tensor among them"
        )
    _check_formula(replacement, examples, where)
    for real in (False, True)[: 1 + numbers]:
        found = _differentiated(function, examples, real, f"{where}: the pattern")
        instead = _differentiated(replacement, examples, real, f"{where}: the replacement")
        _compare(found, instead, where, numbers=real)


@dataclass
class _Differentiated:
    """What a function gave, and the gradients of its inputs; None for those without."""

    results: list[Any]
    has_gradient: list[bool]
    gradients: dict[int, torch.Tensor | None]


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _differentiated(
    call: Callable[..., Any], examples: Sequence[Any], real: bool, where: str
) -> _Differentiated:
    mode = None if real else FakeTensorMode()

    def own(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        plain = value.detach().clone() if mode is None else mode.from_tensor(value.detach())
        return plain.requires_grad_(_has_gradient(value))

    arguments = [own(value) for value in examples]
    places = [i for i, value in enumerate(arguments) if _has_gradient(value)]
    what = "failed on the example inputs"
    try:
        with torch.enable_grad(), mode or nullcontext():
            results = list(pytree.tree_leaves(call(*arguments)))
            ends = [r for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
            what = "cannot be differentiated on the example inputs"
            found: Sequence[torch.Tensor | None] = (None,) * len(places)
            if ends:
                found = torch.autograd.grad(
                    ends,
                    [arguments[i] for i in places],
                    [_cotangent(end, i) for i, end in enumerate(ends)],
                    allow_unused=True,
                )
    except Exception as error:  # it is the user's function: anything may come out of it
        raise ConfigError(f"{where} {what}: {type(error).__name__}: {error}") from error
    has_gradient = [isinstance(r, torch.Tensor) and r.requires_grad for r in results]
    plain = [r.detach() if isinstance(r, torch.Tensor) else r for r in results]
    return _Differentiated(plain, has_gradient, dict(zip(places, found, strict=True)))


def _cotangent(result: torch.Tensor, number: int) -> torch.Tensor:
    """Any numbers, the same each time; with ones many a wrong gradient is zero, too."""
    generator = torch.Generator().manual_seed(number)
    numbers = torch.randn(result.shape, generator=generator, dtype=torch.float64)
    return numbers.to(result.device, result.dtype)


def _compare(
    found: _Differentiated, instead: _Differentiated, where: str, *, numbers: bool
) -> None:
    compare_results(found.results, instead.results, where, numbers=numbers)
    if not any(found.has_gradient):
        raise ConfigError(
            f"{where}: the results of the pattern have no gradients, which is_training=True is for"
        )
    for position, (had, has) in enumerate(
        zip(found.has_gradient, instead.has_gradient, strict=True)
    ):
        if had != has:
            raise ConfigError(
                f"{where}: result {position} {_HAS[has]} in the replacement, and {_HAS[had]} in "
                f"the pattern{'' if has else _NEEDS}"
            )
    for position, want in found.gradients.items():
        got = instead.gradients[position]
        if want is None or got is None:
            if want is not got:
                raise ConfigError(
                    f"{where}: input {position} {_HAS[got is not None]} in the replacement, and "
                    f"{_HAS[want is not None]} in the pattern{_NEEDS if got is None else ''}"
                )
        elif numbers:
            try:
                torch.testing.assert_close(got, want, equal_nan=True, check_stride=False)
            except AssertionError as error:
                raise ConfigError(
                    f"{where}: the gradient of input {position} differs in the replacement on the "
                    f"example inputs. {error}"
                ) from error


_NEEDS = "; an operator of your own needs register_autograd"
_HAS = {True: "has a gradient", False: "has none"}


def _check_formula(replacement: Callable[..., Any], examples: Sequence[Any], where: str) -> None:
    """Whether what is left of a replacement in a graph is differentiated as the function is.

    A graph holds the operators that were called. Formulas of theirs stay; that of an
    ``autograd.Function`` around them does not, and neither does a ``no_grad``.
    """
    graph = traced(replacement, examples, None, f"{where}: the replacement", pre_dispatch=True)
    for node in graph.graph.nodes:
        known = isinstance(node.target, torch._ops.OpOverload) or effects.is_size_arithmetic(node)
        if node.op == "call_function" and not known:
            raise ConfigError(
                f"{where}: the replacement calls {node.target}, which cannot be put into a graph "
                "before differentiation"
            )
    tensors = [value for value in examples if isinstance(value, torch.Tensor)]
    written, kept = (
        _formulas(call, given) for call, given in ((replacement, examples), (graph, tensors))
    )
    lost = sorted(written - kept)
    if lost:
        raise ConfigError(
            f"{where}: the replacement calls an autograd.Function ({', '.join(lost)}), whose "
            "formula would be lost; make it an operator with torch.library.custom_op and "
            "register_autograd"
        )


def _formulas(call: Callable[..., Any], examples: Sequence[Any]) -> set[str]:
    """The names of the formulas written in Python that a function's results have behind them."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    arguments = [
        mode.from_tensor(value.detach()).requires_grad_(_has_gradient(value))
        if isinstance(value, torch.Tensor)
        else value
        for value in examples
    ]
    try:
        with torch.enable_grad(), mode:
            results = pytree.tree_leaves(call(*arguments))
    except Exception:  # it is the user's function; what is wrong with it is said elsewhere
        return set()
    pending: list[Any] = [r.grad_fn for r in results if isinstance(r, torch.Tensor)]
    seen: set[Any] = set()
    names: set[str] = set()
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            names.add(type(node).__name__)
        pending += [following for following, _ in node.next_functions]
    return names
