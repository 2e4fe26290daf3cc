import pytest
import torch

from tests.passes.folding import FLOATS, INTEGERS, alone, folded, special
from xpu_graph.passes.fold_repeats import FoldRepeats
from xpu_graph.testing import capture, check_against_eager, run_passes

aten = torch.ops.aten
REAL = [*FLOATS, *INTEGERS]
SIGNED = [dtype for dtype in REAL if dtype.is_signed]
ROUNDINGS = {
    f"{outer} of {inner}": (lambda x, o=outer, i=inner: getattr(getattr(x, i)(), o)())
    for outer in ("ceil", "floor", "round", "trunc")
    for inner in ("ceil", "floor", "round", "trunc")
}
FOLDS = {
    "- -": (lambda x: x.neg().neg(), REAL),
    "~ ~": (lambda x: ~(~x), [*INTEGERS, torch.bool]),
    "not not": (lambda x: x.logical_not().logical_not(), [torch.bool]),
    "abs abs": (lambda x: x.abs().abs(), SIGNED),
    "relu relu": (lambda x: x.relu().relu(), SIGNED),
    "abs of a square": (lambda x: (x * x).abs(), FLOATS),
    "relu of an exponential": (lambda x: x.exp().relu(), FLOATS),
    "abs of a softmax": (lambda x: x.softmax(0).abs(), FLOATS),
    "abs of unsigned": (lambda x: x.clone().abs(), [torch.uint8]),
    "relu of unsigned": (lambda x: x.clone().relu(), [torch.uint8]),
    "maximum": (lambda x: torch.maximum(x, x), [*REAL, torch.bool]),
    "minimum": (lambda x: torch.minimum(x, x), [*REAL, torch.bool]),
    "fmax": (lambda x: torch.fmax(x, x), REAL),
    "fmin": (lambda x: torch.fmin(x, x), REAL),
    "and": (lambda x: x & x, [*INTEGERS, torch.bool]),
    "or": (lambda x: x | x, [*INTEGERS, torch.bool]),
    "logical and": (lambda x: x.logical_and(x), [torch.bool]),
    "logical or": (lambda x: x.logical_or(x), [torch.bool]),
    **{name: (function, FLOATS) for name, function in ROUNDINGS.items()},
}
KNOWN = {
    "x - x": (lambda x: x - x, INTEGERS),
    "x ^ x": (lambda x: x ^ x, [*INTEGERS, torch.bool]),
    "x == x": (lambda x: x.eq(x), [*INTEGERS, torch.bool]),
    "x != x": (lambda x: x.ne(x), [*INTEGERS, torch.bool]),
    "x <= x": (lambda x: x.le(x), [*INTEGERS, torch.bool]),
    "x >= x": (lambda x: x.ge(x), [*INTEGERS, torch.bool]),
    "x < x": (lambda x: x.lt(x), [*REAL, torch.bool]),
    "x > x": (lambda x: x.gt(x), [*REAL, torch.bool]),
}


def cases(table):
    return [
        pytest.param(function, dtype, id=f"{name} {dtype}")
        for name, (function, dtypes) in table.items()
        for dtype in dtypes
    ]


@pytest.mark.parametrize(("function", "dtype"), cases(FOLDS))
def test_folds(trace, function, dtype):
    run = folded(trace, FoldRepeats, lambda x: function(x.clone()).clone(), special(dtype))
    assert run.applied == {"fold_repeats": 1}
    assert not run.refused


@pytest.mark.parametrize(("function", "dtype"), cases(KNOWN))
def test_fills_in(trace, function, dtype):
    run = folded(trace, FoldRepeats, function, special(dtype))
    assert run.after == {"aten.full.default": 1}


def test_long_chains_go_in_the_first_round(trace):
    def function(x):
        for _ in range(50):
            x = -x
        return x.sin()

    run = folded(trace, FoldRepeats, function, torch.ones(3))
    assert run.after == {"aten.sin.default": 1}
    assert run.rounds == 2


@pytest.mark.parametrize("dynamic", [False, True])
def test_symbolic_sizes(dynamic):
    def function(x):
        return x.neg().neg().sin(), x.relu().relu()

    run = run_passes([FoldRepeats], capture(function, torch.ones(3, 4), dynamic=dynamic)[0])
    assert run.applied == {"fold_repeats": 2}
    check_against_eager(function, lambda: [torch.ones(3, 4)], alone(FoldRepeats), dynamic=dynamic)


REFUSES = {
    "not not a number": (lambda x: x.logical_not().logical_not(), "dtype"),
    "the input is returned": (lambda x: x.neg().neg(), "an output would be a tensor object"),
    "two outputs": (lambda x: ((y := x.abs()), y.abs()), "two outputs would be one"),
    "strides": (lambda x: torch.maximum(y := x[::2], y), "stride"),
}


@pytest.mark.parametrize(("function", "reason"), REFUSES.values(), ids=REFUSES)
def test_refuses(trace, function, reason):
    run = folded(trace, FoldRepeats, function, special(torch.float32))
    assert not run.applied
    (given,) = run.refused
    assert given.startswith(reason)


def test_refuses_to_fill_symbolic_sizes():
    run = run_passes([FoldRepeats], capture(lambda x: x.lt(x), torch.ones(3), dynamic=True)[0])
    assert run.refused == {"a size is symbolic": 1}


LEAVES_ALONE = {
    "x - x": lambda x: x - x,
    "x == x": lambda x: x.eq(x),
    "x != x": lambda x: x.ne(x),
    "x <= x": lambda x: x.le(x),
    "x - 2 x": lambda x: torch.sub(x, x, alpha=2),
    "abs of relu's -0.0": lambda x: x.relu().abs(),
    "relu of a sum": lambda x: (x.abs() - 1).relu(),
    "floor of abs": lambda x: x.abs().floor(),
    "- - complex": lambda x: x.to(torch.complex64).neg().neg(),
}


@pytest.mark.parametrize("function", LEAVES_ALONE.values(), ids=LEAVES_ALONE)
def test_leaves_alone(trace, function):
    x = (
        special(torch.float32).nan_to_num(1.0, 1.0, 1.0)
        if "~" in str(function)
        else special(torch.float32)
    )
    run = folded(trace, FoldRepeats, function, x)
    assert not run.applied
    assert not run.refused


def test_the_least_integer_has_no_absolute_value(trace):
    run = folded(trace, FoldRepeats, lambda x: (x * x).abs(), special(torch.int32))
    assert not run.applied


def test_integers_wrap(trace):
    run = folded(trace, FoldRepeats, lambda x: torch.sub(x, x, alpha=3), special(torch.int8))
    assert not run.applied


def test_writes_are_respected(trace):
    def inner(x):
        y = -x
        y.add_(1)
        return (-y).sin()

    def source(x):
        y = -x
        x.add_(1)
        return (-y).sin() + x

    assert not folded(trace, FoldRepeats, inner, torch.ones(3)).applied
    run = folded(trace, FoldRepeats, source, torch.ones(3))
    assert run.refused == {"the memory is written to elsewhere in the graph": 1}


def test_empty_and_0_dim(trace):
    def function(x, y):
        return x.neg().neg().sin(), y.neg().neg().sin(), x.lt(x)

    run = folded(trace, FoldRepeats, function, torch.tensor(-0.0), torch.ones(0))
    assert run.applied == {"fold_repeats": 2}
    assert run.refused == {"an empty tensor may have other strides than its fake value": 1}
