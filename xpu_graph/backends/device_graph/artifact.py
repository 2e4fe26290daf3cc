"""The artifact of a graph whose device part is captured when it first runs."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch.utils import _pytree as pytree
from typing_extensions import override

from xpu_graph.artifact import SerializableArtifact, SerializableGraphModule, nest, unnest
from xpu_graph.backends.device_graph.device import graph_device
from xpu_graph.backends.device_graph.memory import copy_of
from xpu_graph.backends.device_graph.options import DeviceGraphOptions
from xpu_graph.backends.device_graph.piece import CaptureLimitError, Counts, Piece
from xpu_graph.backends.device_graph.place import Place
from xpu_graph.backends.device_graph.plan import Plan
from xpu_graph.backends.device_graph.steps import Part, cut
from xpu_graph.environment import read_environment
from xpu_graph.errors import CacheError, NotCacheable

log = logging.getLogger(__name__)


class DeviceGraphArtifact(SerializableArtifact):
    """A graph whose captured steps are replayed, with eager ones in between.

    The outputs are new tensor objects at each call, in memory that the next call of the artifact
    writes again, and so may any graph in the same pool. ``clone_output`` gives copies that last.
    Outputs that are views of inputs are views of the caller's tensors.

    Calls from several threads take turns. Threads that use outputs while others call want
    ``clone_output``.

    Args:
        graph: the whole graph, operator by operator.
        plan: what of it is captured.
        options: how.
        device_type: the type of the device that captures.

    Attributes:
        plan: what of the graph is captured; ``plan.reasons`` says why a call is not.
        options: how.
        counts: what became of the calls.
    """

    kind = "device_graph"

    def __init__(
        self,
        graph: SerializableGraphModule,
        plan: Plan,
        options: DeviceGraphOptions,
        device_type: str,
    ) -> None:
        self.plan = plan
        self.options = options
        self.counts = Counts()
        self._graph = graph
        self._device_type = device_type
        self._lock = threading.RLock()
        self._parts: list[Part] = cut(graph.gm, plan)
        self._inputs = [
            number for number, node in enumerate(graph.gm.graph.nodes) if node.op == "placeholder"
        ]
        self._volatile = {n for step in plan.steps if step.captured for n in step.outputs}
        self._captures = not options.force_eager and any(step.captured for step in plan.steps)
        self._pieces: dict[int, Piece] = {}
        self._place: Place | None = None
        self._stream: Any = None

    @override
    def boxed(self, args: list[Any]) -> Any:
        if not self._captures:
            return self._graph.boxed(args)
        with self._lock:
            place = self._ready()
            if place.device.is_capturing():
                self._fall_back("nested capture", "it is called while its stream is captured")
            elif "capture_limit" in self.counts.fallback:
                self.counts.fallback["capture_limit"] += 1
            else:
                return self._run(args, place)
        return self._graph.boxed(args)

    def debug_dump(self, prefix: str) -> list[str]:
        """Write each captured graph to a file, in the device's own format.

        Args:
            prefix: what the paths begin with.

        Returns:
            The paths.
        """
        paths = []
        with self._lock:
            for number, piece in self._pieces.items():
                for count, graph in enumerate(piece.graphs()):
                    paths.append(f"{prefix}piece{number}_{count}.json")
                    self._ready().device.debug_dump(graph, paths[-1])
        return paths

    def _ready(self) -> Place:
        """Where captures are made; found at the first call, since loading needs no device."""
        if self._place is None:
            device, options = graph_device(self._device_type), self.options
            place = Place(device, self.plan.device_index, options.use_graph_pool)
            debug = read_environment().settings.get("debug")
            captured = [number for number, part in enumerate(self._parts) if part.step.captured]
            for count, number in enumerate(captured, start=1):
                self._pieces[number] = Piece(
                    self._parts[number],
                    self.plan,
                    options,
                    place,
                    self.counts,
                    f"piece {count} of {len(captured)} of a device graph on {self._device_type}",
                    checks_frozen=debug is not None and bool(debug.value),
                )
            self._place = place
        return self._place

    def _fall_back(self, event: str, why: str) -> None:
        self.counts.fallback[event] += 1
        if self.counts.fallback[event] == 1:
            log.warning("a device graph runs eagerly: %s", why)

    # --- one call -----------------------------------------------------------------------------

    def _run(self, args: list[Any], place: Place) -> Any:
        self._join_streams(place)
        values = dict(zip(self._inputs, args, strict=True))
        args.clear()
        for number, part in enumerate(self._parts[:-1]):
            inputs = _taken(values, part)
            piece = self._pieces.get(number)
            outputs = self._replay(piece, inputs) if piece is not None else None
            if outputs is None:
                outputs = part.module(*inputs)
            del inputs
            values.update(zip(part.step.outputs, outputs, strict=True))
        last = self._parts[-1]
        if self.options.clone_output:
            for number in self._volatile.intersection(last.step.inputs):
                values[number] = pytree.tree_map_only(torch.Tensor, copy_of, values[number])
        return last.module(*_taken(values, last))

    def _replay(self, piece: Piece, inputs: list[Any]) -> list[Any] | None:
        """The outputs of a piece as objects of this call; None where it has to run eagerly."""
        if "capture_limit" in self.counts.fallback:
            return None
        try:
            outputs = piece(inputs)
        except CaptureLimitError:
            self._free(f"a piece of it would have more than {self.options.capture_limit} captures")
            return None
        return [pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, o) for o in outputs]

    def _free(self, why: str) -> None:
        place = self._ready()
        place.device.synchronize(place.index)
        for piece in self._pieces.values():
            piece.free()
        self._fall_back("capture_limit", f"{why}; all its captures are freed")

    def _join_streams(self, place: Place) -> None:
        """Let this stream wait for the one that used the buffers before."""
        stream = place.device.current_stream(place.index)
        if self._stream is not None and stream != self._stream:
            stream.wait_stream(self._stream)
        self._stream = stream

    # --- the stored form ----------------------------------------------------------------------

    @override
    def members(self) -> dict[str, bytes]:
        if self.options.use_graph_pool is not None:
            raise NotCacheable("use_graph_pool names a memory pool of this process")
        how = {
            "plan": self.plan.as_data(),
            "options": asdict(self.options),
            "device_type": self._device_type,
        }
        return {"device_graph.json": json.dumps(how).encode(), **nest("graph", self._graph)}

    @override
    @classmethod
    def from_members(cls, members: Mapping[str, bytes]) -> DeviceGraphArtifact:
        try:
            how = json.loads(members["device_graph.json"])
            options = DeviceGraphOptions(**how["options"])
            plan, device_type = Plan.from_data(how["plan"]), str(how["device_type"])
        except (LookupError, ValueError, TypeError, AttributeError) as error:
            raise CacheError(f"the stored plan cannot be read: {error!r}") from error
        graph = unnest("graph", members)
        if not isinstance(graph, SerializableGraphModule):
            raise CacheError(f"the stored graph is a {graph.kind!r}")
        try:
            return cls(graph, plan, options, device_type)
        except LookupError as error:
            raise CacheError(f"the stored plan is not for the graph: {error!r}") from error


def _taken(values: dict[int, Any], part: Part) -> list[Any]:
    """The inputs of a part; what nobody needs afterwards is not kept alive."""
    inputs = [values[number] for number in part.step.inputs]
    for number in part.done_with:
        del values[number]
    return inputs
