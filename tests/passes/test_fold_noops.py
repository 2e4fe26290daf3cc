import pytest
import torch
from torch.nn import functional as F

from tests.passes.folding import DTYPES, FLOATS, INF, INTEGERS, alone, folded, special
from xpu_graph.passes.fold_noops import FoldNoops
from xpu_graph.testing import capture, check_against_eager, run_passes

aten, prims = torch.ops.aten, torch.ops.prims
REAL = [*FLOATS, *INTEGERS]


def limits(x):
    return torch.iinfo(x.dtype)


FOLDS = {
    "repeat": (lambda x: x.repeat(1, 1), DTYPES),
    "tile": (lambda x: x.tile(1), DTYPES),
    "expand_copy": (lambda x: aten.expand_copy(x, [-1, 1]), DTYPES),
    "view_copy": (lambda x: aten.view_copy(x, [37, -1]), DTYPES),
    "slice_copy": (lambda x: aten.slice_copy(x, 0, 0, 99), DTYPES),
    "squeeze_copy": (lambda x: aten.squeeze_copy(x, 0), DTYPES),
    "alias_copy": (aten.alias_copy, DTYPES),
    "detach_copy": (aten.detach_copy, DTYPES),
    "narrow_copy": (lambda x: aten.narrow_copy(x, 0, 0, 37), DTYPES),
    "pad": (lambda x: F.pad(x, (0, 0, 0, 0)), DTYPES),
    "pad nothing": (lambda x: aten.constant_pad_nd(x, []), DTYPES),
    "reflection_pad": (lambda x: aten.reflection_pad1d(x, [0, 0]), FLOATS),
    "replication_pad": (lambda x: aten.replication_pad1d(x, [0, 0]), FLOATS),
    "roll": (lambda x: x.roll(0, 0), DTYPES),
    "roll around": (lambda x: x.roll((74, 5), (0, 1)), DTYPES),
    "roll all by nothing": (lambda x: x.roll(0), DTYPES),
    "flip": (lambda x: x.flip(1), DTYPES),
    "flip nothing": (lambda x: x.flip([]), DTYPES),
    "rot90": (lambda x: aten.rot90(x, 4), DTYPES),
    "pixel_shuffle": (lambda x: F.pixel_shuffle(x[None, :, :, None], 1), REAL),
    "index_select": (lambda x: x.index_select(0, torch.arange(37)), DTYPES),
    "index": (lambda x: x[torch.arange(0, 37)], DTYPES),
    "index, second": (lambda x: x[:, torch.arange(1)], DTYPES),
    "index by int32": (lambda x: x[torch.arange(0, 37, 1, dtype=torch.int32)], DTYPES),
    "index by iota": (lambda x: aten.index.Tensor(x, [iota(37)]), DTYPES),
    "embedding": (lambda x: F.embedding(torch.arange(37), x), FLOATS),
    "clamp": (lambda x: x.clamp(-INF, INF), FLOATS),
    "clamp, one side": (lambda x: x.clamp(max=INF), FLOATS),
    "clamp by tensors": (lambda x: x.clamp(full(x, -INF), full(x, INF)), FLOATS),
    "clamp of integers": (lambda x: x.clamp(limits(x).min, limits(x).max), INTEGERS),
    "clamp_min": (lambda x: x.clamp_min(-INF), FLOATS),
    "clamp_min of integers": (lambda x: x.clamp_min(limits(x).min), INTEGERS),
    "clamp_max": (lambda x: aten.clamp_max.Tensor(x, full(x, INF)), FLOATS),
    "maximum": (lambda x: torch.maximum(x, full(x, -INF)), FLOATS),
    "minimum": (lambda x: torch.minimum(full(x, INF), x), FLOATS),
    "maximum of integers": (lambda x: torch.maximum(x, full(x, limits(x).min)), INTEGERS),
    "round": (lambda x: x.round(), INTEGERS),
    "floor": (lambda x: x.floor(), INTEGERS),
    "ceil": (lambda x: x.ceil(), INTEGERS),
    "trunc": (lambda x: x.trunc(), INTEGERS),
    "nan_to_num": (lambda x: x.nan_to_num(), [*INTEGERS, torch.bool]),
    "copy": (lambda x: aten.copy(torch.zeros(37, 1, dtype=x.dtype), x), DTYPES),
}


