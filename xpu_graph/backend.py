"""``xpu_graph_backend``: the backend that just works, also by the name ``"xpu_graph"``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from xpu_graph.compiler import XpuGraph
from xpu_graph.config import OptLevel, Target, XpuGraphConfig
from xpu_graph.errors import BackendError


class AutoBackend:
    """Compiles for the device its inputs are on, with that target's default vendor compiler.

    ``torch.compile(model, backend="xpu_graph", options={...})`` takes any field of
    ``XpuGraphConfig``; what is not given is ``target`` by the inputs, ``level2``, and
    ``vendor_compiler_config={}``.
    """

    def __init__(self) -> None:
        self._backends: dict[Target, XpuGraph] = {}
        self._lock = threading.Lock()

    def __call__(
        self,
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """Compile a graph for Dynamo.

        Raises:
            ConfigError: an option is not legal.
            BackendError: the inputs are on devices of two targets.
        """
        given = dict(options or {})
        target = Target(given["target"]) if "target" in given else _target_of(example_inputs)
        return self.for_target(target)(gm, example_inputs, mode=mode, options=given)

    def for_target(self, target: Target) -> XpuGraph:
        """The backend object that serves a target with no further options."""
        with self._lock:
            if target not in self._backends:
                config = XpuGraphConfig(
                    target=target, opt_level=OptLevel.level2, vendor_compiler_config={}
                )
                self._backends[target] = XpuGraph(config)
            return self._backends[target]

    def reset(self) -> None:
        """Forget what was made; ``torch.compiler.reset()`` calls it."""
        with self._lock:
            self._backends.clear()


def _target_of(inputs: Sequence[Any]) -> Target:
    """The target that the inputs' devices stand for; a graph without tensors is for the CPU."""
    where: dict[str, int] = {}
    for position, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            where.setdefault(value.device.type, position)
    if len(where) > 1:
        where.pop("cpu", None)  # a device graph may take numbers and indices from the CPU
    if not where:
        return Target.cpu
    if len(where) > 1:
        places = ", ".join(f"input {position} on {name}" for name, position in where.items())
        raise BackendError(f"the inputs are on devices of several targets: {places}")
    (device,) = where
    known = [target.value for target in Target if target != Target.none]
    if device not in known:
        raise BackendError(
            f"input {where[device]} is on device {device!r}, for which there is no target; "
            f"there are {', '.join(known)}. options={{'target': 'none'}} optimises without one"
        )
    return Target(device)


xpu_graph_backend = AutoBackend()
