"""What a program gives, seen from outside, and whose fault a difference from eager is."""

from __future__ import annotations

import copy
import ctypes
import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from xpu_graph import XpuGraphError
from xpu_graph.testing import alias_classes, assert_same

from .progress import AOT_TOO, OURS, SAME

MESSAGE_LENGTH = 300


@dataclasses.dataclass
class Outcome:
    """What a call gives.

    Attributes:
        results: what it returned.
        inputs: the tensors among its arguments, and its state, afterwards.
        gradients: of the inputs that require one; None for what no result depends on.
        memory: for each input and result, the first of them on the same memory.
        shared_gradients: pairs of gradients that are one memory.
    """

    results: Any
    inputs: list[torch.Tensor]
    gradients: list[torch.Tensor | None]
    memory: list[int]
    shared_gradients: set[tuple[int, int]]


Attempt = Outcome | Exception
"""What a call gives, or the error that it raised."""


def tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def copied(values: Any) -> Any:
    """A copy in which tensors are leaves, laid out and sharing memory as the given ones do."""
    memo: dict[Any, Any] = {}
    copies: dict[int, torch.Tensor] = {}
    kept: list[torch.Tensor] = []  # what the memo knows by its id must not go away

    def one(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in copies:
            kept.append(value.detach())
            is_plain = value.layout == torch.strided  # a sparse one has no storage to follow
            copy_of_it = copy.deepcopy(kept[-1], memo) if is_plain else kept[-1].clone()
            copies[id(value)] = copy_of_it.requires_grad_(value.requires_grad)
        return copies[id(value)]

    return pytree.tree_map(one, values)


def attempt(
    call: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    grad: bool = False,
    loss_terms: Callable[[Any], Any] = lambda results: results,
    state: Sequence[torch.Tensor] = (),
) -> Attempt:
    """Call something on a copy of the arguments, and look at all that it does.

    Args:
        call: the function, compiled or not.
        arguments: its arguments.
        grad: whether to differentiate the sum of its results, weighted with fixed random numbers.
        loss_terms: from the results to what is differentiated.
        state: what the function itself holds; it is looked at as the arguments are.
    """
    arguments = copied(arguments)
    try:
        torch.manual_seed(1)
        with torch.set_grad_enabled(grad):
            results = call(*arguments)
        inputs = [*tensors(arguments), *state]
        gradients = _gradients(loss_terms(results), inputs) if grad else []
    except Exception as error:  # whatever it is, it is what this program gives
        return error
    shared = alias_classes(gradients)
    return Outcome(
        results,
        inputs,
        gradients,
        alias_classes([*inputs, *tensors(results)]),
        {
            (one, other)
            for one, other in itertools.combinations(range(len(shared)), 2)
            if shared[one] == shared[other] != -1
        },
    )


def _gradients(results: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor | None]:
    wanted = [value for value in inputs if value.requires_grad]
    terms = [
        value for value in tensors(results) if value.requires_grad and value.layout == torch.strided
    ]
    if not terms or not wanted:
        return []
    generator = torch.Generator().manual_seed(2)
    weights = [
        torch.randn(
            term.shape,
            dtype=torch.complex64 if term.is_complex() else torch.float32,
            generator=generator,
        ).to(term.dtype)
        for term in terms
    ]
    return list(torch.autograd.grad(terms, wanted, weights, allow_unused=True))


def difference(got: Outcome, want: Outcome, *, bitwise: bool, **tolerances: float) -> str | None:
    """What tells two outcomes apart; None for nothing. Zeros keep their signs in either case."""
    try:
        for what in ("results", "inputs", "gradients"):
            mine, other = getattr(got, what), getattr(want, what)
            if not bitwise:
                mine, other = _numbers_as_tensors(mine), _numbers_as_tensors(other)
            assert_same(mine, other, what, bitwise=bitwise, **tolerances)
            if not bitwise:
                _assert_signs_of_zero(mine, other, what)
    except AssertionError as error:
        return str(error)
    if got.memory != want.memory:
        return f"memory is shared as {got.memory}, eager's as {want.memory}"
    if new := sorted(got.shared_gradients - want.shared_gradients):
        return f"these gradients are one memory, and eager's are not: {new}"
    return None


def _numbers_as_tensors(values: Any) -> Any:
    return pytree.tree_map(
        lambda value: torch.tensor(value) if isinstance(value, (float, complex)) else value, values
    )


def _assert_signs_of_zero(got: Any, want: Any, what: str) -> None:
    for position, (mine, other) in enumerate(zip(tensors(got), tensors(want), strict=True)):
        if other.layout != torch.strided or not (other.is_floating_point() or other.is_complex()):
            continue
        pair = [value.detach().resolve_conj().resolve_neg() for value in (mine, other)]
        if other.is_complex():
            pair = [torch.view_as_real(value) for value in pair]
        elif other.element_size() == 1:
            pair = [value.float() for value in pair]
        zeros = (pair[0] == 0) & (pair[1] == 0)
        assert torch.equal(pair[0].signbit() & zeros, pair[1].signbit() & zeros), (
            f"{what} {position}: the sign of a zero differs"
        )


def layout_difference(got: Outcome, want: Outcome) -> str | None:
    """As ``difference``, of all but the values."""

    def bare(outcome: Outcome) -> Outcome:
        def without_values(value: Any) -> Any:
            if isinstance(value, torch.Tensor) and value.layout == torch.strided:
                zeros = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
                return zeros.zero_().requires_grad_(value.requires_grad)
            return type(value)

        parts = (outcome.results, outcome.inputs, outcome.gradients)
        bared = pytree.tree_map(without_values, parts)
        return dataclasses.replace(outcome, results=bared[0], inputs=bared[1], gradients=bared[2])

    return difference(bare(got), bare(want), bitwise=True)


Compare = Callable[[Outcome, Outcome], str | None]


def judge(
    got: Attempt, want: Outcome, aot_eager: Callable[[], Attempt], compare: Compare
) -> tuple[str, str]:
    """Status and message of what a program compiled by us gives.

    Args:
        got: what it gives.
        want: what eager gives.
        aot_eager: runs the program with ``aot_eager``; called only where ours is not as eager.
        compare: says what tells two outcomes apart.

    Returns:
        ``AOT_TOO`` only where ``aot_eager`` is not as eager either, and gives what ours gives: the
        same error, or an outcome that ``compare`` cannot tell from ours.
    """
    if isinstance(got, Exception):
        torchs = aot_eager()
        same = isinstance(torchs, Exception) and _what_failed(got) == _what_failed(torchs)
        inner = _innermost(got)
        told = f"{type(inner).__name__}: {inner}"
        return (AOT_TOO if same and not isinstance(inner, XpuGraphError) else OURS), short(told)
    if (why := compare(got, want)) is None:
        return SAME, ""
    torchs = aot_eager()
    if isinstance(torchs, Exception):
        told = f"{why}; aot_eager raises {type(_innermost(torchs)).__name__}"
        return OURS, short(told)
    same = compare(torchs, want) is not None and compare(got, torchs) is None
    return (AOT_TOO if same else OURS), short(why)


def _innermost(error: Exception) -> Exception:
    return getattr(error, "inner_exception", error)


def _what_failed(error: Exception) -> tuple[type, str]:
    """Type and first line of an error, without the numbers that differ from run to run."""
    inner = _innermost(error)
    first = (str(inner).strip().splitlines() or [""])[0]
    return type(inner), re.sub(r"0x[0-9a-f]+|\d+", "#", first)


def short(message: str) -> str:
    """A message on one line."""
    return " ".join(message.split())[:MESSAGE_LENGTH]


_M_PERTURB = -6


def fill_new_memory(byte: int) -> None:
    """Let memory that nobody has written to read as this byte, where the C library can do that.

    A program that gives away such memory (``torch.empty``) then gives the same twice, and is found
    out by running it with another byte.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_PERTURB, byte ^ 0xFF)  # glibc fills with the complement
