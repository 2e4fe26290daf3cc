import pytest
import torch

from tests.passes.folding import FLOATS, INF, INTEGERS, NAN, alone, folded, special
from xpu_graph.passes import FoldArithmetic
from xpu_graph.testing import capture, check_against_eager, run_passes

aten = torch.ops.aten
MINUS_ZERO = "-0.0 + 0 is +0.0"
OUTSIDE = "an output would be a tensor object that lives on outside"


def after(function, *inputs, **how):
    return run_passes([FoldArithmetic], capture(function, *inputs, **how)[0])


NEUTRAL_FLOATING = {
    "x - 0": lambda x: x - 0,
    "x - 0.0": lambda x: x - 0.0,
    "x * 1": lambda x: x * 1,
    "1.0 * x": lambda x: 1.0 * x,
    "x * True": lambda x: x * True,
    "x / 1": lambda x: x / 1,
    "true_divide": lambda x: torch.true_divide(x, 1.0),
    "x + -0.0": lambda x: x + -0.0,
    "x ** 1": lambda x: x**1,
    "x ** 1.0": lambda x: x**1.0,
    "x ** True": lambda x: x**True,
    "x ** ones": lambda x: x ** torch.ones(37, dtype=x.dtype),
    "rsub of zeros": lambda x: aten.rsub.Tensor(torch.zeros(37, dtype=x.dtype), x),
    "ones": lambda x: x * torch.ones(37, dtype=x.dtype),
    "a number of another dtype": lambda x: x * torch.ones((), dtype=torch.float64),
    "full": lambda x: torch.full((37,), -0.0, dtype=x.dtype) + x,
    "zeros": lambda x: x - torch.zeros(37, dtype=x.dtype),
    "integer zeros": lambda x: x - torch.zeros(37, dtype=torch.int64),
    "one zero": lambda x: x - torch.zeros(1, dtype=x.dtype),
    "ones_like": lambda x: x * torch.ones_like(x),
    "new_full": lambda x: x / x.new_full((37,), 1),
    "scalar_tensor": lambda x: x * aten.scalar_tensor(1.0, dtype=x.dtype),
    "a view of ones": lambda x: x * torch.ones(1, 1, dtype=x.dtype).expand(1, 37)[0],
    "a cast of ones": lambda x: x * torch.ones(37, dtype=torch.int32).to(x.dtype),
    "abs(x) + 0.0": lambda x: x.abs() + 0.0,
    "0 + x * x": lambda x: 0 + x * x,
    "x * x - -0.0": lambda x: x * x - -0.0,
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("function", NEUTRAL_FLOATING.values(), ids=NEUTRAL_FLOATING)
def test_drops_neutral_operands_in_floating_point(trace, function, dtype):
    run = folded(trace, FoldArithmetic, lambda x: function(x.neg()).sin(), special(dtype))
    assert run.applied == {"fold_arithmetic": 1}
    assert not run.refused
    assert not set(run.after) & {f"aten.{n}.Tensor" for n in ("add", "sub", "div", "rsub")}


@pytest.mark.parametrize("number", [0.0, -0.0, 1.0])
def test_constants_of_the_module_are_read(number):
    """A tensor of equal elements counts; -0.0 beside 0.0 are not equal."""

    def function(x):
        constant = torch.tensor([number] * 3)
        both = torch.tensor([-0.0, 0.0, -0.0])
        return (x - constant).sin(), (constant + x).cos(), (x * constant).exp(), x + both

    run = after(function, torch.ones(3))
    assert run.applied == {"fold_arithmetic": 1}
    check_against_eager(function, lambda: [special(torch.float32, 3)], alone(FoldArithmetic))


NEUTRAL_INTEGERS = {
    "x + 0": lambda x: x + 0,
    "0 + x": lambda x: 0 + x,
    "x - 0": lambda x: x - 0,
    "x * 1": lambda x: x * 1,
    "0-dim int64": lambda x: x + torch.zeros((), dtype=torch.int64),
    "x ** 1": lambda x: x**1,
    "x // 1": lambda x: x // 1,
    "floor": lambda x: torch.div(x, 1, rounding_mode="floor"),
    "trunc": lambda x: torch.div(x, torch.ones_like(x), rounding_mode="trunc"),
    "x & -1": lambda x: x & torch.full((37,), -1, dtype=x.dtype),
    "x | 0": lambda x: x | 0,
    "x ^ 0": lambda x: 0 ^ x,
    "x | False": lambda x: x | torch.zeros((), dtype=torch.bool),
}
KNOWN_INTEGERS = {
    "x * 0": lambda x: x * 0,
    "x % 1": lambda x: x % 1,
    "fmod": lambda x: torch.fmod(x, 1),
    "x & 0": lambda x: x & 0,
    "x | -1": lambda x: x | torch.full((37,), -1, dtype=x.dtype),
    "x ** 0": lambda x: x**0,
}
REWRITTEN_INTEGERS = {
    "x ** 2": (lambda x: x**2, "aten.mul.Tensor"),
    "x * -1": (lambda x: x * -1, "aten.neg.default"),
    "x * full of -1": (lambda x: torch.full((37,), -1, dtype=x.dtype) * x, "aten.neg.default"),
}


def between(function):
    return lambda x: function(~x).neg()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers(trace, dtype):
    """The least and the greatest number included: arithmetic wraps around."""
    for function in NEUTRAL_INTEGERS.values():
        run = folded(trace, FoldArithmetic, between(function), special(dtype))
        assert run.after == {"aten.bitwise_not.default": 1, "aten.neg.default": 1}
    for function in KNOWN_INTEGERS.values():
        run = folded(trace, FoldArithmetic, function, special(dtype))
        assert run.after == {"aten.full.default": 1}
    for function, target in REWRITTEN_INTEGERS.values():
        run = folded(trace, FoldArithmetic, function, special(dtype))
        assert run.after == {target: 1}


FILLED = {"aten.full.default": 1, "aten.logical_not.default": 1}
BOOLEANS = {
    "x * True": (lambda x: x * True, False),
    "x + False": (lambda x: x + False, False),
    "x & True": (lambda x: x & True, False),
    "x | False": (lambda x: False | x, False),
    "x ^ False": (lambda x: x ^ False, False),
    "x & ones": (lambda x: x & torch.ones(37, dtype=torch.bool), False),
    "logical_and": (lambda x: x.logical_and(torch.tensor(1)), False),
    "logical_and NaN": (lambda x: x.logical_and(torch.full((), NAN)), False),
    "logical_or": (lambda x: x.logical_or(torch.zeros(37)), False),
    "logical_xor": (lambda x: x.logical_xor(torch.full((), -0.0)), False),
    "x & False": (lambda x: x & False, True),
    "x | True": (lambda x: x | True, True),
    "never": (lambda x: x.logical_and(torch.zeros(())), True),
    "always": (lambda x: torch.full((), 0.5).logical_or(x), True),
    "x * False": (lambda x: x * False, True),
    "x * 0": (lambda x: x * 0, True),
    "x % 1": (lambda x: x % 1, True),
}


@pytest.mark.parametrize(("function", "filled"), BOOLEANS.values(), ids=BOOLEANS)
def test_booleans(trace, function, filled):
    def negated(x):
        return function(x.logical_not()).logical_not()

    run = folded(trace, FoldArithmetic, negated, special(torch.bool))
    assert run.applied == {"fold_arithmetic": 1}
    assert run.after == (FILLED if filled else {"aten.logical_not.default": 2})


def test_logical_and_of_numbers_by_false_is_false(trace):
    run = folded(
        trace, FoldArithmetic, lambda x: x.logical_and(torch.zeros(37)), special(torch.float32)
    )
    assert run.after == {"aten.full.default": 1}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers(trace, dtype):
    """Bitwise, for every number of 16 bits."""

    def function(x):
        return x**2, x**2.0, x**0, x**0.0, x**-0.0, x[::3] ** 2, x[0] ** 2

    x = torch.arange(-(2**15), 2**15).to(torch.int16)
    x = x.view(dtype) if dtype.itemsize == 2 else torch.cat([special(dtype), x.to(dtype) / 7])
    run = folded(trace, FoldArithmetic, function, x)
    assert run.applied == {"fold_arithmetic": 7}
    assert (run.after["aten.mul.Tensor"], run.after["aten.full.default"]) == (4, 3)


def test_powers_may_round_on_other_devices(trace):
    def function(x):
        return x**2, x**0

    x = torch.ones(3, device="meta")
    run = run_passes([FoldArithmetic], trace(function, x))
    assert run.refused == {"a power may be rounded in another way on this device": 2}
    run = run_passes([FoldArithmetic], trace(function, x), opt_level="level2")
    assert run.applied == {"fold_arithmetic": 2}


@pytest.mark.parametrize("dynamic", [False, True])
def test_symbolic_sizes_without_a_guard(dynamic):
    def function(x):
        return (x * 1 - 0).sin()

    run = after(function, torch.randn(3, 4), dynamic=dynamic)
    assert run.after == {"aten.sin.default": 1}
    assert run.applied == {"fold_arithmetic": 2}
    check_against_eager(function, lambda: [torch.ones(3, 4)], alone(FoldArithmetic), dynamic=True)


def test_a_symbolic_size_cannot_be_filled():
    run = after(lambda x: x * 0, torch.ones(5, dtype=torch.int64), dynamic=True)
    assert run.refused == {"a size is symbolic": 1}
    run = after(lambda x: x * torch.ones(2, 1), torch.ones(5), dynamic=True)
    assert run.refused == {"a size is symbolic": 1}


BROADCASTS = {
    "to more dimensions": (lambda x: x * torch.ones(2, 37), [37]),
    "of size 1": (lambda x: torch.full((3, 4), -0.0) + x, [3, 1]),
    "0-dim": (lambda x: x - torch.zeros(3), []),
    "of integers": (lambda x: x.long() + torch.zeros(2, 3, dtype=torch.int64), [3]),
}


@pytest.mark.parametrize(("function", "shape"), BROADCASTS.values(), ids=BROADCASTS)
def test_what_is_broadcast_is_copied(trace, function, shape):
    """Into memory of its own, so it may leave the graph."""
    run = folded(trace, FoldArithmetic, function, torch.ones(shape))
    assert run.applied == {"fold_arithmetic": 1}
    assert run.after["aten.expand.default"] == run.after["aten.clone.default"] == 1


F32, I64, C64 = torch.ones(3), torch.ones(3, dtype=torch.int64), torch.ones(3) * 1j
COMPLEX = "complex arithmetic may change"
REFUSES = {
    "x + 0": (lambda x: (x + 0).sin(), F32, MINUS_ZERO),
    "x + 0.0": (lambda x: (x + 0.0).sin(), F32, MINUS_ZERO),
    "x + integer -0.0": (
        lambda x: (x + torch.full((3,), -0.0, dtype=torch.int64)).sin(),
        F32,
        MINUS_ZERO,
    ),
    "relu keeps -0.0": (lambda x: x.relu() + 0.0, F32, MINUS_ZERO),
    "x - -0.0": (lambda x: (x - -0.0).sin(), F32, "-0.0 - (-0.0) is +0.0"),
    "alpha": (lambda x: torch.add(x, -0.0, alpha=2).sin(), F32, "alpha is not 1"),
    "scalar alpha": (lambda x: aten.sub.Scalar(x, 0, 2).sin(), F32, "alpha is not 1"),
    "alpha of the other": (
        lambda x: torch.add(torch.full((3,), -0.0), x, alpha=2),
        F32,
        "alpha is not 1",
    ),
    "complex * 1": (lambda x: (x * 1).sin(), C64, COMPLEX),
    "complex - 0": (lambda x: (x - 0).sin(), C64, COMPLEX),
    "complex ** 1": (lambda x: (x**1).sin(), C64, COMPLEX),
    "promotion by a literal": (lambda x: (x * 1.0).sin(), I64, "dtype"),
    "promotion by a tensor": (
        lambda x: (x * torch.ones(3, dtype=torch.float64)).sin(),
        F32,
        "dtype",
    ),
    "promotion by a power": (lambda x: x**2.0, I64, "dtype"),
    "integer division": (lambda x: (x / 1).sin(), I64, "dtype"),
    "bool * 1": (lambda x: (x * 1).neg(), torch.tensor([True, False]), "dtype"),
    "bool // 1": (lambda x: x // 1, torch.tensor([True, False]), "dtype"),
    "bool ** 2": (lambda x: x**2, torch.tensor([True, False]), "dtype"),
    "truth of numbers": (lambda x: x.logical_and(torch.ones(3)), F32, "dtype"),
    "0-dim double": (
        lambda x: (x * torch.ones((), dtype=torch.float64)).sin(),
        torch.tensor(2.0),
        "dtype",
    ),
    "gaps": (lambda x: (x * 1).sin(), torch.ones(3, 4)[:, ::2], "stride"),
    "a transposed broadcast": (lambda x: x.t() * torch.ones(5, 2, 3), torch.ones(3, 2), "stride"),
    "the input is returned": (lambda x: x * 1, F32, OUTSIDE),
}


@pytest.mark.parametrize(("function", "value", "reason"), REFUSES.values(), ids=REFUSES)
def test_refuses(trace, function, value, reason):
    unit = trace(function, value)
    run = run_passes([FoldArithmetic], unit)
    assert run.before == run.after
    (given,) = run.refused
    assert reason in given
    check_against_eager(function, lambda: [value.clone()])


LEAVES_ALONE = {
    "x * 0": lambda x: x * 0,
    "x + 1": lambda x: x + 1,
    "0 - x": lambda x: 0 - x,
    "2 / x": lambda x: 2 / x,
    "1 ** x": lambda x: 1**x,
    "x * half": lambda x: x * torch.full((37,), 0.5),
    "rounding": lambda x: torch.div(x, 1, rounding_mode="floor"),
    "x % 1": lambda x: x % 1,
    "x * complex": lambda x: x * (1 + 0j),
    "nearly 1": lambda x: x * 0.9999999,
    "x * -1": lambda x: x * -1,
    "x ** 3": lambda x: x**3,
    "x ** twos": lambda x: x ** torch.full((37,), 2.0),
    "x ** zeros": lambda x: x ** torch.zeros(37),
    "a float that is no bound": lambda x: x.bool() & (x > 0),
}


@pytest.mark.parametrize("function", LEAVES_ALONE.values(), ids=LEAVES_ALONE)
def test_leaves_alone(trace, function):
    run = folded(trace, FoldArithmetic, function, special(torch.float32))
    assert not run.applied
    assert not run.refused


def test_masks_of_bits_are_not_booleans(trace):
    """True is 1 among integers, and 1 keeps one bit only."""

    def function(x):
        return x & True, x & 1, x | True, x ^ 1, x & torch.tensor(255)

    assert not folded(trace, FoldArithmetic, function, special(torch.int64)).applied
    run = folded(trace, FoldArithmetic, lambda x: (x & torch.tensor(255)) + 1, special(torch.uint8))
    assert run.applied == {"fold_arithmetic": 1}


def test_a_literal_is_what_its_tensor_holds():
    """0.5 in an integer tensor is 0, and 1 + 1e-9 in half precision is 1."""

    def function(x, y):
        return (x + torch.full((3,), 0.5, dtype=torch.int64)).neg(), (
            y * torch.full((3,), 1 + 1e-9, dtype=torch.float16)
        ).sin()

    def inputs():
        return [torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.float16)]

    assert after(function, *inputs()).applied == {"fold_arithmetic": 2}
    check_against_eager(function, inputs, alone(FoldArithmetic))


def test_a_number_beside_half_precision_is_not_rounded_first(trace):
    """x + 1e-9 is x in half precision, but the sum of -0.0 and it is +0.0."""
    run = folded(
        trace, FoldArithmetic, lambda x: (x - 1e-9, x * (1 + 1e-9)), special(torch.float16)
    )
    assert not run.applied


def test_a_filled_tensor_that_is_written_to_is_no_constant(trace):
    def function(x):
        ones = torch.ones(3)
        ones.add_(1)
        return (x * ones).sin()

    assert not folded(trace, FoldArithmetic, function, torch.ones(3)).applied


def test_an_absolute_value_that_is_written_to_may_be_anything(trace):
    def function(x):
        y = x.abs()
        y.neg_()
        return (y + 0.0).sin()

    run = folded(trace, FoldArithmetic, function, special(torch.float32))
    assert run.refused == {MINUS_ZERO: 1}


def test_an_operand_that_is_written_to_later_is_kept_apart(trace):
    def function(x):
        y = x * 1
        x.add_(1)
        return y + x

    run = folded(trace, FoldArithmetic, function, torch.ones(3))
    assert run.refused == {"the memory is written to elsewhere in the graph": 1}


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


def test_0_dim(trace):
    def function(x, y):
        one = torch.ones((), dtype=torch.int64)
        return (x * 1).sin(), (x * one).sin(), (y * one).neg(), (y * 1).neg(), (one * y) ** 0

    run = folded(trace, FoldArithmetic, function, torch.tensor(INF), torch.tensor(3))
    assert run.applied == {"fold_arithmetic": 6}


def test_eight_bit_floats():
    def function(x):
        return (x.to(torch.float16) * 1).sin(), x.clone()

    check_against_eager(function, lambda: [torch.tensor([1.0, NAN, -0.0]).to(torch.float8_e4m3fn)])


def test_a_size_is_no_literal():
    check_against_eager(lambda x: x * x.shape[0], lambda: [torch.ones(1, 5)], dynamic=True)
    check_against_eager(lambda x: x * x.shape[0], lambda: [torch.ones(3, 5)], dynamic=True)
