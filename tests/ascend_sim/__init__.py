"""A simulated CANN: the real torch_npu, torchair and npugraph_ex run on it without an NPU.

    import ascend_sim
    ascend_sim.load()          # before anything imports torch_npu

What it shows: numbers, control flow, what is captured and replayed, what is illegal in a capture.
What it cannot show: speed, rounding of real kernels, limits of real devices, concurrency.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pathlib
import sys
from collections.abc import Iterator

from ascend_sim.build import EMPTY, MAIN, build, missing, why_not

__all__ = ["build", "command", "failing", "load", "missing", "trace", "why_not"]

_library: ctypes.CDLL | None = None


def load() -> None:
    """Load the simulated libraries and torch_npu; a second call does nothing.

    Raises:
        RuntimeError: they cannot be built, or torch was imported so that it loads torch_npu.
    """
    global _library  # noqa: PLW0603 - one process, one device
    if _library is not None:
        return
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    os.environ.setdefault("TASK_QUEUE_ENABLE", "0")  # errors come at the call that causes them
    os.environ.pop("ASCEND_HOME_PATH", None)
    if "torch_npu" in sys.modules:
        raise RuntimeError("torch_npu was imported before the simulated CANN was loaded")
    directory = build()
    import torch

    _library = ctypes.CDLL(str(directory / MAIN), mode=ctypes.RTLD_GLOBAL)
    _library.sim_log_start.restype = ctypes.c_size_t
    _library.sim_log_stop.restype = ctypes.c_char_p
    _library.sim_log_stop.argtypes = [ctypes.c_size_t]
    for name in EMPTY:
        ctypes.CDLL(str(directory / name), mode=ctypes.RTLD_GLOBAL)
    import torch_npu  # noqa: F401

    torch.npu.config.allow_internal_format = False
    torch.npu.set_compile_mode(jit_compile=False)


def command(*arguments: str) -> list[str]:
    """The command that runs Python on the simulator: ``command("script.py", "--option")``.

    It needs nothing of the environment, in which this package need not be importable.
    """
    return [sys.executable, str(pathlib.Path(__file__).parent), *arguments]


@contextlib.contextmanager
def failing(name: str) -> Iterator[None]:
    """Let every launch of one function fail within the block, for example ``"aclnnAdd"``."""
    assert _library is not None, "load() comes first"
    _library.sim_fail(name.encode())
    try:
        yield
    finally:
        _library.sim_fail(None)


@contextlib.contextmanager
def trace() -> Iterator[list[str]]:
    """Record what is launched, in order: ``"aclnnAdd"``, ``"record aclnnAdd"``, ``"replay"``, ...

    The list is filled when the block ends.
    """
    assert _library is not None, "load() comes first"
    lines: list[str] = []
    start = _library.sim_log_start()
    try:
        yield lines
    finally:
        lines += _library.sim_log_stop(start).decode().splitlines()
