"""xpu_graph: a pluggable graph compiler for PyTorch.

    torch.compile(model, backend="xpu_graph")

The names below are loaded when they are first used, so that importing the package imports neither
torch nor any vendor's package (``TORCH_LOGS`` may import it while torch itself is being imported).
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xpu_graph.artifact import SerializableArtifact, SerializableGraphModule
    from xpu_graph.backend import xpu_graph_backend
    from xpu_graph.backends import vendor_compiler
    from xpu_graph.backends.device_graph import GraphRunner
    from xpu_graph.backends.inductor import SerializableCompiledFxGraph
    from xpu_graph.backends.npu.artifact import NpuSerializableArtifact
    from xpu_graph.cache import (
        CacheKey,
        XpuGraphCache,
        XpuGraphLocalCache,
        XpuGraphMemoryCache,
        default_cache,
        no_cache,
    )
    from xpu_graph.compiler import XpuGraph, npu_compiler
    from xpu_graph.config import XpuGraphConfig
    from xpu_graph.debug.report import recent_reports
    from xpu_graph.errors import (
        BackendError,
        BackendUnavailable,
        CacheError,
        ConfigError,
        NotCacheable,
        PassError,
        XpuGraphError,
    )
    from xpu_graph.passes.patterns import (
        deregister_plugin_patterns,
        enable_plugin_patterns,
        register_plugin_pattern,
        register_structure,
        register_this_as_pattern_constraint,
        register_this_as_plugin_pattern,
        register_this_as_structure,
        unregister_structure,
    )
    from xpu_graph.stage import FxStage, Stage
    from xpu_graph.target import OptLevel, Target

__version__ = "0.1.0"

_HOME = {
    "BackendError": "errors",
    "BackendUnavailable": "errors",
    "CacheError": "errors",
    "CacheKey": "cache",
    "ConfigError": "errors",
    "FxStage": "stage",
    "GraphRunner": "backends.device_graph",
    "NotCacheable": "errors",
    "NpuSerializableArtifact": "backends.npu.artifact",
    "OptLevel": "target",
    "PassError": "errors",
    "SerializableArtifact": "artifact",
    "SerializableCompiledFxGraph": "backends.inductor",
    "SerializableGraphModule": "artifact",
    "Stage": "stage",
    "Target": "target",
    "XpuGraph": "compiler",
    "XpuGraphCache": "cache",
    "XpuGraphConfig": "config",
    "XpuGraphError": "errors",
    "XpuGraphLocalCache": "cache",
    "XpuGraphMemoryCache": "cache",
    "default_cache": "cache",
    "deregister_plugin_patterns": "passes.patterns",
    "enable_plugin_patterns": "passes.patterns",
    "no_cache": "cache",
    "npu_compiler": "compiler",
    "recent_reports": "debug.report",
    "register_plugin_pattern": "passes.patterns",
    "register_this_as_pattern_constraint": "passes.patterns",
    "register_structure": "passes.patterns",
    "register_this_as_plugin_pattern": "passes.patterns",
    "register_this_as_structure": "passes.patterns",
    "unregister_structure": "passes.patterns",
    "vendor_compiler": "backends",
    "xpu_graph_backend": "backend",
}
"""Public name -> the module it lives in."""

__all__ = [
    "BackendError",
    "BackendUnavailable",
    "CacheError",
    "CacheKey",
    "ConfigError",
    "FxStage",
    "GraphRunner",
    "NotCacheable",
    "NpuSerializableArtifact",
    "OptLevel",
    "PassError",
    "SerializableArtifact",
    "SerializableCompiledFxGraph",
    "SerializableGraphModule",
    "Stage",
    "Target",
    "XpuGraph",
    "XpuGraphCache",
    "XpuGraphConfig",
    "XpuGraphError",
    "XpuGraphLocalCache",
    "XpuGraphMemoryCache",
    "default_cache",
    "deregister_plugin_patterns",
    "enable_plugin_patterns",
    "no_cache",
    "npu_compiler",
    "recent_reports",
    "register_plugin_pattern",
    "register_structure",
    "register_this_as_pattern_constraint",
    "register_this_as_plugin_pattern",
    "register_this_as_structure",
    "unregister_structure",
    "vendor_compiler",
    "xpu_graph_backend",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
