"""A device that captures, on the CPU: what a test of captured graphs needs of a real one.

Inside a capture nothing is computed. Fresh memory is poisoned, a replay reads and writes the
memory that was there when it was captured, and what the host must not do in a capture fails.
"""

import contextlib
import threading

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from xpu_graph.backends.device_graph import DeviceGraphOptions, device_graph_compiler
from xpu_graph.backends.device_graph import device as devices

aten = torch.ops.aten
HOST_READS = (aten._local_scalar_dense.default, aten.nonzero.default, aten.equal.default)


class Graph:
    def __init__(self, device):
        self.device = device
        self.tasks = []
        self.replays = 0
        self.is_whole = False

    def replay(self):
        assert self.is_whole, "the graph holds no finished capture"
        assert not self.device.is_capturing(), "a replay inside a capture"
        self.replays += 1
        for task in self.tasks:
            task()

    def reset(self):
        self.tasks, self.is_whole = [], False


class Recording(TorchDispatchMode):
    """Turns what is called into tasks of a graph."""

    def __init__(self, device, graph):
        super().__init__()
        self.device, self.graph = device, graph

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        self.device.captured.append(str(func))
        if self.device.failing is func:
            raise RuntimeError(f"{func} is illegal in a capture")
        if func in HOST_READS or torch.Tag.nondeterministic_seeded in func.tags:
            raise RuntimeError(f"{func} synchronises, which is illegal in a capture")
        if func.is_view:
            return func(*args, **kwargs)
        # A parameter can be given other memory later; a kernel keeps the address.
        args, kwargs = pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (args, kwargs))
        if func._schema.is_mutable:
            self.graph.tasks.append(unchecked(lambda: func(*args, **kwargs), args[0]))
            return args[0] if func._schema.returns else None
        outputs = func(*args, **kwargs)
        flat = [leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
        for tensor in flat:
            poison(tensor)

        def task():
            for old, new in zip(flat, pytree.tree_leaves(func(*args, **kwargs)), strict=True):
                old.copy_(new)

        if "empty" not in str(func):
            self.graph.tasks.append(unchecked(task, flat[0]))
        return outputs


def unchecked(task, written):
    """A task that autograd does not look at, as it does not look at kernels that are replayed."""

    def run():
        with torch.inference_mode(written.is_inference()), torch.no_grad():
            task()

    return run


def poison(tensor):
    if tensor.numel():
        tensor.fill_(float("nan") if tensor.dtype.is_floating_point else 77)


class Stream:
    def __init__(self):
        self.waited = []

    def wait_stream(self, other):
        self.waited.append(other)


class Double:
    """The device; one instance a test."""

    type = "cpu"
    captures_random = False
    namespaces = ("trusted",)

    def __init__(self):
        self._here = threading.local()
        self.graphs, self.pools, self.modes, self.captured, self.dumps = [], [], [], [], []
        self.streams_of_captures = []
        self.failing = None
        self.fails_at_end = False
        self.current = Stream()

    def graph(self):
        self.graphs.append(Graph(self))
        return self.graphs[-1]

    def stream(self, index):
        return Stream()

    def current_stream(self, index):
        return self.current

    def pool_handle(self):
        return (0, object())

    @contextlib.contextmanager
    def capture(self, graph, index, pool, stream, error_mode):
        assert not self.is_capturing(), "already capturing"
        self.pools.append(pool)
        self.modes.append(error_mode)
        self.streams_of_captures.append(stream)
        self._here.capturing = True
        try:
            with Recording(self, graph):
                yield
            if self.fails_at_end:
                raise RuntimeError("the capture was invalidated")
            graph.is_whole = True
        finally:
            self._here.capturing = False

    def is_capturing(self):
        return getattr(self._here, "capturing", False)

    def has_plain_layout(self, tensor):
        return True

    def synchronize(self, index):
        assert not self.is_capturing()

    def debug_dump(self, graph, path):
        self.dumps.append((graph, path))

    @property
    def live(self):
        """The graphs that hold a capture."""
        return [graph for graph in self.graphs if graph.is_whole]


@pytest.fixture
def double(monkeypatch):
    made = Double()
    monkeypatch.setitem(devices.DEVICES, "cpu", lambda: made)
    monkeypatch.setattr(devices, "_streams", {})
    return made


@pytest.fixture(autouse=True)
def _poisoned_memory():
    """Memory that nobody has written reads as NaN, so that reading it shows."""
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)


@pytest.fixture
def traced():
    """Makes the ATen graph of a function, in-place operators left as they are."""

    def traced(function, *inputs, tracing_mode="fake"):
        with torch.no_grad():
            return make_fx(function, tracing_mode=tracing_mode)(*inputs)

    return traced


@pytest.fixture
def compiled(double, traced):
    """Makes the artifact of a function that returns a list."""

    def compiled(function, *inputs, static=(), tracing_mode="fake", **options):
        return device_graph_compiler(
            traced(function, *inputs, tracing_mode=tracing_mode),
            inputs,
            device_type="cpu",
            static_inputs=static,
            options=DeviceGraphOptions(**options),
        )

    return compiled
