"""Compares every call of a compiled graph with the same graph as it was before the passes.

The graph that was handed in runs first, on copies of its inputs and under the same random state;
then the compiled one runs, and its results are the ones the caller gets. Operators that change
something beside their tensors (a collective, a custom operator that counts) run twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from typing_extensions import override

from xpu_graph.artifact import SerializableArtifact, SerializableGraphModule
from xpu_graph.debug.memory import copies_of, sharing
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
        returned = pytree.tree_leaves(reference.graph.output_node().args[0])
        self._outputs = [f"output {i} ({leaf})" for i, leaf in enumerate(returned)]
        self._inputs = [
            f"input {i} ({node.name})"
            for i, node in enumerate(reference.graph.find_nodes(op="placeholder"))
        ]
        self._reference = SerializableGraphModule(reference)
        self._name = name
        self._tolerances: dict[str, Any] = dict(tolerances)
        self.compared = 0

    @override
    def boxed(self, args: list[Any]) -> Any:
        inputs, copies = list(args), copies_of(args)
        with _same_random_state(inputs):
            wanted = self._reference(*copies)
        got = self._artifact.boxed(args)
        if len(got) != len(wanted):
            raise self._difference("the number of outputs", f"{len(wanted)} became {len(got)}")
        for what, left, right in zip(self._outputs, got, wanted, strict=True):
            self._compare(what, left, right)
        for what, left, right in zip(self._inputs, inputs, copies, strict=True):
            self._compare(f"{what}, after the call,", left, right)
        self._compare_sharing([*inputs, *got], [*copies, *wanted])
        self.compared += 1
        return got

    def _compare(self, what: str, got: Any, wanted: Any) -> None:
        if isinstance(wanted, torch.Tensor):
            try:
                torch.testing.assert_close(got, wanted, equal_nan=True, **self._tolerances)
            except AssertionError as error:
                raise self._difference(what, str(error)) from error
        elif type(got) is not type(wanted) or repr(got) != repr(wanted):
            raise self._difference(what, f"{wanted!r} became {got!r}")

    def _compare_sharing(self, got: Sequence[Any], wanted: Sequence[Any]) -> None:
        names = [*self._inputs, *self._outputs]
        for what, mine, before in zip(names, sharing(got), sharing(wanted), strict=True):
            if mine != before:
                now, then = (names[at] if at >= 0 else "nothing" for at in (mine, before))
                raise self._difference(what, f"its memory is that of {now}, not of {then}")

    def _difference(self, what: str, how: str) -> XpuGraphError:
        return XpuGraphError(
            f"{what} of {self._name} differs from the graph before the passes: {how}"
        )

    @override
    def members(self) -> dict[str, bytes]:
        raise NotCacheable("an intercepted artifact is for this process only")

    @override
    @classmethod
    def from_members(cls, members: Mapping[str, bytes]) -> Interceptor:
        raise NotCacheable("an intercepted artifact has no stored form")


def _same_random_state(values: Sequence[Any]) -> AbstractContextManager[None]:
    """Put back, at the end, the random state of the CPU and of the device the tensors are on."""
    places = {v.device for v in values if isinstance(v, torch.Tensor)}
    places = {place for place in places if place.type not in ("cpu", "meta")}
    kind = min((place.type for place in places), default="cuda")
    indices = sorted({place.index or 0 for place in places if place.type == kind})
    return torch.random.fork_rng(devices=indices, device_type=kind)
