"""Torch's ``CompilerBisector``, which halves the number of rewrites until the wrong one is found.

Its module is heavy, so it is used only where something else, as ``torch.compile``, imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_MODULE = "torch._inductor.compiler_bisector"


def register_subsystem(backend: str, subsystem: str) -> None:
    """Let the bisector try a backend after torch's own, and halve the calls of a part of it."""
    from torch._inductor import compiler_bisector

    parts = compiler_bisector.BACKENDS.setdefault(backend, [])
    if all(part.name != subsystem for part in parts):
        parts.append(compiler_bisector.BisectSubsystem(subsystem))


def is_bisecting() -> bool:
    """Whether a bisection is under way in this process."""
    return bool(_bisector() and _bisector().bisection_enabled)


def bisector_stops(backend: str, subsystem: str, told: Callable[[], str]) -> bool:
    """Whether the bisector wants the next application of a subsystem left out.

    Args:
        backend: the backend's name.
        subsystem: the part that is about to do something.
        told: says what, for the bisector's report.
    """
    return bool(_bisector() and _bisector().disable_subsystem(backend, subsystem, told))


def _bisector() -> Any:
    module = sys.modules.get(_MODULE)
    return getattr(module, "CompilerBisector", None)
