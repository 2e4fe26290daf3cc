"""Torch's dispatch modes: to leave them, or to let others find one."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from torch._functorch._aot_autograd.runtime_wrappers import _AnalyzeCustomOpInputOutputMode
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import dispatch_functionalize
from torch.utils._python_dispatch import (
    _disable_current_modes,
    _get_current_dispatch_mode,
    _pop_mode_temporarily,
)


def functionalized(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function without writes, as AOTAutograd makes it; for tracing."""
    return dispatch_functionalize(function)


def no_dispatch_modes() -> contextlib.AbstractContextManager[Any]:
    """Run on real tensors although a fake or tracing mode is active."""
    return _disable_current_modes()


@contextlib.contextmanager
def fake_tracing(mode: FakeTensorMode | None) -> Iterator[None]:
    """Let code find a fake mode in the tracing context, where AOTAutograd has made none.

    With None, hide every mode and context that is active.
    """
    if mode is None:
        with no_dispatch_modes(), tracing(None):
            yield
    elif TracingContext.try_get() is not None:
        yield
    else:
        with tracing(TracingContext(mode)):
            yield


@contextlib.contextmanager
def custom_operators_unchecked() -> Iterator[None]:
    """Leave the mode in which AOTAutograd makes a compiled graph's first call.

    It refuses custom operators that return an input (a warning, and an error where the variable
    ``CI`` is set), which is meant for the user's program. What a vendor made of that program calls
    operators of its own, whose schemas need not say what they return.
    """
    if isinstance(_get_current_dispatch_mode(), _AnalyzeCustomOpInputOutputMode):
        with _pop_mode_temporarily():
            yield
    else:
        yield
