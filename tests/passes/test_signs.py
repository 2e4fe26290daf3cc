import pytest
import torch

from tests.passes.folding import FLOATS, special
from xpu_graph.passes.rewriter import Rewriter
from xpu_graph.passes.signs import is_never_negative, is_never_negative_zero

aten = torch.ops.aten

NEVER_NEGATIVE = {
    "abs": lambda x: x.abs(),
    "abs of complex": lambda x: torch.complex(x.float(), x.float()).abs(),
    "exp": lambda x: x.exp(),
    "exp2": lambda x: x.exp2(),
    "sigmoid": lambda x: x.sigmoid(),
    "softmax": lambda x: x.softmax(0),
    "cosh": lambda x: x.cosh(),
    "square": lambda x: x * x,
    "power": lambda x: x**2,
    "sum": lambda x: x.abs() + x.exp(),
    "sum with a number": lambda x: x.abs() + 1e-9,
    "product": lambda x: x.sigmoid() * x.exp() * 0.5,
    "quotient": lambda x: x.exp() / x.exp().sum(),
    "relu": lambda x: x.abs().relu(),
    "sqrt": lambda x: (x * x).sqrt(),
    "maximum": lambda x: torch.maximum(x.abs(), x.exp()),
    "mean": lambda x: x.abs().mean(0, keepdim=True),
    "cumsum": lambda x: x.abs().cumsum(0),
    "amax": lambda x: x.abs().amax(0),
    "a view": lambda x: x.abs().view(37, 1)[3:],
    "a cast": lambda x: x.abs().to(torch.float16),
    "of booleans": lambda x: (x > 0).to(x.dtype),
    "of bytes": lambda x: torch.arange(37).to(torch.uint8).float(),
    "a fill": lambda x: torch.full((3,), 2.0),
}
ONLY_NO_ZERO = {
    "rsqrt": lambda x: x.rsqrt(),
    "a negative number": lambda x: torch.full((3,), -2.0),
    "integers": lambda x: x.nan_to_num(0, 1, 1).long(),
    "cast integers": lambda x: x.nan_to_num(0, 1, 1).int().to(x.dtype),
    "a sum of one that has none": lambda x: x + x.abs(),
    "a sum with a number": lambda x: x + 0.5,
    "a difference": lambda x: x.abs() - x,
    "a wider one": lambda x: (x.abs() - x).double(),
    "a view": lambda x: (x.abs() - x)[2:],
}
NOTHING_KNOWN = {
    "an input": lambda x: x,
    "neg": lambda x: x.abs().neg(),
    "relu": lambda x: x.relu(),
    "round": lambda x: x.abs().neg().round(),
    "sqrt": lambda x: x.sqrt(),
    "a sum": lambda x: x + x,
    "the other difference": lambda x: x - x.abs(),
    "a product": lambda x: x * x.abs(),
    "a fill of -0.0": lambda x: torch.full((3,), -0.0),
    "alpha": lambda x: torch.add(x, x.abs(), alpha=-1e-9),
    "a difference that is rounded": lambda x: (x.abs() - x).to(torch.float16).to(torch.bfloat16),
    "a number that is rounded": lambda x: x.half() + 1e-9,
    "a number that rounds to -0.0": lambda x: x.float() + -1e-50,
    "cube": lambda x: x**3,
    "complex": lambda x: torch.complex(x.float(), x.float()) + 1,
}


def asked(trace, function, dtype):
    x = special(dtype)
    unit = trace(function, x)
    unit.rewriter = Rewriter(unit)
    result = unit.gm.graph.output_node().args[0]
    return is_never_negative(result, unit), is_never_negative_zero(result, unit), function(x)


def has_negative_zero(tensor):
    if not tensor.dtype.is_floating_point:
        return False
    return bool(((tensor == 0) & tensor.signbit()).any())


def has_negative(tensor):
    return tensor.dtype.is_floating_point and bool((tensor.signbit() & ~tensor.isnan()).any())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("function", NEVER_NEGATIVE.values(), ids=NEVER_NEGATIVE)
def test_never_negative(trace, function, dtype):
    assert asked(trace, function, dtype)[:2] == (True, True)
    value = asked(trace, function, dtype)[2]
    assert not has_negative(value)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("function", ONLY_NO_ZERO.values(), ids=ONLY_NO_ZERO)
def test_never_negative_zero(trace, function, dtype):
    negative, zero, value = asked(trace, function, dtype)
    assert (negative, zero) == (False, True)
    assert not has_negative_zero(value)


@pytest.mark.parametrize("function", NOTHING_KNOWN.values(), ids=NOTHING_KNOWN)
def test_nothing_known(trace, function):
    assert asked(trace, function, torch.float32)[:2] == (False, False)


def test_integers_overflow(trace):
    def function(x):
        return x.nan_to_num(0, 1, 1).int() ** 2

    assert asked(trace, function, torch.float32)[0] is False


def test_what_is_written_to_may_have_any_sign(trace):
    def function(x):
        y = x.abs()
        y.neg_()
        return y.view(37)

    assert asked(trace, function, torch.float32)[:2] == (False, False)


def test_forks_are_followed_so_far(trace):
    def function(x):
        y = x.abs()
        for _ in range(40):
            y = y + y
        return y

    assert asked(trace, function, torch.float32)[:2] == (False, False)


def test_literals():
    assert is_never_negative(0.0, None)
    assert is_never_negative(float("nan"), None)
    assert not is_never_negative(-0.0, None)
    assert not is_never_negative(-1, None)
    assert is_never_negative_zero(-1, None)
    assert not is_never_negative_zero(-0.0, None)
    assert not is_never_negative_zero("x", None)
