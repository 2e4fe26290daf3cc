"""One captured step: its keys, its memory, its captures.

What a kernel of a captured graph reads is at an address that was fixed when it was captured. So a
piece owns a buffer for each input that may come from anywhere, and copies it there before each
replay; of everything else the addresses are part of the key. Capturing runs nothing: the first
call replays like all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from typing_extensions import override

from xpu_graph.backends.device_graph.device import CapturedGraph, record
from xpu_graph.backends.device_graph.input_facts import InputFacts
from xpu_graph.backends.device_graph.memory import buffer_for, fill
from xpu_graph.backends.device_graph.options import DeviceGraphOptions
from xpu_graph.backends.device_graph.place import Place
from xpu_graph.backends.device_graph.plan import Handling, Plan
from xpu_graph.backends.device_graph.steps import Part
from xpu_graph.errors import BackendError

Key = tuple[tuple[Any, ...], tuple[int, ...]]
"""Numbers and layouts of the inputs; addresses of those that are not copied."""


@dataclass
class Counts:
    """What became of the calls of one artifact.

    Attributes:
        captured: captures made, the first of each piece included.
        recaptured: captures that were not the first of their piece, by reason: ``"new shape"``
            (or number), ``"moved"`` (a tensor that is not copied), ``"force_recapture"``.
        fallback: calls that ran eagerly, by reason: ``"capture_limit"``, ``"nested capture"``.
    """

    captured: int = 0
    recaptured: Counter[str] = field(default_factory=Counter)
    fallback: Counter[str] = field(default_factory=Counter)


class CaptureLimitError(Exception):
    """A piece would need one key too many; never leaves the package."""


@dataclass
class _Capture:
    """One captured graph.

    Attributes:
        graph: the device's.
        buffers: memory for the inputs that are copied, by position.
        outputs: what the graph writes; each replay writes it again.
        kept: tensors whose addresses are not checked.
        seen: their addresses, by position.
    """

    graph: CapturedGraph
    buffers: dict[int, torch.Tensor]
    outputs: list[Any]
    kept: list[torch.Tensor]
    seen: dict[int, int]


class Piece:
    """Captures a step, and replays it.

    Args:
        part: the step, as a module.
        plan: of the whole graph.
        options: how.
        place: where.
        counts: told of captures.
        name: for messages.
        checks_frozen: whether frozen parameters are looked at after all.
    """

    def __init__(
        self,
        part: Part,
        plan: Plan,
        options: DeviceGraphOptions,
        place: Place,
        counts: Counts,
        name: str,
        *,
        checks_frozen: bool = False,
    ) -> None:
        self._part = part
        self._plan = plan
        self._options = options
        self._place = place
        self._counts = counts
        self._name = name
        self._checks_frozen = checks_frozen
        self._captures: dict[Key, _Capture] = {}
        self._facts: dict[int, InputFacts] = {
            position: plan.input_facts[number]
            for position, number in enumerate(part.step.inputs)
            if number in plan.input_facts
        }
        copied = (Handling.given, Handling.lent) if options.clone_input else (Handling.lent,)
        self._ways = [_way(h, copied, options.frozen_parameter) for h in part.step.handling]
        self._written = [n for n, h in enumerate(part.step.handling) if h is Handling.written]

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Replay the step for these inputs; captures it first where that has not been done.

        Returns:
            Its outputs, in memory that the next call writes again.

        Raises:
            CaptureLimitError: it would be one key too many.
            BackendError: the capture failed, or an input is not what the graph was traced for.
        """
        key = self._key(inputs)
        capture = self._captures.get(key)
        if capture is None or self._options.force_recapture:
            capture = self._capture(inputs, key, capture)
        elif self._checks_frozen:
            self._check_frozen(inputs, capture)
        pairs = [(buffer, inputs[n]) for n, buffer in capture.buffers.items()]
        fill(pairs, self._place.device.has_plain_layout)
        capture.graph.replay()
        # Python ran no operator, so nobody else tells autograd that these have changed.
        changed = [*(inputs[n] for n in self._written), *_tensors(capture.outputs)]
        torch.autograd.graph.increment_version([t for t in changed if not t.is_inference()])
        return capture.outputs

    def free(self) -> None:
        """Drop all captures and their memory."""
        captures = list(self._captures.values())
        self._captures.clear()
        for capture in captures:
            capture.graph.reset()

    def graphs(self) -> Iterator[CapturedGraph]:
        """The graphs that are held."""
        yield from (capture.graph for capture in self._captures.values())

    # --- the key ------------------------------------------------------------------------------

    def _key(self, inputs: Sequence[Any]) -> Key:
        facts: list[Any] = []
        addresses: list[int] = []
        for value, way in zip(inputs, self._ways, strict=True):
            if way == _NUMBER:
                facts.append(_exactly(value))
            elif way != _FROZEN:
                facts.append((value.dtype, value.device, value.shape, value.stride()))
                if way == _ADDRESS and not self._options.force_recapture:
                    addresses.append(value.data_ptr())
        return tuple(facts), tuple(addresses)

    def _reason(self, key: Key) -> str | None:
        """Why a capture is not the first one."""
        if key in self._captures:
            return "force_recapture"
        if not self._captures:
            return None
        return "moved" if any(known[0] == key[0] for known in self._captures) else "new shape"

    def _check_frozen(self, inputs: Sequence[Any], capture: _Capture) -> None:
        for position, address in capture.seen.items():
            if inputs[position].data_ptr() != address:
                raise BackendError(
                    f"{self._name}: frozen_parameter=True says that parameters stay where they "
                    f"are, but input {self._part.step.inputs[position]} has moved; the graph would "
                    "read the old one"
                )

    # --- capturing ----------------------------------------------------------------------------

    def _capture(self, inputs: Sequence[Any], key: Key, old: _Capture | None) -> _Capture:
        if old is None and len(self._captures) >= self._options.capture_limit:
            raise CaptureLimitError
        self._check_facts(inputs)
        reason = self._reason(key)
        made = self._record(inputs)
        self._captures[key] = made
        self._counts.captured += 1
        if reason is not None:
            self._counts.recaptured[reason] += 1
        if old is not None:  # only now, so that its memory was not given to the new one
            self._place.device.synchronize(self._place.index)
            old.graph.reset()
        return made

    def _check_facts(self, inputs: Sequence[Any]) -> None:
        for position, facts in self._facts.items():
            difference = facts.difference(inputs[position])
            if difference is not None:
                raise BackendError(
                    f"{self._name}: input {self._part.step.inputs[position]} has {difference}; "
                    "the graph has to be compiled again for it"
                )

    def _record(self, inputs: Sequence[Any]) -> _Capture:
        place = self._place
        with torch.inference_mode(False):  # they are filled outside of it, too
            buffers = {n: buffer_for(inputs[n]) for n, w in enumerate(self._ways) if w == _COPIED}
        values = [buffers.get(position, value) for position, value in enumerate(inputs)]
        # Only in inference mode may an inference tensor be written to.
        mode = any(inputs[position].is_inference() for position in self._written)
        with torch.inference_mode(mode), torch.no_grad():
            recorder = _Recorder(self._part.module)
            try:
                graph, outputs = record(
                    place.device,
                    place.index,
                    place.pool,
                    place.stream,
                    self._options.capture_error_mode,
                    lambda: recorder.run(*values),
                )
            except Exception as error:  # an operator or the device may raise anything; it is named
                place.renew()
                raise BackendError(self._failure(recorder.at, error)) from error
        frozen = [n for n, way in enumerate(self._ways) if way == _FROZEN]
        kept = [inputs[position].detach() for position in frozen]
        seen = {position: inputs[position].data_ptr() for position in frozen}
        return _Capture(graph, buffers, outputs, kept, seen)

    def _failure(self, at: fx.Node | None, error: Exception) -> str:
        number = self._part.number_of.get(at) if at is not None else None
        if at is None or at.op == "output" or number is None:
            where = "when the capture ended"
        else:
            where = f"at {at.target} ({at.name})"
            if number in self._plan.lines:
                where += f", from {self._plan.lines[number]}"
        return (
            f"capturing {self._name} failed {where}: {type(error).__name__}: {error}. "
            "Nothing of it is kept; force_eager=True runs the graph without captures"
        )


_NUMBER, _COPIED, _ADDRESS, _FROZEN = range(4)


def _way(handling: Handling, copied: Sequence[Handling], is_frozen: bool) -> int:
    if handling is Handling.number:
        return _NUMBER
    if handling in copied:
        return _COPIED
    return _FROZEN if handling is Handling.static and is_frozen else _ADDRESS


def _exactly(value: Any) -> Any:
    """Something to compare numbers by: 1, 1.0 and True differ, and so do zeros by their sign."""
    return (type(value), repr(value)) if isinstance(value, (float, complex, bool)) else value


class _Recorder(fx.Interpreter):
    """Runs a module node by node, and knows where it is."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self.at: fx.Node | None = None

    @override
    def run_node(self, n: fx.Node) -> Any:
        self.at = n
        return super().run_node(n)


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]
