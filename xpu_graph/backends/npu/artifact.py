"""A graph that the vendor compiled, with what its call needs around it.

The vendor checks shapes at the first call only, returns the object it captured, and leaves a graph
behind that cannot be called again when its first call fails. All of it is made good here, so a
fresh compilation and a stored one behave alike.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from typing_extensions import override

from xpu_graph.artifact import SerializableArtifact, nest, unnest
from xpu_graph.backends.npu import engines
from xpu_graph.backends.npu.call_checks import InputCheck, InputChecker
from xpu_graph.errors import BackendError, CacheError, NotCacheable
from xpu_graph.tensor_codec import decode_tensors, encode_tensors, layout_of, span_of, with_layout
from xpu_graph.torch_compat import DYNAMO_CONTROL_FLOW, custom_operators_unchecked

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CallPlan:
    """What a call has to do, as plain data.

    Attributes:
        mode: the mode of compiler ``ge``.
        device: index of the NPU that the graph runs on.
        inputs: what the user's inputs have to look like; see ``call_checks``.
        taken: positions of the vendor's inputs among all values; see ``vendor_graph``. What
            follows speaks of the vendor's inputs.
        copied: inputs that are not static and not written to.
        orders: inputs that are permuted first, and how.
        mutated: inputs that the graph writes to.
        folded: inputs made by the fold part, whose memory moves when they are folded again.
        trusts_addresses: whether the vendor never looks at where static inputs are.
        keeps_inputs: whether the vendor reads the caller's tensors where they are.
        runs_twice: whether the first call runs the graph on the real inputs once more.
        lines: where the user's program made the nodes, by name, for messages.
    """

    mode: str
    device: int
    inputs: list[InputCheck]
    taken: list[int]
    copied: list[int]
    orders: dict[int, tuple[int, ...]]
    mutated: list[int]
    folded: list[int]
    trusts_addresses: bool
    keeps_inputs: bool
    runs_twice: bool
    lines: dict[str, str]


class NpuSerializableArtifact(SerializableArtifact):
    """A graph compiled by torchair or npugraph_ex.

    Outputs live in memory of the captured graph in the two modes that capture: the next call
    overwrites them, unless option ``clone_output`` is on or another thread calls.

    Args:
        plan: what a call has to do.
        compiled: what the vendor made; None to make it of ``code``.
        code: gives the vendor's text of the graph, or raises NotCacheable.
        before: computes further values of the inputs, on the host; None where there are none.
        eager: the graph that was compiled, to run operator by operator inside a capture of someone
            else's, where no graph can be captured or replayed.
        after: makes the graph's outputs out of all values and the vendor's outputs; None where
            they are the vendor's outputs.
        constants: tensors that the graph owned.
    """

    kind = "npu"

    def __init__(
        self,
        plan: CallPlan,
        compiled: Callable[..., Any] | None,
        code: Callable[[], str],
        *,
        before: SerializableArtifact | None,
        eager: SerializableArtifact,
        after: SerializableArtifact | None,
        constants: Sequence[torch.Tensor],
    ) -> None:
        self._plan = plan
        self._code = code
        self._before = before
        self._eager = eager
        self._after = after
        self._constants = list(constants)
        self._compiled = compiled
        self._device = torch.get_device_module("npu")
        self._lock = threading.Lock()
        self._checker = InputChecker(plan.inputs)
        self._owner = threading.get_ident()
        self._clones = False
        self._called = False
        self._folded_at: list[int] | None = None
        self.counts = {"inside a capture": 0, "rebuilt": 0}

    @override
    def boxed(self, args: list[Any]) -> Any:
        plan = self._plan
        values = [*args]
        args.clear()
        self._checker.check(values)
        if self._before is not None:
            values += self._before.boxed([*values])
        values += self._constants
        inputs = [values[position] for position in plan.taken]
        for position, order in plan.orders.items():
            inputs[position] = inputs[position].permute(order)
        if self._device.current_device() != plan.device:
            with self._device.device(plan.device):
                results = self._run(inputs)
        else:
            results = self._run(inputs)
        return results if self._after is None else self._after.boxed([*values, *results])

    def _run(self, inputs: list[Any]) -> list[torch.Tensor]:
        if self._device.is_current_stream_capturing():
            return self._run_inside_a_capture(inputs)
        with self._lock, self._ordinary_results(), custom_operators_unchecked():
            if threading.get_ident() != self._owner:
                self._clones = True  # a thread's outputs must survive the other threads' calls
            if self._plan.keeps_inputs:
                self._give_whole_storages(inputs)
            compiled = self._ready(inputs)
            snapshots = self._snapshots(inputs)
            try:
                results = compiled(*inputs)
                if snapshots:
                    for position, content in snapshots.items():
                        inputs[position].copy_(content)
                    results = compiled(*inputs)
            except DYNAMO_CONTROL_FLOW:
                raise
            except (Exception, SystemExit) as error:  # vendor code; its deadlock check exits
                self._compiled = None  # what failed once stays half made: it is not called again
                raise BackendError(self._describe(error)) from error
            self._called = True
            return [
                result.clone() if self._clones or result.is_inference() else result.view_as(result)
                for result in results
            ]

    @contextlib.contextmanager
    def _ordinary_results(self) -> Iterator[None]:
        """Give results that are ordinary tensors, whose views know what they view.

        The vendor returns the same object at every call, and learns through a weak reference to it
        whether its memory is in use when it captures again. So the caller gets a view, which keeps
        the object while anything of it is held. In inference mode no view does; leaving it is
        possible where no input, which may be a tensor of that mode, is written to. Else the
        results are copied.
        """
        if torch.is_inference_mode_enabled() and not self._plan.mutated:
            with torch.inference_mode(False), torch.no_grad():
                yield
        else:
            yield

    def _ready(self, inputs: Sequence[Any]) -> Callable[..., Any]:
        """The compiled graph; made again after a failure, or where trusted memory moved."""
        if self._plan.trusts_addresses and self._plan.folded:
            places = [inputs[position].data_ptr() for position in self._plan.folded]
            if self._folded_at is not None and places != self._folded_at:
                self._compiled = None
            self._folded_at = places
        if self._compiled is None:
            self._compiled = engines.load(self._code(), self._plan.mode)
            self.counts["rebuilt"] += self._called
            self._called = False
        return self._compiled

    def _run_inside_a_capture(self, inputs: list[Any]) -> list[torch.Tensor]:
        self.counts["inside a capture"] += 1
        if self.counts["inside a capture"] == 1:
            log.warning(
                "a compiled graph was called while the program captures a graph of its own; it ran "
                "operator by operator into that capture"
            )
        return list(self._eager(*inputs))

    def _give_whole_storages(self, inputs: list[Any]) -> None:
        """The vendor takes a view for the tensor it captured if their storages begin alike."""
        for position in self._plan.mutated:
            offset = inputs[position].storage_offset()
            if offset:
                raise BackendError(
                    f"clone_input=False: input {self._plan.taken[position]} is written to and "
                    f"begins {offset} elements into its storage, which the vendor mistakes for its "
                    "beginning; use clone_input=True, or a tensor of its own"
                )
        for position in self._plan.copied:
            if inputs[position].storage_offset():
                inputs[position] = inputs[position].clone(memory_format=torch.preserve_format)

    def _snapshots(self, inputs: Sequence[Any]) -> dict[int, torch.Tensor]:
        """Written inputs before a first call that runs the graph once more than it should."""
        if self._called or not self._plan.runs_twice:
            return {}
        return {position: inputs[position].clone() for position in self._plan.mutated}

    def _describe(self, error: BaseException) -> str:
        try:
            code = self._code()
        except NotCacheable:
            code = None
        place = engines.describe_failure(error, code, self._plan.lines)
        hint = ""
        if "stale" in str(error):
            hint = (
                "; outputs of earlier calls are still held, or given back as inputs, while the "
                "graph is captured for other parameters or sizes: use clone_output=True, or "
                "reuse_graph_pool_in_same_fx=False"
            )
        return f"running what compiler 'ge' made in mode {self._plan.mode!r} failed{place}{hint}"

    @override
    def members(self) -> dict[str, bytes]:
        constants = {f"constant_{i}": tensor for i, tensor in enumerate(self._constants)}
        plan = asdict(self._plan)
        plan["constants"] = {name: layout_of(tensor) for name, tensor in constants.items()}
        spans = {name: span_of(tensor).cpu() for name, tensor in constants.items()}
        return {
            "code.py": self._code().encode(),
            "call.json": json.dumps(plan).encode(),
            "constants.safetensors": encode_tensors(spans),
            **nest("eager", self._eager),
            **(nest("before", self._before) if self._before is not None else {}),
            **(nest("after", self._after) if self._after is not None else {}),
        }

    @override
    @classmethod
    def from_members(cls, members: Mapping[str, bytes]) -> NpuSerializableArtifact:
        try:
            plan = json.loads(members["call.json"])
            code = members["code.py"].decode()
            layouts = plan.pop("constants")
            spans = decode_tensors(members["constants.safetensors"])
            device = torch.device("npu", plan["device"])
            constants = [
                with_layout(spans[name].to(device), layout) for name, layout in layouts.items()
            ]
            plan["inputs"] = [InputCheck(**check) for check in plan["inputs"]]
            plan["orders"] = {int(i): tuple(order) for i, order in plan["orders"].items()}
            call = CallPlan(**plan)
        except (LookupError, ValueError, TypeError, RuntimeError) as error:
            raise CacheError(f"the stored graph cannot be read: {error!r}") from error
        return cls(
            call,
            engines.load(code, call.mode),
            lambda: code,
            before=unnest("before", members) if "before.kind" in members else None,
            eager=unnest("eager", members),
            after=unnest("after", members) if "after.kind" in members else None,
            constants=constants,
        )
