"""Target ``none``: no device in particular and no vendor compiler; the graph runs as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from xpu_graph.artifact import SerializableGraphModule
from xpu_graph.errors import ConfigError


def why_not() -> str | None:
    """Always available."""
    return None


def check_options(config: Mapping[str, Any]) -> None:
    """There are no options.

    Raises:
        ConfigError: one was given.
    """
    for key in config:
        raise ConfigError(f"Target.none has no vendor compiler and takes no option; got {key!r}")


def fingerprint(config: Mapping[str, Any]) -> str | None:
    """The graph is all there is."""
    return "none"


def none_compile(
    gm: fx.GraphModule,
    fake_inputs: Sequence[Any],
    *,
    is_inference: bool,
    is_backward: bool,
) -> SerializableGraphModule:
    """Wrap the graph."""
    return SerializableGraphModule(gm)