def full(x, number):
    return torch.full((37, 1), number, dtype=x.dtype)


def iota(length):
    return prims.iota.default(
        length, start=0, step=1, dtype=torch.int64, device="cpu", requires_grad=False
    )


@pytest.mark.parametrize("name", FOLDS)
def test_folds(trace, name):
    function, dtypes = FOLDS[name]
    for dtype in dtypes:
        run = folded(
            trace,
            FoldNoops,
            lambda x: function(x.clone()).clone(),
            special(dtype).view(37, 1),
        )
        assert run.applied == {"fold_noops": 1}
        assert run.before.total() > run.after.total()


def test_folds_complex_forms(trace):
    def function(x, z):
        back = torch.view_as_real(torch.view_as_complex(x.clone())).sin()
        return back, torch.view_as_complex(torch.view_as_real(z.clone())).sin()

    run = folded(trace, FoldNoops, function, torch.ones(3, 2), special(torch.complex64))
    assert run.applied == {"fold_noops": 2}


def test_constants_are_not_copied():
    def function(x):
        return x + torch.tensor([1.0, 2.0])

    run = run_passes([FoldNoops], capture(function, torch.ones(2))[0])
    assert run.after == {"aten.add.Tensor": 1}
    check_against_eager(function, lambda: [torch.ones(2)], alone(FoldNoops))
    run = run_passes([FoldNoops], capture(lambda x: torch.tensor([1.0]), torch.ones(2))[0])
    assert run.refused == {"an output would be a tensor object that lives on outside": 1}


@pytest.mark.parametrize("dynamic", [False, True])
def test_symbolic_sizes(dynamic):
    def function(x, y):
        rolled = x.roll((0, 4), (0, 1)).sin(), x.clamp(-INF, INF).sin(), x.repeat(1, 1).sin()
        return *rolled, F.pad(x, (0, 0)).sin(), y.round() + 1, x[:, torch.arange(1)].sin()

    def inputs():
        return [torch.ones(5, 1), torch.ones(3, dtype=torch.int32)]

    run = run_passes([FoldNoops], capture(function, *inputs(), dynamic=dynamic)[0])
    assert run.applied == {"fold_noops": 6}
    check_against_eager(function, inputs, alone(FoldNoops), dynamic=dynamic)


def test_an_index_up_to_a_symbolic_size_is_not_known():
    def function(x):
        return x[torch.arange(x.shape[0])].sin(), x[torch.arange(3)]

    assert not run_passes([FoldNoops], capture(function, torch.ones(5), dynamic=True)[0]).applied
    check_against_eager(function, lambda: [torch.ones(5)], alone(FoldNoops), dynamic=True)


REFUSES = {
    "the input is returned": (lambda x: x.repeat(1), "an output would be a tensor object"),
    "a view of it is returned": (
        lambda x: x.roll(0).view(1, 37),
        "an output would share memory with an input",
    ),
    "strides": (lambda x: x[::2].repeat(1).sin(), "stride"),
    "dtype": (lambda x: aten.copy(torch.zeros(37), x.double()).sin(), "dtype"),
    "promotion": (
        lambda x: torch.maximum(x, torch.full((37,), -INF, dtype=torch.float64)).sin(),
        "dtype",
    ),
}


@pytest.mark.parametrize(("function", "reason"), REFUSES.values(), ids=REFUSES)
def test_refuses(trace, function, reason):
    run = folded(trace, FoldNoops, function, special(torch.float32))
    assert not run.applied
    (given,) = run.refused
    assert given.startswith(reason)


