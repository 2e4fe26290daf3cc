import pytest
import torch

from tests.passes.folding import alone, folded, special
from xpu_graph.passes import fold_scatters
from xpu_graph.passes.fold_scatters import FoldScatters
from xpu_graph.testing import capture, check_against_eager, run_passes

aten = torch.ops.aten
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
slice_scatter, select_scatter = torch.slice_scatter, torch.select_scatter


def matrix(dtype=torch.float32):
    return special(dtype, 24).view(4, 6)


def copied(function):
    """Between copies: neither an input nor an output."""
    return lambda x, y: function(x.clone(), y.clone()).clone()


def all_of(functions):
    """One program of several, which is compiled once."""
    chosen = list(functions)
    return lambda *inputs: [function(*inputs) for function in chosen]


def scatters(run):
    return sum(times for name, times in run.after.items() if "scatter" in name)


GONE = {
    "over everything": lambda x, y: slice_scatter(x, y, 0, 0, 4),
    "without bounds": lambda x, y: slice_scatter(x, y, 1),
    "beyond the bounds": lambda x, y: slice_scatter(x, y, -1, -100, 100),
    "the only row": lambda x, y: select_scatter(x[:1].clone(), y[0], 0, 0),
    "the only column": lambda x, y: select_scatter(x[:, :1].clone(), y[:, 0].clone(), 1, -1),
    "its own slice": lambda x, y: slice_scatter(x, x[1:3], 0, 1, 3),
    "its own slice, named otherwise": lambda x, y: slice_scatter(x, x[-3:-1], 0, 1, 3),
    "its own columns": lambda x, y: slice_scatter(x, x[:, ::2], 1, 0, 6, 2),
    "its own row": lambda x, y: select_scatter(x, x[1], 0, -3),
    "its own piece": lambda x, y: slice_scatter(x, x.split(2)[1], 0, 2),
    "its own unbound row": lambda x, y: select_scatter(x, x.unbind(1)[2], 1, 2),
    "an empty slice of its own": lambda x, y: slice_scatter(x, x[2:2], 0, 2, 2),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_spared(trace, dtype):
    for function in GONE.values():
        run = folded(trace, FoldScatters, copied(function), matrix(dtype), matrix(dtype).flip(0))
        assert run.applied == {"fold_scatters": 1}
        assert not scatters(run)


@pytest.mark.parametrize("dynamic", [False, True])
def test_spared_as_compiled(dynamic):
    def program(x, y):
        return [(function(x, y).neg(), function(x, y)) for function in GONE.values()]

    check_against_eager(
        program, lambda: [matrix(), matrix().flip(0)], alone(FoldScatters), dynamic=dynamic
    )


OVERWRITTEN = {
    "the same range": lambda x, y: slice_scatter(
        slice_scatter(x, y[:2], 0, 1, 3), y[2:], 0, -3, -1
    ),
    "a larger range": lambda x, y: slice_scatter(slice_scatter(x, y[:2], 0, 1, 3), y[1:], 0, 1),
    "gaps in it": lambda x, y: slice_scatter(slice_scatter(x, y[:2], 0, 0, 4, 2), y[1:], 0, 0, 3),
    "the same gaps": lambda x, y: slice_scatter(
        slice_scatter(x, y[:2], 0, 0, 4, 2), y[2:], 0, 0, 4, 2
    ),
    "the same row": lambda x, y: select_scatter(select_scatter(x, y[0], 0, 1), y[1], 0, -3),
    "a row": lambda x, y: slice_scatter(select_scatter(x, y[0], 0, 1), y[1:], 0, 1),
    "by a row": lambda x, y: select_scatter(slice_scatter(x, y[:1], 0, 1, 2), y[1], 0, 1),
    "three": lambda x, y: slice_scatter(
        select_scatter(slice_scatter(x, y[:1], 0, 1, 2), y[1], 0, 2), y[1:], 0, 1
    ),
    "columns": lambda x, y: slice_scatter(slice_scatter(x, y[:, :2], 1, 1, 3), y[:, 2:], 1, 0, 4),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_overwritten(trace, dtype):
    for function in OVERWRITTEN.values():
        run = folded(trace, FoldScatters, function, matrix(dtype), matrix(dtype).flip(0))
        assert run.applied == {"fold_scatters": 1}
        assert scatters(run) == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_overwritten_as_compiled(dynamic):
    check_against_eager(
        all_of(OVERWRITTEN.values()),
        lambda: [matrix(), matrix().flip(0)],
        alone(FoldScatters),
        dynamic=dynamic,
    )


def test_a_result_of_its_own_is_one_copy(trace):
    run = folded(trace, FoldScatters, slice_scatter, matrix(), matrix())
    assert run.after == {"aten.clone.default": 1}
    run = folded(
        trace,
        FoldScatters,
        lambda x, y: select_scatter(x, y[:, 0], 1, 0),
        matrix()[:, :1].clone(),
        matrix(),
    )
    assert not scatters(run)
    assert run.after["aten.clone.default"] == 1


LEFT = {
    "another dtype": (
        lambda x, y: slice_scatter(x, y.double()).neg(),
        "what is written has another dtype",
    ),
    "strides": (lambda x, y: slice_scatter(x.t(), y.view(6, 4)).neg(), "stride"),
    "overlap in part": (
        lambda x, y: slice_scatter(slice_scatter(x, y[:2], 0, 1, 3), y[2:], 0, 2),
        None,
    ),
    "larger before": (
        lambda x, y: slice_scatter(slice_scatter(x, y[:3], 0, 0, 3), y[2:], 0, 0, 2),
        None,
    ),
    "gaps over it": (
        lambda x, y: slice_scatter(slice_scatter(x, y[:2], 0, 1, 3), y[2:], 0, 0, 4, 2),
        None,
    ),
    "along another dimension": (
        lambda x, y: slice_scatter(slice_scatter(x, y[:, :2], 1, 0, 2), y[:2], 0, 0, 2),
        None,
    ),
    "another place": (lambda x, y: slice_scatter(x, x[:2], 0, 1, 3), None),
    "another tensor": (lambda x, y: slice_scatter(x, y[1:3], 0, 1, 3), None),
    "another row": (lambda x, y: select_scatter(x, x[1], 0, 2), None),
    "the result is returned": (
        lambda x, y: slice_scatter(x, x[1:3], 0, 1, 3),
        "an output would be a tensor object that lives on outside",
    ),
    "nothing": (
        lambda x, y: slice_scatter(x[:0], y[:0]).neg(),
        "an empty tensor may have other strides than its fake value",
    ),
}


@pytest.mark.parametrize(("function", "reason"), LEFT.values(), ids=LEFT)
def test_refuses(trace, function, reason):
    run = folded(trace, FoldScatters, function, matrix(), matrix().flip(0))
    assert not run.applied
    if reason is None:
        assert not run.refused
    else:
        assert any(reason in given for given in run.refused)


def test_refuses_as_compiled():
    program = all_of([function for function, _ in LEFT.values()])
    check_against_eager(program, lambda: [matrix(), matrix().flip(0)], alone(FoldScatters))


def test_strides_may_differ_at_level2(trace):
    x = matrix(torch.int64)

    def function(x, y):
        return slice_scatter(x.t(), y.view(6, 4)).sum(0)

    run = folded(trace, FoldScatters, function, x, x * 2, opt_level="level2")
    assert run.applied == {"fold_scatters": 1}


def test_what_is_written_to_later_stays_apart(trace):
    def function(x, y):
        z, same = slice_scatter(x, y), slice_scatter(x, x[:2], 0, 0, 2)
        y.add_(1)
        x.add_(1)
        return z * y + same

    run = folded(trace, FoldScatters, function, matrix(torch.int64), matrix(torch.int64))
    assert run.refused["the memory is written to elsewhere in the graph"] == 2
    assert run.refused["a read would move across a write"] > 0
    assert run.after["aten.slice_scatter.default"] == 2


def test_symbolic_sizes():
    def function(x, y):
        n = x.shape[0] // 2
        over = slice_scatter(slice_scatter(x, y, 0, n), y * 2, 0, n, x.shape[0])
        return (
            slice_scatter(x, x.cos(), 0, 0, x.shape[0]).sum(),
            slice_scatter(x, x[n:], 0, n).sum(),
            select_scatter(x, x[-1], 0, -1).sum(),
            over,
        )

    def inputs():
        return [torch.arange(42.0).view(7, 6), torch.ones(4, 6)]

    run = run_passes([FoldScatters], capture(function, *inputs(), dynamic=True)[0])
    assert run.applied == {"fold_scatters": 4}
    assert scatters(run) == 1
    check_against_eager(function, inputs, alone(FoldScatters), dynamic=True)


def test_writes_into_a_tensor_with_gaps_keep_them(trace):
    """A scatter keeps the strides of what it writes into, and an offset, too."""
    x = torch.arange(48).view(6, 8)[1:5, 1:7]
    for function in (
        lambda x: slice_scatter(slice_scatter(x, x[:2] * 2, 0, 1, 3), x[2:] * 3, 0, 1, 3),
        lambda x: slice_scatter(x, x[1:3], 0, 1, 3),
        lambda x: slice_scatter(x, x * 2).neg(),
    ):
        folded(trace, FoldScatters, function, x)
        check_against_eager(
            function,
            lambda: [torch.arange(48).view(6, 8)[1:5, 1:7]],
            alone(FoldScatters),
        )


def test_long_chains_cost_a_bounded_look(trace, monkeypatch):
    looks = []
    real = fold_scatters._covers
    monkeypatch.setattr(fold_scatters, "_covers", lambda *a: looks.append(1) or real(*a))

    def function(x):
        z = x
        for row in range(1, 20):
            z = select_scatter(z, x[0], 0, row)
        return slice_scatter(z, x * 2)[:1].neg()

    run = folded(trace, FoldScatters, function, torch.arange(40).view(20, 2))
    assert run.applied == {"fold_scatters": 1}
    assert len(looks) <= 20 * fold_scatters.MAX_LINKS


def test_what_is_written_to_in_between_is_not_overwritten(trace):
    def function(x, y):
        z = slice_scatter(x, y, 0, 0, 2)
        z.neg_()
        return slice_scatter(z, y, 0, 0, 2)

    x, y = matrix(torch.int64), matrix(torch.int64)[:2]
    unit = trace(function, x, y)
    assert not run_passes([FoldScatters], unit).applied
    assert torch.equal(unit.gm(x, y), function(x, y))
