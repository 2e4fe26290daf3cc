"""``xpu_graph_backend``: the backend that just works, also by the name ``"xpu_graph"``."""

from __future__ import annotations

import hashlib
import os
import pathlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from xpu_graph.cache.local import default_cache_path
from xpu_graph.compiler import XpuGraph
from xpu_graph.config import OptLevel, Target, XpuGraphConfig
from xpu_graph.environment import read_environment
from xpu_graph.errors import BackendError, ConfigError
from xpu_graph.target import known_targets


class AutoBackend:
    """Compiles for the device its inputs are on, with that target's default vendor compiler.

    ``torch.compile(model, backend="xpu_graph", options={...})`` takes any field of
    ``XpuGraphConfig``; what is not given is ``target`` by the inputs, ``level2``, and
    ``vendor_compiler_config={}``.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[Target, str, pathlib.Path, str], XpuGraph] = {}
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
        if "target" in given:
            target = Target(given["target"])
        else:
            needs_vendor = given.get("vendor_compiler_config", {}) is not None
            target = _target_of(gm, example_inputs, needs_vendor)
        return self.for_target(target)(gm, example_inputs, mode=mode, options=given)

    def for_target(self, target: Target | str) -> XpuGraph:
        """The backend object that serves a target with no further options.

        It is the same object as long as the environment asks for the same.
        """
        target = Target(target)
        secret = os.environb.get(b"XPUGRAPH_CACHE_HMAC_KEY", b"")
        digest = hashlib.sha256(secret).hexdigest()  # a cache keeps the key it was made with
        key = (target, repr(read_environment()), default_cache_path(), digest)
        with self._lock:
            if key not in self._made:
                config = XpuGraphConfig(
                    target=target, opt_level=OptLevel.level2, vendor_compiler_config={}
                )
                self._made[key] = XpuGraph(config)
            return self._made[key]

    def refold(self) -> None:
        """Compute folded parameters again at the next call; see ``XpuGraph.refold``."""
        with self._lock:
            made = list(self._made.values())
        for backend in made:
            backend.refold()

    def __deepcopy__(self, memo: dict[int, Any]) -> AutoBackend:
        return self  # a copy of a compiled model is compiled by the same backend

    def __reduce__(self) -> str:
        return "xpu_graph_backend"

    def reset(self) -> None:
        """Forget what was made; ``torch.compiler.reset()`` calls it."""
        with self._lock:
            self._made.clear()


def _target_of(gm: fx.GraphModule, inputs: Sequence[Any], needs_vendor: bool) -> Target:
    """The target that the inputs' devices stand for; without inputs, those of the graph's tensors.

    A graph without any tensor is for the CPU; one that needs no vendor may be on any device.
    """
    where: dict[str, str] = {}
    for position, value in enumerate(inputs):
        if isinstance(value, torch.Tensor):
            where.setdefault(value.device.type, f"input {position}")
    if not where:
        for node in gm.graph.nodes:
            value = node.meta.get("example_value")
            if isinstance(value, torch.Tensor):
                where.setdefault(value.device.type, f"the result of {node.name!r}")
    if len(where) > 1:
        where.pop("cpu", None)  # a device graph may take numbers and indices from the CPU
    if len(where) > 1:
        places = ", ".join(f"{what} on {name}" for name, what in where.items())
        raise BackendError(f"the graph is on devices of several targets: {places}")
    if not where:
        return Target.cpu
    ((device, what),) = where.items()
    try:
        return Target(device)
    except ConfigError as error:
        if not needs_vendor:
            return Target.none
        raise BackendError(
            f"{what} is on device {device!r}, for which there is no target; "
            f"there are {', '.join(known_targets())}. "
            "options={'target': 'none'} optimises without one"
        ) from error


xpu_graph_backend = AutoBackend()
