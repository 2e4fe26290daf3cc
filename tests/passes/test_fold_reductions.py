import pytest
import torch

from tests.passes.folding import DTYPES, FLOATS, INTEGERS, alone, folded, special
from xpu_graph.passes.fold_reductions import FoldReductions
from xpu_graph.testing import capture, check_against_eager, run_passes

aten = torch.ops.aten
REAL = [*FLOATS, *INTEGERS]
MINUS_ZERO = "0 + -0.0 is +0.0"
REDUCTIONS = {
    "aten.all.default",
    "aten.all.dim",
    "aten.all.dims",
    "aten.amax.default",
    "aten.amin.default",
    "aten.any.default",
    "aten.any.dim",
    "aten.any.dims",
    "aten.argmax.default",
    "aten.argmin.default",
    "aten.cumprod.default",
    "aten.cumsum.default",
    "aten.max.default",
    "aten.mean.default",
    "aten.mean.dim",
    "aten.min.default",
    "aten.prod.default",
    "aten.prod.dim_int",
    "aten.sum.default",
    "aten.sum.dim_IntList",
}

KEEP_SIGNS = {
    "amax": (lambda x: x.amax(1), [*REAL, torch.bool]),
    "amin, kept": (lambda x: x.amin(1, keepdim=True), [*REAL, torch.bool]),
    "amax of two": (lambda x: x[:, None].amax([1, -1]), REAL),
    "max": (lambda x: x.max(1).values, [*REAL, torch.bool]),
    "min, kept": (lambda x: x.min(-1, keepdim=True).values, REAL),
    "prod": (lambda x: x.prod(1), [*REAL, torch.bool]),
    "prod, kept": (lambda x: x.prod(-1, keepdim=True), REAL),
    "prod of another dtype": (lambda x: x.prod(1, dtype=torch.float64), [*REAL, torch.bool]),
    "cumprod": (lambda x: x.cumprod(1), [*REAL, torch.bool]),
    "argmax": (lambda x: x.argmax(1), REAL),
    "argmin, kept": (lambda x: x.argmin(1, keepdim=True), REAL),
    "indices of max": (lambda x: x.max(1).indices, [*REAL, torch.bool]),
    "any": (lambda x: x.any(1), [torch.bool, *FLOATS, *INTEGERS[:4]]),
    "all, kept": (lambda x: x.all(1, keepdim=True), [torch.bool, *FLOATS, *INTEGERS[:4]]),
    "any of two": (lambda x: aten.any.dims(x[:, None], [1, 2]), [torch.bool, torch.float32]),
    "any of none": (lambda x: aten.any.dims(x, []), [torch.bool, torch.float32, torch.int64]),
    "sum": (lambda x: x.sum(1), [torch.bool, *INTEGERS]),
    "sum, kept": (lambda x: x.sum(1, keepdim=True), [torch.bool, *INTEGERS]),
    "sum as bytes": (lambda x: x.sum(1, dtype=torch.int8), INTEGERS),
    "sum as floats": (lambda x: x.sum(1, dtype=torch.float32), [torch.bool, *INTEGERS]),
    "mean as floats": (lambda x: x.mean(1, dtype=torch.float32), INTEGERS),
    "cumsum": (lambda x: x.cumsum(1), [torch.bool, *INTEGERS]),
    "sum without -0.0": (lambda x: x.abs().sum(1), FLOATS),
    "mean without -0.0": (lambda x: (x * x).mean(1, keepdim=True), FLOATS),
    "cumsum without -0.0": (lambda x: x.exp().cumsum(-1), FLOATS),
    "wider sum without -0.0": (lambda x: x.exp().sum(1, dtype=torch.float64), FLOATS[1:]),
}


def cases(table):
    return [
        pytest.param(function, dtype, id=f"{name} {dtype}")
        for name, (function, dtypes) in table.items()
        for dtype in dtypes
    ]


