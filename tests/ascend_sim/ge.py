"""What the simulated graph engine was given: options and graphs of torchair's max-autotune mode."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import ascend_sim

__all__ = ["forget", "initialised", "last_graphs", "session"]


def last_graphs() -> list[dict[str, Any]]:
    """The graphs that were added since the start or :func:`forget`, in order.

    Returns:
        For each graph its ``id``, ``name``, ``options`` (of AddGraph), whether it is ``static``
        (None before it is compiled), ``runs``, ``inputs`` and ``outputs`` (name, dtype, shape with
        -1 for what only a run knows), and ``ops``, the operator types that are executed, in order.
    """
    graphs: list[dict[str, Any]] = _report()["graphs"]
    return graphs


def initialised() -> dict[str, str]:
    """The options that the graph engine was initialised with; they are fixed for a process."""
    options: dict[str, str] = _report()["initialised"]
    return options


def session() -> dict[str, str]:
    """The options of the session."""
    options: dict[str, str] = _report()["session"]
    return options


def forget() -> None:
    """Forget the graphs so far; those that live go on living."""
    _library().sim_ge_forget()


def _report() -> dict[str, Any]:
    report = _library().sim_ge_report
    report.restype = ctypes.c_char_p
    found: dict[str, Any] = json.loads(report().decode())
    return found


def _library() -> Any:
    assert ascend_sim._library is not None, "load() comes first"
    return ascend_sim._library
