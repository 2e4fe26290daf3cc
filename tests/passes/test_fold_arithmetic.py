import pytest
import torch

from xpu_graph.passes import FoldArithmetic
from xpu_graph.testing import capture, check_against_eager, run_passes

aten = torch.ops.aten
NAN, INF = float("nan"), float("inf")
SPECIAL = [1.5, 0.0, -0.0, NAN, INF, -INF, 1e-45, -3.0]
MINUS_ZERO = "-0.0 + 0 is +0.0"


def after(function, *inputs, **how):
    return run_passes([FoldArithmetic], capture(function, *inputs, **how)[0])


def special(dtype):
    return torch.tensor(SPECIAL).to(dtype)


FLOATING = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGER = [torch.int64, torch.int32, torch.int8, torch.uint8]

FOLDS_FLOATING = {
    "x - 0": lambda x: (x - 0).sin(),
    "x - 0.0": lambda x: (x - 0.0).sin(),
    "x * 1": lambda x: (x * 1).sin(),
    "1.0 * x": lambda x: (1.0 * x).sin(),
    "x * True": lambda x: (x * True).sin(),
    "x / 1": lambda x: (x / 1).sin(),
    "x + -0.0": lambda x: (x + -0.0).sin(),
    "ones": lambda x: (x * torch.ones(8, dtype=x.dtype)).sin(),
    "a number of another dtype": lambda x: (x * torch.ones((), dtype=torch.float64)).sin(),
    "full": lambda x: (torch.full((8,), -0.0, dtype=x.dtype) + x).sin(),
    "zeros": lambda x: (x - torch.zeros(8, dtype=x.dtype)).sin(),
    "integer zeros": lambda x: (x - torch.zeros(8, dtype=torch.int64)).sin(),
    "ones_like": lambda x: (x * torch.ones_like(x)).sin(),
    "new_full": lambda x: (x / x.new_full((8,), 1)).sin(),
    "scalar_tensor": lambda x: (x * aten.scalar_tensor(1.0, dtype=x.dtype)).sin(),
}


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("function", FOLDS_FLOATING.values(), ids=FOLDS_FLOATING)
def test_folds_floating_point(function, dtype):
    run = after(function, special(dtype))
    assert run.applied == {"fold_arithmetic": 1}
    assert run.after["aten.sin.default"] == 1
    assert not {"aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor"} & set(
        run.after
    )
    check_against_eager(function, lambda: [special(dtype)])


@pytest.mark.parametrize("dtype", INTEGER)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x + 0).bitwise_not(),
        lambda x: (0 + x).bitwise_not(),
        lambda x: (x - 0).bitwise_not(),
        lambda x: (x * 1).bitwise_not(),
        lambda x: (x + torch.zeros((), dtype=torch.int64)).bitwise_not(),
    ],
)
def test_folds_integers(function, dtype):
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    run = after(function, torch.tensor([low, high, 0, 1], dtype=dtype))
    assert run.applied == {"fold_arithmetic": 1}
    check_against_eager(function, lambda: [torch.tensor([low, high, 0, 1], dtype=dtype)])


def test_folds_booleans():
    def function(x):
        return (x * True).logical_not(), (x + False).logical_not()

    assert after(function, torch.tensor([True, False])).applied == {"fold_arithmetic": 2}
    check_against_eager(function, lambda: [torch.tensor([True, False])])


@pytest.mark.parametrize("dynamic", [False, True])
def test_folds_symbolic_sizes_without_a_guard(dynamic):
    run = after(lambda x: (x * 1 - 0).sin(), torch.randn(3, 4), dynamic=dynamic)
    assert run.after["aten.sin.default"] == 1
    assert run.applied == {"fold_arithmetic": 2}