@pytest.mark.parametrize(("function", "dtype"), cases(KEEP_SIGNS))
def test_folds_dimensions_of_size_1(trace, function, dtype):
    run = folded(
        trace, FoldReductions, lambda x: function(x.clone()).clone(), special(dtype).view(37, 1)
    )
    assert run.applied == {"fold_reductions": 1}
    assert not REDUCTIONS & set(run.after)


WHOLE = {
    "sum": lambda x: x.long().sum(),
    "sum of no dims": lambda x: x.long().sum(dim=[]),
    "amax of no dims": lambda x: x.amax(()),
    "sum of all": lambda x: aten.sum.dim_IntList(x.long(), None, True),
    "mean": lambda x: x.abs().mean(),
    "mean of no dims": lambda x: aten.mean.dim(x.abs(), []),
    "prod": lambda x: x.prod(),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "any": lambda x: x.any(),
    "all of no dims": lambda x: aten.all.dims(x, None),
    "argmax": lambda x: x.argmax(),
    "argmin, kept": lambda x: aten.argmin.default(x, None, True),
}


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)], ids=str)
@pytest.mark.parametrize("function", WHOLE.values(), ids=WHOLE)
def test_folds_reductions_of_one_number(trace, function, shape):
    for number in (-0.0, 1.5, float("nan")):
        x = torch.full(shape, number)
        if "long" in function.__code__.co_names:
            x = x.nan_to_num()
        run = folded(trace, FoldReductions, lambda x: function(x.clone()).clone(), x)
        assert run.applied == {"fold_reductions": 1}
        assert not REDUCTIONS & set(run.after)


OF_0_DIM = {
    "sum": lambda x: x.long().sum(0),
    "sum, kept": lambda x: x.long().sum(-1, keepdim=True),
    "amax": lambda x: x.amax(-1),
    "max": lambda x: x.max(0).values,
    "indices": lambda x: x.max(0).indices,
    "any": lambda x: x.any(0),
    "cumsum": lambda x: x.abs().cumsum(0),
    "argmax": lambda x: x.argmax(0),
}


@pytest.mark.parametrize("function", OF_0_DIM.values(), ids=OF_0_DIM)
def test_folds_reductions_of_0_dim(trace, function):
    run = folded(trace, FoldReductions, lambda x: function(x.clone()).clone(), torch.tensor(2.0))
    assert run.applied == {"fold_reductions": 1}


def test_both_results_of_max(trace):
    def function(x):
        values, indices = x.sin().max(1)
        return values.cos(), indices + 1

    run = folded(trace, FoldReductions, function, torch.ones(3, 1, 4))
    assert run.applied == {"fold_reductions": 2}
    assert "aten.max.dim" not in run.after


@pytest.mark.parametrize("dynamic", [False, True])
def test_other_sizes_may_be_symbolic(dynamic):
    def function(x, y):
        first = x.amax(1).sin(), x.abs().sum([1, 3], keepdim=True).sin()
        return *first, y.sum([1, 3]), x.max(3).values.cos(), x.any(1).logical_not()

    def inputs():
        return [torch.ones(3, 1, 4, 1), torch.ones(3, 1, 4, 1, dtype=torch.int32)]

    run = run_passes([FoldReductions], capture(function, *inputs(), dynamic=dynamic)[0])
    assert run.applied == {"fold_reductions": 5}
    check_against_eager(function, inputs, alone(FoldReductions), dynamic=dynamic)