LEAVES_ALONE = {
    "repeat": lambda x: x.repeat(2),
    "repeat with another rank": lambda x: x.repeat(1, 1),
    "pad": lambda x: F.pad(x, (1, -1)),
    "roll": lambda x: x.roll(1),
    "roll by the size along all": lambda x: x.view(1, 37).roll((1, 36), (1, 1)),
    "flip": lambda x: x.flip(0),
    "index": lambda x: x[torch.arange(36)],
    "index backwards": lambda x: x[torch.arange(36, -1, -1)],
    "index twice": lambda x: x[None].expand(37, 37)[torch.arange(37), torch.arange(37)],
    "index by another tensor": lambda x: x[(x > 0).long()],
    "index by floats": lambda x: x[torch.arange(37.0).long()],
    "select some": lambda x: x.index_select(0, torch.arange(3)),
    "clamp": lambda x: x.clamp(-1, INF),
    "clamp the wrong way": lambda x: x.clamp(max=-INF),
    "clamp to the finite": lambda x: x.clamp(torch.finfo(x.dtype).min, INF),
    "clamp by NaN": lambda x: x.clamp(min=float("nan")),
    "maximum": lambda x: torch.maximum(x, torch.full((37,), INF)),
    "a bound that wraps": lambda x: torch.maximum(x.bool().to(torch.int8), torch.full((), -300)),
    "a bound of booleans": lambda x: torch.maximum(x > 0, torch.full((), False)),
    "round": lambda x: x.round(),
    "nan_to_num": lambda x: x.nan_to_num(),
    "as complex": lambda x: torch.view_as_real(x.to(torch.complex64)),
    "copy that broadcasts": lambda x: aten.copy(torch.zeros(2, 37), x),
}


@pytest.mark.parametrize("function", LEAVES_ALONE.values(), ids=LEAVES_ALONE)
def test_leaves_alone(trace, function):
    run = folded(trace, FoldNoops, function, special(torch.float32))
    assert not run.applied
    assert not run.refused


def test_complex_conjugates_stay(trace):
    run = folded(trace, FoldNoops, lambda z: z.conj_physical(), special(torch.complex64))
    assert not run.applied


def test_dropout_draws():
    """Where it is on, even with p=0; where it is off, it is not in the graph."""

    def function(x):
        return F.dropout(x, 0.0, True) + 1

    unit = capture(function, torch.ones(3))[0]
    assert not run_passes([FoldNoops], unit).applied
    check_against_eager(lambda x: (function(x), torch.rand(2)), lambda: [torch.ones(3)])
    unit = capture(lambda x: F.dropout(x, 0.5, False) + 1, torch.ones(3))[0]
    assert "aten.native_dropout.default" not in run_passes([FoldNoops], unit).before


def test_writes_are_respected(trace):
    def source(x):
        y = x.repeat(1)
        x.add_(1)
        return y.sin() + x

    def result(x):
        y = x.roll(0)
        y.add_(1)
        return y.sin() + x

    for function in (source, result):
        run = folded(trace, FoldNoops, function, torch.ones(3))
        assert run.refused == {"the memory is written to elsewhere in the graph": 1}

    def index(x):
        order = torch.arange(3)
        order.mul_(0)
        return x[order].sin()

    def between(x):
        z = torch.view_as_complex(x)
        z.add_(1)
        return torch.view_as_real(z).sin()

    assert not folded(trace, FoldNoops, index, torch.arange(3.0)).applied
    assert not folded(trace, FoldNoops, between, torch.ones(3, 2)).applied


def test_empty_and_0_dim(trace):
    def function(x, y):
        return x.repeat(()).sin(), x.flip([]).sin(), y.repeat(1).sin(), x.clamp(max=INF).sin()

    run = folded(trace, FoldNoops, function, torch.tensor(-0.0), torch.ones(0))
    assert run.applied == {"fold_noops": 3}
    assert run.refused == {"an empty tensor may have other strides than its fake value": 1}
