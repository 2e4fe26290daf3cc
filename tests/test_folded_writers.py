"""Frozen parameters under torch's own writers, some of which leave the version counter as it is."""

import pytest
import torch

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.testing import assert_same


class Model(torch.nn.Module):
    """Folds a parameter and a batch norm's statistics."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 4))
        self.norm = torch.nn.BatchNorm1d(4)

    def forward(self, x):
        return x @ (self.weight * 2 + 1) * (self.norm.running_mean * 3 + 1)


def compiled(model):
    torch.compiler.reset()
    backend = XpuGraph(XpuGraphConfig(freeze=True, enable_cache=False))
    return torch.compile(model, backend=backend), backend


@torch.no_grad()
def check(fast, model):
    x = torch.randn(2, 4)
    assert_same(fast(x), model(x))


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, fused=True),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "adam": lambda p: torch.optim.Adam(p, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, fused=True),
    "foreach": lambda p: torch.optim.SGD(p, lr=0.1, foreach=True),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimiser_step_is_seen(name):
    model = Model().eval()
    optimizer = OPTIMIZERS[name](model.parameters())
    fast, _ = compiled(model)
    for _ in range(3):
        check(fast, model)
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    check(fast, model)


def test_statistics_that_an_eager_call_updates_are_seen():
    model = Model().eval()
    fast, _ = compiled(model)
    for step in range(3):
        check(fast, model)
        model.norm.train()(torch.randn(8, 4) + step)
    check(fast, model)


def test_a_small_buffer_is_compared_by_sign_of_zero_too():
    model = Model().eval()
    fast, backend = compiled(model)
    model.norm.running_mean.zero_()
    check(fast, model)
    model.norm.running_mean.data.neg_()
    x = torch.randn(2, 4)
    with torch.no_grad():
        assert_same(fast(x), model(x))
    (artifact,) = backend._frozen
    assert artifact.folds == 2


def test_an_unfused_step_of_another_model_folds_nothing_again():
    model, other = Model().eval(), Model()
    fast, backend = compiled(model)
    check(fast, model)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    other(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    check(fast, model)
    (artifact,) = backend._frozen
    assert artifact.folds == 1


def note_of(backend):
    return " ".join(backend.reports[-1].graphs[0].notes)


def test_memory_of_another_process_is_not_folded():
    model = Model().eval()
    model.weight.share_memory_()
    fast, backend = compiled(model)
    check(fast, model)
    assert "shares its memory" in note_of(backend)
    model.weight.data.mul_(2)
    check(fast, model)


def test_two_tensors_over_one_memory_are_not_folded():
    model = Model().eval()
    model.register_buffer("same", model.weight.data)
    forward = model.forward
    model.forward = lambda x: forward(x) + (model.same * 2).sum()
    fast, backend = compiled(model)
    check(fast, model)
    assert "shares its memory" in note_of(backend)
    with torch.no_grad():
        model.weight.mul_(3)
    check(fast, model)


def test_a_number_that_becomes_a_symbol_reaches_inductor():
    fast = torch.compile(lambda x, s: x * s, backend="xpu_graph")
    x = torch.randn(3)
    with torch.no_grad():
        for scale in (1.5, 2.5, 3.5):
            assert_same(fast(x, scale), x * scale)