REFUSES = {
    "sum": (lambda x: x.sum(1), torch.float32, MINUS_ZERO),
    "mean": (lambda x: x.mean(1), torch.bfloat16, MINUS_ZERO),
    "cumsum": (lambda x: x.cumsum(1), torch.float16, MINUS_ZERO),
    "wider": (lambda x: x.sum(1, dtype=torch.float64), torch.float32, MINUS_ZERO),
    "narrower": (
        lambda x: x.exp().sum(1, dtype=torch.float16),
        torch.float32,
        "the numbers are rounded, and may become -0.0",
    ),
    "complex sum": (lambda x: x.sum(1), torch.complex64, "complex arithmetic may change"),
    "complex prod": (lambda x: x.prod(1), torch.complex64, "complex arithmetic may change"),
    "any of uint8": (lambda x: x.any(1), torch.uint8, "the result is a number, not a boolean"),
    "all of uint8": (lambda x: x.all(1), torch.uint8, "the result is a number, not a boolean"),
    "to integers": (
        lambda x: x.nan_to_num(0, 1, 1).sum(1, dtype=torch.int64),
        torch.float32,
        "the result is of another kind",
    ),
    "to complex": (
        lambda x: x.sum(1, dtype=torch.complex64),
        torch.float32,
        "the result is of another kind",
    ),
    "to booleans": (
        lambda x: x.sum(1, dtype=torch.bool),
        torch.int64,
        "the result is of another kind",
    ),
    "of the input, returned": (
        lambda x: x.amax(1),
        torch.float32,
        "an output would share memory with an input",
    ),
    "kept, of the input, returned": (
        lambda x: x.amax(1, keepdim=True),
        torch.float32,
        "an output would be a tensor object",
    ),
    "strides": (
        lambda x: x.expand(37, 2)[:, :1].amax(1, keepdim=True).sin(),
        torch.float32,
        "stride",
    ),
}


@pytest.mark.parametrize(("function", "dtype", "reason"), REFUSES.values(), ids=REFUSES)
def test_refuses(trace, function, dtype, reason):
    run = folded(trace, FoldReductions, function, special(dtype).view(37, 1))
    assert run.before == run.after
    (given,) = run.refused
    assert given.startswith(reason)


LEAVES_ALONE = {
    "of two": lambda x: x.view(1, 37).amax(1),
    "of all": lambda x: x.long().sum(),
    "of no dims": lambda x: x.amax(()),
    "of one of two": lambda x: x.amax((0, 1)),
    "var": lambda x: x.var(1, correction=0),
    "logsumexp": lambda x: x.logsumexp(1),
    "norm": lambda x: x.norm(dim=1),
    "softmax": lambda x: x.softmax(1),
    "logcumsumexp": lambda x: x.logcumsumexp(1),
}


@pytest.mark.parametrize("function", LEAVES_ALONE.values(), ids=LEAVES_ALONE)
def test_leaves_alone(trace, function):
    run = folded(trace, FoldReductions, function, torch.linspace(-2, 2, 37).view(37, 1))
    assert not run.applied
    assert not run.refused


def test_a_symbolic_size_may_be_1():
    def function(x):
        return x.amax(0)

    run = run_passes([FoldReductions], capture(function, torch.ones(3, 4), dynamic=True)[0])
    assert not run.applied
    check_against_eager(function, lambda: [torch.ones(3, 4)], alone(FoldReductions), dynamic=True)


def test_writes_are_respected(trace):
    def after(x):
        y = x.sin()
        z = y.amax(1)
        y.add_(1)
        return z.cos() + y.view(3)

    def result(x):
        z = x.sin().amax(1)
        z.add_(1)
        return z.cos()

    reasons = {
        after: "a read would move across a write",
        result: "the memory is written to elsewhere in the graph",
    }
    for function, reason in reasons.items():
        run = folded(trace, FoldReductions, function, torch.ones(3, 1))
        assert run.refused == {reason: 1}


def test_empty(trace):
    run = folded(trace, FoldReductions, lambda x: x.amax(1).sin(), torch.ones(0, 1))
    assert run.refused == {"an empty tensor may have other strides than its fake value": 1}


def test_channels_last():
    def function(x):
        return x.sin().amax([2, 3]).cos(), x.sin().amax(1, keepdim=True).cos()

    def inputs():
        return [torch.ones(2, 3, 1, 1).to(memory_format=torch.channels_last)]

    check_against_eager(function, inputs, alone(FoldReductions))
    check_against_eager(function, inputs)


def test_every_dtype_has_a_case():
    seen = {dtype for _, dtypes in KEEP_SIGNS.values() for dtype in dtypes}
    assert seen == set(DTYPES) - {torch.complex64}
