"""Which hooks watch the pipeline of one graph."""

from __future__ import annotations

from xpu_graph import torch_compat
from xpu_graph.config import XpuGraphConfig
from xpu_graph.debug.bisect import Bisection, is_bisecting
from xpu_graph.debug.dump import Dumper
from xpu_graph.debug.fuel import Fuel
from xpu_graph.debug.logs import RewriteLog
from xpu_graph.debug.report import GraphReport, Recorder
from xpu_graph.hooks import Hook


def dumps(config: XpuGraphConfig) -> bool:
    """Whether graphs are to be written."""
    return config.dump_graph or config.debug or torch_compat.debug_directory() is not None


def watchers(config: XpuGraphConfig, report: GraphReport, fuel: Fuel | None) -> list[Hook]:
    """The hooks that a configuration asks for, in the order they are called.

    Args:
        config: decides about dumps; ``TORCH_COMPILE_DEBUG=1`` asks for them too.
        report: filled by the first hook.
        fuel: shared by all graphs of a backend.
    """
    hooks: list[Hook] = [Recorder(report), RewriteLog()]
    directory = torch_compat.debug_directory()
    if config.dump_graph or config.debug:
        hooks.append(Dumper(config.dump_dir or "xpu_graph_dump"))
    elif directory is not None:
        hooks.append(Dumper(f"{directory}/xpu_graph"))
    if fuel is not None:
        hooks.append(fuel)
    if is_bisecting():
        hooks.append(Bisection())
    return hooks
