"""Faults of constants: returned ones that change, draws that freeze, stale or large ones."""

import copy
import gc

import pytest
import torch

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.testing import assert_same, check_against_eager


def made(x):
    n = x.shape[0]
    return (
        torch.zeros(3),
        torch.zeros(3),
        torch.tensor([1.0, 2.0]) * 2,
        torch.arange(4).view(2, 2).t(),
        torch.full((2,), float("inf")) - 1,
        torch.eye(2).sum(0),
        torch.ones(n) * 1,
        torch.tensor(3),
        torch.arange(6.0).view(2, 3).max(1),
        torch.tensor([3, 1, 2]).sort(),
        torch.linspace(0, 1, 4).chunk(2),
        torch.tensor([True, False]).logical_not(),
        torch.tensor([1 + 1j]).conj() * 2,
        x + 0,
    )


def test_every_call_returns_fresh_constants(backend, dynamic):
    compiled = torch.compile(made, backend=backend, fullgraph=True, dynamic=dynamic)
    with torch.no_grad():
        for _ in range(3):
            got = compiled(torch.ones(5))
            assert_same(got, made(torch.ones(5)))
            for tensor in torch.utils._pytree.tree_leaves(got):
                tensor.copy_(torch.zeros_like(tensor))
    check_against_eager(made, lambda: [torch.ones(5)], backend, dynamic=dynamic)


def test_draws_from_constants_are_drawn_at_every_call(backend):
    def function(x):
        return x + torch.rand(16), torch.randperm(64), torch.bernoulli(torch.full((64,), 0.5))

    compiled = check_against_eager(function, lambda: [torch.zeros(16)], backend)
    with torch.no_grad():
        for first, second in zip(compiled(torch.zeros(16)), compiled(torch.zeros(16)), strict=True):
            assert not torch.equal(first, second)


@pytest.mark.parametrize("lift", [torch.tensor, torch.as_tensor], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.int64, torch.bool, torch.complex64], ids=str
)
def test_constants_of_every_kind(backend, lift, dtype):
    def function(x):
        c = lift([[1, 0], [0, 1]]).to(dtype)
        return x.to(dtype) * c + c, (c + c).sum(), c.t() * 2

    check_against_eager(function, lambda: [torch.ones(2, 2)], backend)


def large_tensors():
    gc.collect()
    found = set()
    for thing in gc.get_objects():
        if type(thing) is torch.Tensor and thing.layout == torch.strided:
            found |= {thing.untyped_storage().nbytes()}
    return {size for size in found if size > 1_000_000}


def test_what_is_large_is_made_again_instead_of_kept(backend):
    def function(x):
        return x + (torch.ones(1000, 1000) * 3).sum() + torch.arange(500_000).max()

    before = large_tensors()
    compiled = torch.compile(function, backend=backend)
    with torch.no_grad():
        assert_same(compiled(torch.ones(2)), function(torch.ones(2)))
    assert large_tensors() <= before


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(5, 4)
        self.head = torch.nn.Linear(4, 5)
        self.head.weight = self.embed.weight
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.register_buffer("calls", torch.zeros(()))
        self.plain = torch.ones(4)

    def forward(self, ids):
        x = self.norm(self.embed(ids) * (self.scale * 2 - 1)) + self.plain.cumsum(0)
        self.calls += 1
        return self.head(x) + self.embed.weight.t().relu().sum(0) * self.calls


def scaled_in_place(model):
    model.embed.weight.mul_(2)


def written_through_a_view(model):
    model.head.bias[1:].zero_()


def replaced(model):
    model.head.bias = torch.nn.Parameter(model.head.bias + 1)


def data_replaced(model):
    model.head.bias.data = model.head.bias.data + 1


def loaded(model):
    model.load_state_dict({name: value + 1 for name, value in model.state_dict().items()})


def assigned(model):
    state = {name: value * 2 for name, value in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def buffer_replaced(model):
    model.scale = model.scale * 3


def buffer_written(model):
    model.norm.running_mean.add_(1)


def attribute_replaced(model):
    model.plain = model.plain + 1


def converted(model):
    model.to(torch.float64)
    model.plain = model.plain.to(torch.float64)


def stepped(model):
    model.zero_grad()
    with torch.enable_grad():
        Model.forward(model, torch.tensor([1])).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


CHANGES = (
    scaled_in_place,
    written_through_a_view,
    replaced,
    data_replaced,
    loaded,
    assigned,
    buffer_replaced,
    buffer_written,
    attribute_replaced,
    stepped,
    converted,
)


@pytest.mark.parametrize("constant_folding", [True, False])
@pytest.mark.parametrize("freeze", [True, False])
def test_no_change_of_a_model_is_missed(freeze, constant_folding):
    config = XpuGraphConfig(freeze=freeze, constant_folding=constant_folding, enable_cache=False)
    torch.manual_seed(0)
    eager = Model().eval()
    mine = copy.deepcopy(eager)
    compiled = torch.compile(mine, backend=XpuGraph(config))
    ids = torch.tensor([0, 3])
    with torch.no_grad():
        for change in (lambda model: None, *CHANGES):
            for model in (eager, mine):
                change(model)
            for _ in range(2):
                got, want = compiled(ids), eager(ids)
                assert_same(got, want, getattr(change, "__name__", "change"))
    assert_same(dict(mine.named_buffers()), dict(eager.named_buffers()), "buffer")
