"""DenseTower: whole towers are found, and parts where the whole is none."""

from dataclasses import dataclass

import pytest
import torch
from torch.nn import functional
from torch.nn.functional import linear

from tests.passes.patterns.stand_ins import implemented, operator
from tests.passes.patterns.structure.finding import found
from xpu_graph import register_structure, unregister_structure

X = torch.randn(5, 8)
W, V, U = torch.randn(6, 8), torch.randn(8, 6), torch.randn(1, 8)
B, C = torch.randn(6), torch.randn(8)
INPUTS = (X, W, V, U, B, C)


def two(x, w, v, u, b, c):
    return linear(linear(x, w, b).relu(), v, c).sigmoid()


def deep(x, w, v, u, b, c):
    for _ in range(3):
        x = functional.gelu(linear(functional.silu(linear(x, w, b)), v, c))
    return linear(x, u)


SPELLINGS = {
    "two layers": two,
    "seven layers": deep,
    "the last without an activation": lambda x, w, v, u, b, c: linear(linear(x, w, b).tanh(), v, c),
    "without biases": lambda x, w, v, u, b, c: linear(linear(x, w).relu(), v).relu(),
    "a bias added apart": lambda x, w, v, u, b, c: (x @ w.t() + b).relu() @ v.t() + c,
    "turned weights": lambda x, w, v, u, b, c: torch.addmm(b, torch.relu(x[:, :6] @ w), w.t()),
    "more dimensions": lambda x, w, v, u, b, c: linear(linear(x[None], w, b).relu(), v, c),
    "one weight twice": lambda x, w, v, u, b, c: linear(linear(x, w.t() @ w).relu(), w.t() @ w),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_it_is_found_whole(name):
    run = found("DenseTower", SPELLINGS[name], *INPUTS, rtol=1e-4, atol=1e-4)
    assert run.applied == run.after["stand_in.DenseTower.default"] == 1
    assert not run.after["aten.addmm.default"]


@dataclass
class Part:
    program: object
    towers: int
    rest: dict


PARTS = {
    "a result inside is returned": Part(
        lambda x, w, v, u, b, c: (
            y := linear(linear(x, w, b).relu(), v, c).relu(),
            linear(linear(y, w, b).relu(), v, c),
        ),
        2,
        {},
    ),
    "a linear layer inside without an activation": Part(
        lambda x, w, v, u, b, c: linear(linear(linear(x, w, b), v, c).relu(), w, b),
        1,
        {"aten.addmm.default": 1},
    ),
    "an activation inside that is none": Part(
        lambda x, w, v, u, b, c: linear(linear(linear(x, w, b).exp(), v, c).relu(), w, b),
        1,
        {"aten.addmm.default": 1},
    ),
    "a layer inside that is scaled": Part(
        lambda x, w, v, u, b, c: linear(
            linear(torch.addmm(b, x, w.t(), alpha=2).relu(), v, c).relu(), w, b
        ),
        1,
        {"aten.addmm.default": 1, "aten.relu.default": 1},
    ),
    "a result that is read twice": Part(
        lambda x, w, v, u, b, c: linear(y := linear(x, w, b).relu(), v, c).sum() + y,
        0,
        {"aten.addmm.default": 2},
    ),
    "one layer": Part(lambda x, w, v, u, b, c: linear(x, w, b).relu(), 0, {}),
    "a product in between": Part(
        lambda x, w, v, u, b, c: linear(linear(x, w, b).relu() * 2, v, c), 0, {}
    ),
    "a residual": Part(
        lambda x, w, v, u, b, c: linear(linear(x, w, b).relu(), v, c) + x, 1, {"aten.add.Tensor": 1}
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_tower_ends(name):
    part = PARTS[name]
    run = found("DenseTower", part.program, *INPUTS, rtol=1e-4, atol=1e-4)
    assert run.applied == part.towers
    assert {key: run.after[key] for key in part.rest} == part.rest


@pytest.mark.parametrize("program", [two, SPELLINGS["more dimensions"]], ids=["two", "more"])
def test_sizes_of_run_time(program):
    assert found("DenseTower", program, *INPUTS, dynamic=True).applied == 1


def test_no_rows():
    run = found("DenseTower", two, torch.randn(0, 8), *INPUTS[1:])
    assert "an empty tensor" in run.reasons


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_dtypes(dtype):
    inputs = [value.to(dtype) for value in INPUTS]
    assert found("DenseTower", two, *inputs).applied == 1


def test_an_input_that_is_written_to_after():
    def program(x, w, v, u, b, c):
        result = two(x, w, v, u, b, c)
        b.zero_()
        return result

    run = found("DenseTower", program, *INPUTS)
    assert not run.applied
    assert "a read would move across a write" in run.reasons


def test_a_kind_of_tower_is_traced_once():
    traced = []

    def tower(x, weights, biases, activations):
        traced.append(activations)
        return operator("DenseTower")(x, weights, biases, activations)

    def program(x, w, v, u, b, c):
        relus = [linear(linear(one, w, b).relu(), v, c).sin() for one in (x, -x, x * 2)]
        return (
            *relus,
            linear(linear(x.cos(), w, b).tanh(), v, c),
            linear(linear(x.tan(), w).relu(), v, c),
        )

    register_structure("DenseTower", "none", tower)
    try:
        found("DenseLayer", program, *INPUTS, rtol=1e-4, atol=1e-4)
    finally:
        unregister_structure("DenseTower", "none", tower)
    # three towers are alike, one has another activation, one no bias
    assert sorted(traced) == [["relu", "none"], ["relu", "none"], ["tanh", "none"]]


def test_the_stand_in_computes_it():
    with implemented("DenseTower", verify=True):
        pass
