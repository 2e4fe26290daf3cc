"""SwiGLU and GEGLU: an activated half times the other one."""

import pytest
import torch
from torch.nn import functional

from tests.passes.patterns.structure.finding import found

GATE, UP = torch.randn(3, 8), torch.randn(3, 8)

SWIGLUS = {
    "silu": lambda gate, up: functional.silu(gate) * up,
    "silu second": lambda gate, up: up * functional.silu(gate),
    "a sigmoid": lambda gate, up: gate * torch.sigmoid(gate) * up,
    "a sigmoid first": lambda gate, up: torch.sigmoid(gate) * gate * up,
    "an exponential": lambda gate, up: gate / (1 + torch.exp(-gate)) * up,
    "both halves of one": lambda gate, up: (
        functional.silu((p := gate @ up.t() @ up).chunk(2, 1)[0]) * p.chunk(2, 1)[1]
    ),
    "the gate is read": lambda gate, up: functional.silu(gate) * up + gate,
    "of itself": lambda gate, up: functional.silu(gate) * gate,
    "of linear layers": lambda gate, up: functional.silu(gate @ up.t()) * (up @ gate.t()),
}
GEGLUS = {
    "gelu": lambda gate, up: functional.gelu(gate) * up,
    "gelu second": lambda gate, up: up * functional.gelu(gate),
    "with tanh": lambda gate, up: functional.gelu(gate, approximate="tanh") * up,
}


@pytest.mark.parametrize("name", SWIGLUS)
def test_swiglu_is_found(name):
    run = found("SwiGLU", SWIGLUS[name], GATE, UP, rtol=1e-4, atol=1e-4)
    assert run.applied == run.after["stand_in.SwiGLU.default"] == 1
    assert not run.after["aten.mul.Tensor"]


@pytest.mark.parametrize("name", GEGLUS)
def test_geglu_is_found(name):
    run = found("GEGLU", GEGLUS[name], GATE, UP)
    assert run.applied == run.after["stand_in.GEGLU.default"] == 1
    assert not run.after["aten.mul.Tensor"]


@pytest.mark.parametrize("name", ["SwiGLU", "GEGLU"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_dtypes(name, dtype):
    program = SWIGLUS["silu"] if name == "SwiGLU" else GEGLUS["gelu"]
    assert found(name, program, GATE.to(dtype), UP.to(dtype)).applied == 1


def test_a_gate_that_is_cast():
    def program(gate, up):
        return functional.silu(gate.float()).to(gate.dtype) * up

    assert found("SwiGLU", program, GATE.bfloat16(), UP.bfloat16()).applied == 1


@pytest.mark.parametrize("name", ["SwiGLU", "GEGLU"])
def test_sizes_of_run_time(name):
    program = SWIGLUS["silu"] if name == "SwiGLU" else GEGLUS["gelu"]
    assert found(name, program, GATE, UP, dynamic=True).applied == 1


LEFT = {
    "of other shapes": (
        lambda act, gate, up: act(gate) * up[0],
        "the gate does not have the shape",
    ),
    "the gate broadcasts": (
        lambda act, gate, up: act(gate[0]) * up,
        "the gate does not have the shape",
    ),
    "of other dtypes": (
        lambda act, gate, up: act(gate) * up.double(),
        "the halves are torch.float32 and torch.float64",
    ),
    "integers": (
        lambda act, gate, up: act(gate) * up.long(),
        "the other half is not floating point",
    ),
    "a number": (lambda act, gate, up: act(gate) * 3.0, "the other half is not floating point"),
    "returned": (
        lambda act, gate, up: ((a := act(gate)) * up, a),
        "something else reads a value inside",
    ),
    "written to after": (
        lambda act, gate, up: (act(gate) * up, up.zero_())[0],
        "a read would move across a write",
    ),
    "a sum": (lambda act, gate, up: act(gate) + up, ""),
}


@pytest.mark.parametrize("name", LEFT)
@pytest.mark.parametrize(
    ("structure", "activation"),
    [("SwiGLU", functional.silu), ("GEGLU", functional.gelu)],
    ids=["swiglu", "geglu"],
)
def test_it_is_left_alone(name, structure, activation):
    program, reason = LEFT[name]
    run = found(structure, lambda gate, up: program(activation, gate, up), GATE, UP)
    assert not run.applied
    assert reason in run.reasons if reason else not run.reasons


def test_another_slope_is_left_alone():
    run = found("SwiGLU", lambda gate, up: gate * torch.sigmoid(1.702 * gate) * up, GATE, UP)
    assert not run.applied
