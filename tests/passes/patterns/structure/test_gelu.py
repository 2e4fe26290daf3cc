"""GELU: the formula in the ways it is written, with either function in it."""

import math

import pytest
import torch
from torch.nn import functional

from tests.passes.patterns.structure.finding import found

X = torch.randn(4, 8)
ROOT = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def erf(x):
    return 1 + torch.erf(x / math.sqrt(2))


def tanh(x):
    return 1 + torch.tanh(ROOT * (x + CUBIC * torch.pow(x, 3)))


SPELLINGS = {
    "torch's own": functional.gelu,
    "torch's own with tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "a half first": lambda x: 0.5 * x * erf(x),
    "a half second": lambda x: x * 0.5 * erf(x),
    "a half of the sum": lambda x: x * (0.5 * erf(x)),
    "a half last": lambda x: x * erf(x) * 0.5,
    "by two": lambda x: x / 2 * erf(x),
    "the sum first": lambda x: erf(x) * (x * 0.5),
    "times the root of a half": lambda x: x * 0.5 * (torch.erf(x * math.sqrt(0.5)) + 1.0),
    "rounded": lambda x: x * 0.5 * (torch.erf(x / 1.4142135) + 1.0),
    "tanh, a half first": lambda x: 0.5 * x * tanh(x),
    "tanh, a half last": lambda x: x * tanh(x) * 0.5,
    "a product of three": lambda x: 0.5 * x * (1 + torch.tanh(ROOT * (x + CUBIC * x * x * x))),
    "a square": lambda x: 0.5 * x * (1 + torch.tanh(ROOT * (x + CUBIC * (x**2 * x)))),
    "factored out": lambda x: 0.5 * x * (1 + torch.tanh(ROOT * x * (1 + CUBIC * x * x))),
    "factored out, rounded": lambda x: (
        0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))
    ),
    "factored out, a square": lambda x: 0.5 * x * (1 + torch.tanh(x * ROOT * (1 + CUBIC * x**2))),
    "of a result": lambda x: (y := x * 3) * 0.5 * erf(y),
    "in a sum": lambda x: x * 0.5 * erf(x) + x,
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_it_is_found(name):
    run = found("GELU", SPELLINGS[name], X)
    assert run.applied == run.after["stand_in.GELU.default"] == 1
    assert not run.after["aten.mul.Tensor"] - (name == "of a result")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("function", [erf, tanh])
def test_dtypes(function, dtype):
    run = found("GELU", lambda x: 0.5 * x * function(x), X.to(dtype))
    assert run.applied == 1


@pytest.mark.parametrize("name", ["a half first", "factored out, rounded"])
def test_sizes_of_run_time(name):
    assert found("GELU", SPELLINGS[name], X, dynamic=True).applied == 1


def test_another_layout():
    assert found("GELU", SPELLINGS["a half first"], X.t()).applied == 1


LEFT = {
    "a sigmoid": (lambda x: x * torch.sigmoid(1.702 * x), ""),
    "another divisor": (
        lambda x: x * 0.5 * (1 + torch.erf(x / 1.414)),
        "the divisor is 1.414, and not 1.41421",
    ),
    "another factor": (
        lambda x: x * 0.5 * (1 + torch.erf(x * 0.707)),
        "the factor is 0.707, and not 0.707107",
    ),
    "another root": (
        lambda x: 0.5 * x * (1 + torch.tanh(0.7978 * (x + CUBIC * x**3))),
        "the outer factor is 0.7978, and not 0.797885",
    ),
    "another cubic factor": (
        lambda x: 0.5 * x * (1 + torch.tanh(ROOT * (x + 0.0447 * x**3))),
        "the factor of the cube is 0.0447, and not 0.044715",
    ),
    "another power": (
        lambda x: 0.5 * x * (1 + torch.tanh(ROOT * (x + CUBIC * x**2))),
        "found in part",
    ),
    "a third": (lambda x: x * 0.3 * erf(x), "found in part"),
    "of something else": (lambda x: x * 0.5 * erf(x.sin()), "found in part"),
    "a value inside is returned": (
        lambda x: (e := erf(x), x * 0.5 * e),
        "something else reads a value inside",
    ),
    "a value inside is read": (
        lambda x: x * 0.5 * (e := erf(x)) + e,
        "something else reads a value inside",
    ),
    "written to after": (
        lambda x: (x * 0.5 * erf(x), x.zero_())[0],
        "a read would move across a write",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_it_is_left_alone(name):
    program, reason = LEFT[name]
    run = found("GELU", program, X)
    assert not run.applied
    assert reason in run.reasons if reason else not run.reasons


def test_integers_are_left_alone():
    run = found("GELU", lambda x: x * 0.5 * erf(x), torch.arange(-4, 4))
    assert not run.applied
    assert "x is not floating point" in run.reasons
