"""Questions about symbolic sizes: answered without a trace, or refused."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import _ShapeEnvGuardError as NeedsGuard
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols, statically_known_true
from typing_extensions import override

__all__ = [
    "NeedsGuard",
    "free_unbacked_symbols",
    "refused_guards",
    "statically_known_true",
    "suppressed_guards",
]


@contextlib.contextmanager
def suppressed_guards(mode: FakeTensorMode) -> Iterator[None]:
    """Run fake operators again whose questions about sizes were answered when they were traced."""
    if mode.shape_env is None:
        yield
    else:
        with mode.shape_env.suppress_guards():
            yield


@contextlib.contextmanager
def refused_guards(mode: FakeTensorMode) -> Iterator[None]:
    """Run fake operators that may use what is known of sizes, and ask for nothing else.

    Raises:
        NeedsGuard: a fact about a size is not known, so relying on it would need a guard.
    """
    if mode.shape_env is None:
        yield
        return
    quiet = _Quiet()
    # torch takes a refusal for an accident, and says so at length
    for logger in _COMPLAINING:
        logger.addFilter(quiet)
    try:
        with mode.shape_env.error_on_new_guards():
            yield
    finally:
        for logger in _COMPLAINING:
            logger.removeFilter(quiet)


_COMPLAINING = tuple(map(logging.getLogger, (symbolic_shapes.__name__, FakeTensorMode.__module__)))


class _Quiet(logging.Filter):
    """Drops what the thread that made it logs."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        return record.thread != self._thread
