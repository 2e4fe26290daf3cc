"""ParallelLinears: linear layers of one input are found, all of them at once."""

import pytest
import torch
from torch.nn.functional import linear, silu

from tests.passes.patterns.stand_ins import implemented, operator
from tests.passes.patterns.structure.finding import found
from xpu_graph import XpuGraph, XpuGraphConfig, register_structure, unregister_structure
from xpu_graph.testing import check_against_eager

X = torch.randn(5, 8)
W, V, U = torch.randn(6, 8), torch.randn(3, 8), torch.randn(6, 8)
B, C = torch.randn(6), torch.randn(3)
INPUTS = (X, W, V, U, B, C)


def three(x, w, v, u, b, c):
    return linear(x, w, b), linear(x, v, c), linear(x, u)


SPELLINGS = {
    "mixed": three,
    "no bias": lambda x, w, v, u, b, c: silu(linear(x, w)) * linear(x, u),
    "more dimensions": lambda x, w, v, u, b, c: [linear(x[None], one) for one in (w, v, u)],
    "turned weights": lambda x, w, v, u, b, c: (x[:, :6] @ w, x[:, :6] @ u),
    "one read at once": lambda x, w, v, u, b, c: (
        linear(x, w, b).relu().sum() + linear(x, u).sin(),
        linear(x, v),
    ),
    "a bias added apart": lambda x, w, v, u, b, c: (x @ w.t() + b, x @ u.t() + b),
    "one that is scaled": lambda x, w, v, u, b, c: (
        linear(x, w, b),
        torch.addmm(b, x, u.t(), alpha=2),
        linear(x, v, c),
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_it_is_found(name):
    run = found("ParallelLinears", SPELLINGS[name], *INPUTS)
    assert run.applied == run.after["stand_in.ParallelLinears.default"] == 1
    assert run.after["aten.addmm.default"] == (name == "one that is scaled")
    assert not run.after["aten.mm.default"]


def test_sizes_of_run_time():
    assert found("ParallelLinears", three, *INPUTS, dynamic=True).applied == 1


@pytest.mark.parametrize("shape", [(1, 8), (5, 0)], ids=str)
def test_sizes(shape):
    weights = [torch.randn(one.shape[0], shape[1]) for one in (W, V, U)]
    assert found("ParallelLinears", three, torch.randn(shape), *weights, B, C).applied == 1


def test_no_rows():
    run = found("ParallelLinears", three, torch.randn(0, 8), *INPUTS[1:])
    assert "an empty tensor" in run.reasons


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_dtypes(dtype):
    inputs = [value.to(dtype) for value in INPUTS]
    assert found("ParallelLinears", three, *inputs).applied == 1


def test_groups_of_several_inputs():
    def program(x, w, v, u, b, c):
        q, k = linear(x, w, b), linear(x, v, c)
        return linear(q @ u, w, b), linear(q @ u, v), k

    assert found("ParallelLinears", program, *INPUTS, rtol=1e-4, atol=1e-4).applied == 2


LEFT = {
    "one": (lambda x, w, v, u, b, c: linear(x, w, b), ""),
    "several inputs": (lambda x, w, v, u, b, c: (linear(x, w, b), linear(x + 1, v, c)), ""),
    "scaled": (
        lambda x, w, v, u, b, c: (torch.addmm(b, x, w.t(), beta=2), linear(x, v)),
        "addmm scales",
    ),
    "a bias for all": (
        lambda x, w, v, u, b, c: (torch.addmm(b[:1], x, w.t()), linear(x, v)),
        "the bias does not have the shape (6,)",
    ),
    "integers": (
        lambda x, w, v, u, b, c: (x.long() @ w.long().t(), x.long() @ v.long().t()),
        "x is not floating point",
    ),
    "written to after": (
        lambda x, w, v, u, b, c: (linear(x, w, b), linear(x, v, c), x.zero_())[:2],
        "a read would move across a write",
    ),
    "a weight made of another's result": (
        lambda x, w, v, u, b, c: (y := linear(x, w), linear(x, y.t() @ x)),
        "one result is used before all that they are computed from is there",
    ),
    "a weight that is another's result": (
        lambda x, w, v, u, b, c: (
            (y := linear(x[:, : x.shape[0]], w[: x.shape[0], : x.shape[0]])),
            linear(x[:, : x.shape[0]], y),
        ),
        "one result is computed from another that goes",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_it_is_left_alone(name):
    program, reason = LEFT[name]
    run = found("ParallelLinears", program, *INPUTS, rtol=1e-4, atol=1e-4)
    assert not run.applied
    assert reason in run.reasons if reason else not run.reasons


def test_the_stand_in_computes_it():
    with implemented("ParallelLinears", verify=True):
        pass


def test_an_implementation_that_drops_an_operand():
    def without_biases(x, weights, biases):
        return operator("ParallelLinears")(x, weights, [None] * len(weights))

    def program(x, w, v, u, b, c):
        zeros = x * 0.0 + b.sum() * 0.0
        bias = linear(zeros, w).sum(0)
        return linear(x, w, bias), linear(x, u, bias), linear(zeros, u)

    register_structure("ParallelLinears", "none", without_biases)
    try:
        backend = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False, verify="each"))
        check_against_eager(
            program, lambda: list(INPUTS), backend, bitwise=False, atol=1e-5, rtol=0
        )
    finally:
        unregister_structure("ParallelLinears", "none", without_biases)
    (graph,) = backend.reports[-1].graphs
    assert graph.after["stand_in.ParallelLinears.default"] == 1
