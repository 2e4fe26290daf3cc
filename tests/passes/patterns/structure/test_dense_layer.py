"""DenseLayer: every spelling is found, with eager's numbers, and nothing else is."""

import math

import pytest
import torch
from torch.nn import functional

from tests.passes.patterns.stand_ins import implemented
from tests.passes.patterns.structure.finding import found

X, W, B = torch.randn(5, 8), torch.randn(6, 8), torch.randn(6)


def gelu_by_hand(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu_with_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x.pow(3))))


SPELLINGS = {
    "relu": lambda x, w, b: functional.linear(x, w, b).relu(),
    "gelu": lambda x, w, b: functional.gelu(functional.linear(x, w, b)),
    "gelu_tanh": lambda x, w, b: functional.gelu(functional.linear(x, w, b), approximate="tanh"),
    "silu": lambda x, w, b: functional.silu(functional.linear(x, w, b)),
    "sigmoid": lambda x, w, b: functional.linear(x, w, b).sigmoid(),
    "tanh": lambda x, w, b: functional.linear(x, w, b).tanh(),
    "gelu by hand": lambda x, w, b: gelu_by_hand(functional.linear(x, w, b)),
    "gelu_tanh by hand": lambda x, w, b: gelu_with_tanh(functional.linear(x, w, b)),
    "silu by hand": lambda x, w, b: (y := functional.linear(x, w, b)) * y.sigmoid(),
    "silu with exp": lambda x, w, b: (y := functional.linear(x, w, b)) / (1 + torch.exp(-y)),
    "no bias": lambda x, w, b: (x @ w.t()).relu() + b,
    "a bias added apart": lambda x, w, b: (x @ w.t() + b).relu(),
    "a bias added first": lambda x, w, b: (b + x @ w.t()).relu(),
    "a turned weight": lambda x, w, b: torch.addmm(b, x, w.t().contiguous()).relu(),
    "more dimensions": lambda x, w, b: functional.linear(x[None], w, b).relu(),
    "a weight of one row": lambda x, w, b: functional.linear(x, w[:1], b[:1]).sigmoid(),
    "twice": lambda x, w, b: functional.linear(x, w, b).relu() + functional.linear(-x, w, b).relu(),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_it_is_found(name):
    run = found("DenseLayer", SPELLINGS[name], X, W, B)
    assert run.applied == (2 if name == "twice" else 1)
    assert run.after["stand_in.DenseLayer.default"] == run.applied
    assert not run.after["aten.addmm.default"] and not run.after["aten.mm.default"]


@pytest.mark.parametrize("shape", [(5, 0), (1, 8)], ids=str)
def test_sizes(shape):
    weight = torch.randn(6, shape[1])
    assert found("DenseLayer", SPELLINGS["relu"], torch.randn(shape), weight, B).applied == 1


def test_no_rows():
    run = found("DenseLayer", SPELLINGS["relu"], torch.randn(0, 8), W, B)
    assert "an empty tensor" in run.reasons


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_dtypes(dtype):
    inputs = [value.to(dtype) for value in (X, W, B)]
    assert found("DenseLayer", SPELLINGS["gelu"], *inputs).applied == 1


def test_sizes_of_run_time():
    assert found("DenseLayer", SPELLINGS["silu"], X, W, B, dynamic=True).applied == 1


def of_other_dtypes(x, w, b):
    return (x.bfloat16() @ w.bfloat16().t() + b).relu()


LEFT = {
    "no activation": (functional.linear, ""),
    "PReLU": (lambda x, w, b: functional.prelu(functional.linear(x, w, b), b[:1]), ""),
    "leaky": (lambda x, w, b: functional.leaky_relu(functional.linear(x, w, b)), ""),
    "another GELU": (
        lambda x, w, b: (y := functional.linear(x, w, b)) * torch.sigmoid(1.702 * y),
        "",
    ),
    "returned": (
        lambda x, w, b: (y := functional.linear(x, w, b), y.relu()),
        "something else reads a value inside",
    ),
    "read": (
        lambda x, w, b: (y := functional.linear(x, w, b)).relu() + y,
        "something else reads a value inside",
    ),
    "a bias a row": (
        lambda x, w, b: torch.addmm(b[:5, None], x, w.t()).relu(),
        "the bias does not have the shape (6,)",
    ),
    "a bias for all": (
        lambda x, w, b: torch.addmm(b[:1], x, w.t()).relu(),
        "the bias does not have the shape (6,)",
    ),
    "a bias of another dtype": (of_other_dtypes, "the bias is torch.float32, x torch.bfloat16"),
    "scaled": (lambda x, w, b: torch.addmm(b, x, w.t(), alpha=2).relu(), "addmm scales"),
    "a scaled bias": (lambda x, w, b: torch.addmm(b, x, w.t(), beta=2).relu(), "addmm scales"),
    "what is read is written to after": (
        lambda x, w, b: (functional.linear(x, w, b).relu(), x.add_(1))[0],
        "a read would move across a write",
    ),
    "integers": (lambda x, w, b: (x.long() @ w.long().t()).relu(), "x is not floating point"),
}


@pytest.mark.parametrize("name", LEFT)
def test_it_is_left_alone(name):
    program, reason = LEFT[name]
    run = found("DenseLayer", program, X, W, B, rtol=1e-2, atol=1e-2)
    assert not run.applied
    assert reason in run.reasons if reason else not run.reasons


def test_the_stand_in_computes_it():
    with implemented("DenseLayer", verify=True):
        pass
