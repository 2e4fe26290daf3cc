"""Compares every call of a compiled graph with the same graph as it was before the passes.

The graph that was handed in runs first, on copies of what it writes to and under the same random
state; then the compiled one runs, and its results are the ones the caller gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.artifact import SerializableArtifact, SerializableGraphModule
from xpu_graph.errors import NotCacheable, XpuGraphError


class Interceptor(SerializableArtifact):
    """Runs an artifact and checks it.

    Args:
        artifact: what is checked.
        reference: a copy of the graph it was made from.
        name: the graph's name, for the message.
        tolerances: ``rtol`` and ``atol``; empty for the defaults of ``torch.testing.assert_close``.

    Raises:
        XpuGraphError: on a call whose results differ.
    """

    def __init__(
        self,
        artifact: SerializableArtifact,
        reference: fx.GraphModule,
        name: str,
        tolerances: Mapping[str, float],
    ) -> None:
        self._artifact = artifact
        self._reference = SerializableGraphModule(reference)
        self._name = name
        self._tolerances: dict[str, Any] = dict(tolerances)
        self.compared = 0

    @override
    def __new__(cls, *args: Any, **kwargs: Any) -> Interceptor:
        return object.__new__(cls)

    @override
    def boxed(self, args: list[Any]) -> Any:
        copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        inputs = list(args)
        with torch.random.fork_rng():
            wanted = self._reference(*copies)
        got = self._artifact.boxed(args)
        for position, (left, right) in enumerate(zip(got, wanted, strict=True)):
            self._compare(f"output {position}", left, right)
        for position, (left, right) in enumerate(zip(inputs, copies, strict=True)):
            self._compare(f"input {position}, after the call,", left, right)
        self.compared += 1
        return got

    def _compare(self, what: str, got: Any, wanted: Any) -> None:
        if not isinstance(wanted, torch.Tensor):
            return
        try:
            torch.testing.assert_close(got, wanted, equal_nan=True, **self._tolerances)
        except AssertionError as error:
            raise XpuGraphError(
                f"{what} of {self._name} differs from the graph before the passes: {error}"
            ) from error

    @override
    def members(self) -> dict[str, bytes]:
        raise NotCacheable("an intercepted artifact is for this process only")

    @override
    @classmethod
    def from_members(cls, members: Mapping[str, bytes]) -> Interceptor:
        raise NotCacheable("an intercepted artifact has no stored form")
