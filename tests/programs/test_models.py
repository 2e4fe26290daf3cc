"""How a program is written: breaks, containers, modes, dtypes, layouts, random draws."""

import dataclasses
from typing import NamedTuple

import pytest
import torch
from torch.nn import functional

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.testing import assert_same, check_against_eager


def ramp(*shape, dtype=torch.float32):
    return torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)


def test_a_graph_break(backend):
    def function(x):
        y = (x * 2 + 0).relu()
        torch._dynamo.graph_break()
        y.add_(1)
        return y / 1, x

    check_against_eager(function, lambda: [ramp(3)], backend, fullgraph=False)


class Pair(NamedTuple):
    left: torch.Tensor
    right: torch.Tensor


@dataclasses.dataclass
class Batch:
    ids: torch.Tensor
    scale: float
    more: dict


def test_nested_containers(backend):
    def function(batch, *, extra, flag=True):
        pair = Pair(batch.ids * batch.scale, extra["a"][0] + 1)
        return {"pair": pair, "list": [pair.left, (pair.right, flag)], "in": batch.more["x"]}

    def arguments():
        return (Batch(ramp(3), 2.0, {"x": ramp(2)}),), {"extra": {"a": [ramp(3), None]}}

    compiled = torch.compile(function, backend=backend, fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            (args, kwargs), (eager_args, eager_kwargs) = arguments(), arguments()
            got, want = compiled(*args, **kwargs), function(*eager_args, **eager_kwargs)
            assert_same(got, want)
            assert got["in"] is args[0].more["x"]


@pytest.mark.parametrize("freeze", [False, True])
def test_inference_mode(backend, freeze):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(), torch.nn.ReLU()).eval()
    backend = backend.with_options(None, {"freeze": freeze})
    check_against_eager(model, lambda: [ramp(2, 4)], backend, inference_mode=True)


def test_parameters_made_under_inference_mode_are_not_folded():
    with torch.inference_mode():
        model = torch.nn.Linear(4, 4)
    backend = XpuGraph(XpuGraphConfig(freeze=True, enable_cache=False))
    compiled = check_against_eager(model, lambda: [ramp(2, 4)], backend, inference_mode=True)
    with torch.inference_mode():
        model.weight.add_(1)
        assert_same(compiled(ramp(2, 4)), model(ramp(2, 4)))
    assert any("inference tensor" in note for note in backend.reports[-1].graphs[0].notes)


def test_autocast_regions(backend):
    def function(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
        with torch.autocast("cpu", enabled=False):
            z = x @ w
        return y, z, y.float() + z

    check_against_eager(function, lambda: [ramp(3, 4), ramp(4, 2)], backend)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check_against_eager(lambda x, w: x @ w, lambda: [ramp(3, 4), ramp(4, 2)], backend)


def test_channels_last(backend):
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Conv2d(4, 2, 1))
    model = model.to(memory_format=torch.channels_last).eval()
    make = lambda: [ramp(2, 3, 5, 5).to(memory_format=torch.channels_last)]  # noqa: E731
    check_against_eager(model, make, backend)
    check_against_eager(lambda x: (x.contiguous(), x * 1, x.clone(), x + 0), make, backend)


@pytest.mark.parametrize(
    "dtype",
    [
        *(torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64),
        *(torch.bfloat16, torch.float16, torch.float64, torch.complex64, torch.complex128),
    ],
    ids=str,
)
def test_dtypes(backend, dtype):
    def function(x, y):
        return (
            x * 1,
            x + 0,
            (x + y).t(),
            x.view(-1),
            x == y,
            torch.stack([x, y]).to(torch.complex64),
        )

    check_against_eager(
        function, lambda: [ramp(2, 3, dtype=dtype), ramp(2, 3, dtype=dtype)], backend
    )


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_float8(backend, dtype):
    def function(x):
        return x.to(torch.float32) * 1, x.view(torch.uint8) + 0, x.t(), x.clone()

    check_against_eager(function, lambda: [ramp(2, 3).to(dtype)], backend)


def test_lazy_conjugates_and_negatives(backend):
    def function(x):
        return x.conj(), x.conj() * 1, x.imag, x.conj().imag, torch.real(x.conj()) - 0

    check_against_eager(function, lambda: [torch.tensor([1 + 2j, -0.0 - 3j])], backend)


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0, 2), (1,)])
def test_no_elements_and_no_dimensions(backend, shape):
    def function(x):
        return x + 0, x * 1, x.sum(), x.reshape(-1), x.clone(), x.unsqueeze(0).squeeze(0)

    check_against_eager(function, lambda: [torch.ones(shape)], backend)


def test_random_draws_are_those_of_eager(backend):
    def function(x):
        a = torch.rand_like(x)
        unused = torch.randn(3)  # its value is, and it is still a draw
        b = torch.rand_like(x) + unused.shape[0]
        c = functional.dropout(x, 0.5) * 1
        return a, b, c, unused[:0], torch.randperm(5), torch.bernoulli(x.clamp(0, 1)), x.normal_()

    check_against_eager(function, lambda: [torch.ones(3, 4)], backend, calls=3)


def test_dropout_does_nothing_in_eval(backend):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.9)).eval()
    check_against_eager(model, lambda: [ramp(2, 4)], backend)


@pytest.mark.parametrize("freeze", [False, True])
def test_embeddings(backend, freeze):
    class Bag(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words = torch.nn.Embedding(10, 4, padding_idx=0)
            self.bags = torch.nn.EmbeddingBag(10, 4, mode="mean")
            self.head = torch.nn.Linear(4, 10, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids):
            return self.head(self.words(ids).mean(1) + self.bags(ids))

    model = Bag().eval()
    backend = backend.with_options(None, {"freeze": freeze})
    check_against_eager(model, lambda: [torch.tensor([[1, 2, 0], [3, 3, 9]])], backend)


def test_an_index_out_of_range_is_the_programs_own_error(backend):
    table = torch.nn.Embedding(4, 2)
    compiled = torch.compile(table, backend=backend)
    with torch.no_grad():
        compiled(torch.tensor([1]))
        with pytest.raises(IndexError):
            compiled(torch.tensor([4]))
