"""What is asked of a device that captures graphs, and the devices that torch has modules for.

``torch.cuda`` and ``torch.npu`` have the same words for it, so one class serves both. A package's
module is reached through ``torch``: nothing of a vendor is imported here.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import torch
from typing_extensions import override

from xpu_graph.errors import BackendError, BackendUnavailable

_T = TypeVar("_T")


class CapturedGraph(Protocol):
    """What a capture fills; the graph object of a device."""

    def replay(self) -> None:
        """Run what was captured, on the current stream."""

    def reset(self) -> None:
        """Drop what was captured, and what it holds of the memory pool."""


class GraphDevice(Protocol):
    """A kind of device that captures graphs.

    Attributes:
        type: its name in ``torch.device``.
        captures_random: whether random operators draw anew at each replay.
        namespaces: operators of these, beside torch's own, are known to be safe in a capture.
    """

    type: str
    captures_random: bool
    namespaces: tuple[str, ...]

    def graph(self) -> CapturedGraph:
        """A graph with nothing in it."""

    def stream(self, index: int | None) -> Any:
        """A stream of its own, on a device."""

    def current_stream(self, index: int | None) -> Any:
        """The stream that this thread launches on, on a device."""

    def pool_handle(self) -> Any:
        """A new memory pool for captures."""

    def capture(
        self, graph: CapturedGraph, index: int | None, pool: Any, stream: Any, error_mode: str
    ) -> AbstractContextManager[None]:
        """Capture what is launched inside instead of running it."""

    def is_capturing(self) -> bool:
        """Whether the current stream is being captured, by whomever."""

    def has_plain_layout(self, tensor: torch.Tensor) -> bool:
        """Whether the bytes of the tensor are where its strides say."""

    def synchronize(self, index: int | None) -> None:
        """Wait for all that was launched on a device."""

    def debug_dump(self, graph: CapturedGraph, path: str) -> None:
        """Write what was captured to a file, in the device's own format."""


class TorchDevice:
    """A device whose torch module captures graphs: ``torch.cuda``, ``torch.npu``.

    Args:
        kind: name of the module.
        graph_class: name of its graph class.
        captures_random: see ``GraphDevice``.

    Raises:
        BackendUnavailable: torch has no such module here, or the module captures no graphs.
    """

    def __init__(self, kind: str, graph_class: str, *, captures_random: bool) -> None:
        module: Any = getattr(torch, kind, None)
        if not hasattr(module, graph_class):
            raise BackendUnavailable(
                f"device graphs of {kind!r} need torch.{kind}.{graph_class}, which is not there: "
                "the package that brings it is not installed, or was not imported"
            )
        self.type = kind
        self.captures_random = captures_random
        self.namespaces: tuple[str, ...] = (kind,)
        self._module = module
        self._graph_class = graph_class

    def graph(self) -> CapturedGraph:
        """A graph with nothing in it."""
        made: CapturedGraph = getattr(self._module, self._graph_class)()
        return made

    def stream(self, index: int | None) -> Any:
        """A stream of its own, on a device."""
        return self._module.Stream(device=index)

    def current_stream(self, index: int | None) -> Any:
        """The stream that this thread launches on, on a device."""
        return self._module.current_stream(index)

    def pool_handle(self) -> Any:
        """A new memory pool for captures."""
        return self._module.graph_pool_handle()

    @contextlib.contextmanager
    def capture(
        self, graph: CapturedGraph, index: int | None, pool: Any, stream: Any, error_mode: str
    ) -> Iterator[None]:
        """Capture what is launched inside instead of running it."""
        with self._module.device(index):
            before = self._module.current_stream()
            try:
                with self._module.graph(
                    graph, pool=pool, stream=stream, capture_error_mode=error_mode
                ):
                    yield
            finally:
                # Where ending a capture fails, torch leaves the capture's stream current.
                self._module.set_stream(before)

    def is_capturing(self) -> bool:
        """Whether the current stream is being captured, by whomever."""
        return bool(self._module.is_current_stream_capturing())

    def has_plain_layout(self, tensor: torch.Tensor) -> bool:
        """Whether the bytes of the tensor are where its strides say."""
        return True

    def synchronize(self, index: int | None) -> None:
        """Wait for all that was launched on a device."""
        self._module.synchronize(index)

    def debug_dump(self, graph: CapturedGraph, path: str) -> None:
        """Write what was captured to a file, in the device's own format."""
        graph.debug_dump(path)  # type: ignore[attr-defined]


class NpuDevice(TorchDevice):
    """Ascend. The vendor's documents exclude random operators from captures."""

    def __init__(self) -> None:
        super().__init__("npu", "NPUGraph", captures_random=False)
        self.namespaces = ("npu", "npu_define", "atb")

    @override
    def has_plain_layout(self, tensor: torch.Tensor) -> bool:
        """Private formats, fractal NZ among them, hold the elements in an order of their own."""
        return int(torch.ops.npu.get_npu_format(tensor)) in _NPU_PLAIN_FORMATS


_NPU_PLAIN_FORMATS = (0, 1, 2, 30, 35)
"""NCHW, NHWC, ND, NCDHW and NDHWC in the aclFormat enumeration."""

DEVICES: dict[str, Callable[[], GraphDevice]] = {
    "npu": NpuDevice,
    "cuda": lambda: TorchDevice("cuda", "CUDAGraph", captures_random=True),
}
"""Type of device -> makes what captures its graphs."""


def graph_device(kind: str) -> GraphDevice:
    """What captures graphs on a type of device.

    Raises:
        BackendError: nothing does.
        BackendUnavailable: it is not installed here.
    """
    if kind not in DEVICES:
        raise BackendError(
            f"no device graphs for device type {kind!r}; there are for {', '.join(DEVICES)}"
        )
    return DEVICES[kind]()


_one_capture = threading.RLock()
"""Held during a capture: a process can have one at a time."""

_streams: dict[tuple[str, int | None, Any], Any] = {}
"""The capture stream of each pool that graphs share, by type and index of device."""


def shared_stream(device: GraphDevice, index: int | None, pool: Any) -> Any:
    """The one stream for all captures in a pool: the allocator reuses a block per stream only."""
    key = (device.type, index, pool)
    with _one_capture:
        if key not in _streams:
            _streams[key] = device.stream(index)
        return _streams[key]


def record(
    device: GraphDevice,
    index: int | None,
    pool: Any,
    stream: Any,
    error_mode: str,
    function: Callable[[], _T],
) -> tuple[CapturedGraph, _T]:
    """Capture a function; nothing it launches runs before the graph is replayed.

    Returns:
        The graph, and what the function returned.

    Raises:
        Exception: what the function raised, or the device at the end of the capture.
    """
    graph = device.graph()
    failure: Exception | None = None
    try:
        with _one_capture, device.capture(graph, index, pool, stream, error_mode):
            try:
                result = function()
            except Exception as error:  # kept: ending the broken capture raises one that says less
                failure = error
                raise
    except Exception:  # whatever it was, the graph is of no use
        with contextlib.suppress(RuntimeError):  # a device may refuse to reset a half-made graph
            graph.reset()
        if failure is not None:
            raise failure from None
        raise
    return graph, result
