"""Every test starts without compiled code, with its own caches, and with every rule verified."""

import os
from collections import deque

import pytest

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")  # tests/npu loads torch_npu itself
os.environ.setdefault("OMP_NUM_THREADS", "1")  # as many processes as cores run at once

import torch

from xpu_graph.debug import report


@pytest.fixture(autouse=True, scope="session")
def _inductor_cache(tmp_path_factory):
    """One Inductor cache a test process: its kernels are compiled once, and nothing is left."""
    patch = pytest.MonkeyPatch()
    patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path_factory.mktemp("inductor")))
    yield
    patch.undo()


@pytest.fixture(autouse=True)
def _fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("XPUGRAPH_CACHE_DIR", str(tmp_path / "xpu_graph_cache"))
    monkeypatch.setenv("XPUGRAPH_VERIFY", "each")
    monkeypatch.setattr(report, "_RECENT", deque(maxlen=report.KEPT_REPORTS))
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


@pytest.fixture
def call():
    """Makes a lone call node of a target and arguments; tensors become placeholders."""

    def call(target, *args, **kwargs):
        graph = torch.fx.Graph()

        def lift(value):
            if not isinstance(value, torch.Tensor):
                return value
            node = graph.placeholder("x")
            node.meta["val"] = value
            return node

        return graph.call_function(target, tuple(map(lift, args)), kwargs)

    return call