F32, I64, C64 = torch.ones(3), torch.ones(3, dtype=torch.int64), torch.ones(3) * 1j
REFUSES = {
    "x + 0": (lambda x: (x + 0).sin(), F32, MINUS_ZERO),
    "x + 0.0": (lambda x: (x + 0.0).sin(), F32, MINUS_ZERO),
    "x + integer -0.0": (
        lambda x: (x + torch.full((3,), -0.0, dtype=torch.int64)).sin(),
        F32,
        MINUS_ZERO,
    ),
    "x - -0.0": (lambda x: (x - -0.0).sin(), F32, "-0.0 - (-0.0) is +0.0"),
    "alpha": (lambda x: torch.add(x, -0.0, alpha=2).sin(), F32, "alpha is not 1"),
    "scalar alpha": (lambda x: aten.sub.Scalar(x, 0, 2).sin(), F32, "alpha is not 1"),
    "complex * 1": (lambda x: (x * 1).sin(), C64, "complex arithmetic may change"),
    "complex - 0": (lambda x: (x - 0).sin(), C64, "complex arithmetic may change"),
    "promotion by a literal": (lambda x: (x * 1.0).sin(), I64, "dtype"),
    "promotion by a tensor": (
        lambda x: (x * torch.ones(3, dtype=torch.float64)).sin(),
        F32,
        "dtype",
    ),
    "integer division": (lambda x: (x / 1).sin(), I64, "dtype"),
    "bool * 1": (lambda x: (x * 1).neg(), torch.tensor([True, False]), "dtype"),
    "broadcast": (lambda x: (x * torch.ones(2, 3)).sin(), F32, "shape"),
    "0-dim by 1-dim": (lambda x: (x * torch.ones(3)).sin(), torch.tensor(2.0), "shape"),
    "0-dim double": (
        lambda x: (x * torch.ones((), dtype=torch.float64)).sin(),
        torch.tensor(2.0),
        "dtype",
    ),
    "gaps": (lambda x: (x * 1).sin(), torch.ones(3, 4)[:, ::2], "stride"),
    "the input is returned": (
        lambda x: x * 1,
        F32,
        "an output would be a tensor object that lives on outside",
    ),
}


@pytest.mark.parametrize(("function", "value", "reason"), REFUSES.values(), ids=REFUSES)
def test_refuses(function, value, reason):
    run = after(function, value)
    assert run.before == run.after
    (given,) = run.refused
    assert reason in given
    check_against_eager(function, lambda: [value.clone()])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 0,
        lambda x: x + 1,
        lambda x: 0 - x,
        lambda x: 2 / x,
        lambda x: x * torch.full((8,), 0.5),
        lambda x: torch.div(x, 1, rounding_mode="floor"),
        lambda x: x * (1 + 0j),
        lambda x: x * 0.9999999,
    ],
)
def test_leaves_alone(function):
    run = after(lambda x: function(x).abs(), special(torch.float32))
    assert not run.applied
    assert not run.refused
    check_against_eager(function, lambda: [special(torch.float32)])


def test_a_literal_is_what_its_tensor_holds(node_of):
    """0.5 in an integer tensor is 0, and 1 + 1e-9 in half precision is 1."""

    def function(x, y):
        return (x + torch.full((3,), 0.5, dtype=torch.int64)).neg(), (
            y * torch.full((3,), 1 + 1e-9, dtype=torch.float16)
        ).sin()

    def inputs():
        return [torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.float16)]

    assert after(function, *inputs()).applied == {"fold_arithmetic": 2}
    check_against_eager(function, inputs)


def test_a_filled_tensor_that_is_written_to_is_no_constant(trace):
    def function(x):
        ones = torch.ones(3)
        ones.add_(1)
        return (x * ones).sin()

    unit = trace(function, torch.ones(3))
    assert not run_passes([FoldArithmetic], unit).applied
    assert torch.equal(unit.gm(torch.ones(3)), torch.full((3,), 2.0).sin())


def test_an_operand_that_is_written_to_later_is_kept_apart(trace):
    def function(x):
        y = x * 1
        x.add_(1)
        return y + x

    unit = trace(function, torch.ones(3))
    run = run_passes([FoldArithmetic], unit)
    assert run.refused == {"the memory is written to elsewhere in the graph": 1}
    assert unit.gm(torch.ones(3)).tolist() == [3.0] * 3


def test_returned_twice_stays_two_tensors():
    def function(x):
        y = x.sin()
        return y, y * 1

    run = after(function, torch.ones(3))
    assert run.refused == {"two outputs would be one tensor object": 1}
    check_against_eager(function, lambda: [torch.ones(3)])


def test_empty_tensors_are_left_alone():
    """The strides of an empty result are not what its fake value says."""

    def function(x):
        return torch._neg_view(x[:0]) - torch.zeros((), dtype=torch.float64)

    check_against_eager(function, lambda: [torch.ones(6)[::2]])
    run = after(lambda x: (x * 1).sin(), torch.ones(0, 3))
    assert run.refused == {"an empty tensor may have other strides than its fake value": 1}


def test_eight_bit_floats():
    def function(x):
        return (x.to(torch.float16) * 1).sin(), x.clone()

    check_against_eager(function, lambda: [torch.tensor([1.0, NAN, -0.0]).to(torch.float8_e4m3fn)])


def test_a_size_is_no_literal():
    check_against_eager(lambda x: x * x.shape[0], lambda: [torch.ones(1, 5)], dynamic=True)
    check_against_eager(lambda x: x * x.shape[0], lambda: [torch.ones(3, 5)], dynamic=True)
