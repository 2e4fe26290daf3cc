import pytest
import torch

from tests.passes.folding import alone, folded, special
from xpu_graph.passes.eliminate_cat import EliminateCat
from xpu_graph.testing import capture, check_against_eager, run_passes

aten = torch.ops.aten
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
GAP = "the pieces do not follow each other"


def matrix(dtype=torch.float32):
    return special(dtype, 24).view(4, 6)


def copied(function):
    """Between two copies: neither an input nor an output."""
    return lambda x: function(x.clone()).clone()


def all_of(functions):
    """One program of several, which is compiled once."""
    chosen = list(functions)
    return lambda *inputs: [function(*inputs) for function in chosen]


def copies(run):
    return {name: n for name, n in run.after.items() if name.split(".")[1] in ("cat", "stack")}


GONE = {
    "slices": lambda x: torch.cat([x[:2], x[2:]]),
    "many slices": lambda x: torch.cat([x[:1], x[1:2], x[2:3], x[3:]]),
    "from the end": lambda x: torch.cat([x[:-3], x[-3:-1], x[-1:]]),
    "beyond the end": lambda x: torch.cat([x[-100:2], x[2:100]]),
    "nothing between": lambda x: torch.cat([x[:2], x[2:2], x[2:]]),
    "columns": lambda x: torch.cat([x[:, :2], x[:, 2:]], -1),
    "split": lambda x: torch.cat(x.split(3)),
    "columns split": lambda x: torch.cat(x.split(4, 1), 1),
    "split by sizes": lambda x: torch.cat(x.split([1, 0, 2, 1]), 0),
    "chunks": lambda x: torch.cat(x.chunk(3, -1), 1),
    "unbind": lambda x: torch.stack(x.unbind()),
    "columns unbound": lambda x: torch.stack(x.unbind(1), -1),
    "rows": lambda x: torch.stack([x[0], x[1], x[2], x[-1]]),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_was_in_one_piece(trace, dtype):
    for function in GONE.values():
        run = folded(trace, EliminateCat, copied(function), matrix(dtype))
        assert run.applied == {"eliminate_cat": 1}
        assert run.after == {"aten.clone.default": 2}


@pytest.mark.parametrize("dynamic", [False, True])
def test_what_was_in_one_piece_as_compiled(dynamic):
    def program(x):
        return [(function(x).neg(), function(x)) for function in GONE.values()]

    check_against_eager(program, lambda: [matrix()], alone(EliminateCat), dynamic=dynamic)


FEWER = {
    "among others": (lambda x: torch.cat([x[1:2], x[2:3], x.neg()]), [2]),
    "two runs": (lambda x: torch.cat([x[1:2], x[2:], x[:2], x[2:3]]), [2]),
    "a run and a piece": (lambda x: torch.cat([x[:1], x[1:2], x[3:]]), [2]),
    "in the middle": (lambda x: torch.cat([x, x[:2], x[2:], x]), [3]),
    "some columns": (lambda x: torch.cat([x[:, 1:2], x[:, 2:4], x[:, 4:5]], 1), [1]),
    "part of a split": (lambda x: torch.cat([*x.split(1)[1:3], x.neg()]), [2]),
    "promoted": (lambda x: torch.cat([x[:1], x[1:], x.double()]), [2]),
}


@pytest.mark.parametrize(("function", "parts"), FEWER.values(), ids=FEWER)
def test_fewer_parts(trace, function, parts):
    run = folded(trace, EliminateCat, function, matrix())
    cats = run.unit.gm.graph.find_nodes(op="call_function", target=aten.cat.default)
    assert [len(cat.args[0]) for cat in cats] == parts
    assert run.applied == {"eliminate_cat": 1}


@pytest.mark.parametrize("dynamic", [False, True])
def test_fewer_parts_as_compiled(dynamic):
    program = all_of([function for function, _ in FEWER.values()])
    check_against_eager(program, lambda: [matrix()], alone(EliminateCat), dynamic=dynamic)


ONE_COPY = {
    "an output": lambda x: torch.cat([x[:2], x[2:]]),
    "columns": lambda x: torch.cat([x[:, :2], x[:, 2:4]], 1).neg(),
    "rows": lambda x: torch.stack([x[1], x[2]]),
    "columns become rows": lambda x: torch.stack(x.unbind(1)),
    "rows become columns": lambda x: torch.stack([x[1], x[2]], 1),
    "to the middle": lambda x: torch.stack(x.view(2, 3, 4).unbind(2), 1),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_copy(trace, dtype):
    for function in ONE_COPY.values():
        if dtype == torch.bool and "neg" in str(function.__code__.co_names):
            continue
        run = folded(trace, EliminateCat, function, matrix(dtype))
        assert run.applied == {"eliminate_cat": 1}
        left = {"aten.cat.default", "aten.clone.default"} & set(run.after)
        assert [run.after[name] for name in left] == [1]
        assert "aten.stack.default" not in run.after


@pytest.mark.parametrize("dynamic", [False, True])
def test_one_copy_as_compiled(dynamic):
    program = all_of(ONE_COPY.values())
    check_against_eager(program, lambda: [matrix()], alone(EliminateCat), dynamic=dynamic)


VIEWS = {
    "columns": lambda x: torch.cat([x[:, :2], x[:, 2:4]], 1).sum(0),
    "columns become rows": lambda x: torch.stack(x.unbind(1)).sum(0),
    "rows become columns": lambda x: torch.stack([x[1], x[2]], 1).sum(),
    "to the middle": lambda x: torch.stack(x.view(2, 3, 4).unbind(2), 1).sum(),
}


@pytest.mark.parametrize("function", VIEWS.values(), ids=VIEWS)
def test_a_view_at_level2(trace, function):
    run = folded(trace, EliminateCat, function, matrix(torch.int64), opt_level="level2")
    assert run.applied == {"eliminate_cat": 1}
    assert not copies(run)
    assert "aten.clone.default" not in run.after


def test_channels_last(trace):
    x = torch.randn(2, 6, 4, 4).to(memory_format=torch.channels_last)
    for function in (
        lambda x: torch.cat([x[:, :2], x[:, 2:]], 1),
        lambda x: torch.cat([x[:, 1:2], x[:, 2:4]], 1),
        lambda x: torch.cat(x.split(2, 2), 2).sin(),
    ):
        run = folded(trace, EliminateCat, function, x)
        assert run.applied == {"eliminate_cat": 1}


LEFT = {
    "missing": (lambda x: torch.cat([x[:1], x[2:]]), GAP),
    "repeated": (lambda x: torch.cat([x[:2], x[:2], x.neg()]), GAP),
    "another order": (lambda x: torch.cat([x[2:], x[:2]]), GAP),
    "a missing piece": (lambda x: torch.cat([(p := x.split(1))[0], p[2]]), GAP),
    "rows in another order": (lambda x: torch.stack([x[1], x[0]]), GAP),
    "every other row": (lambda x: torch.stack([x[0], x[2]]), GAP),
    "rows and not": (lambda x: torch.stack([x[0], x[1:2][0]]), None),
    "rows and columns": (
        lambda x: torch.stack([(y := x.view(24)[:16].view(4, 4))[0], y[:, 1]]),
        None,
    ),
    "another tensor": (lambda x: torch.cat([x[:2], x.neg()[2:]]), None),
    "along another dimension": (lambda x: torch.cat([x[:2], x[2:]], 1), None),
    "steps": (lambda x: torch.cat([x[:2:2], x[2::2]]), None),
    "all of several": (lambda x: torch.cat([x, x[:2], x.neg()[2:]]), None),
}


@pytest.mark.parametrize(("function", "reason"), LEFT.values(), ids=LEFT)
def test_refuses(trace, function, reason):
    run = folded(trace, EliminateCat, function, matrix())
    assert not run.applied
    assert list(run.refused) == ([] if reason is None else [reason])


def test_refuses_as_compiled():
    program = all_of([function for function, _ in LEFT.values()])
    check_against_eager(program, lambda: [matrix()], alone(EliminateCat))


def test_what_is_written_to_stays_a_copy(trace):
    def function(x):
        y, z = torch.cat([x[:2], x[2:]]), torch.stack([x[0], x[1]])
        x.add_(1)
        return y, z

    run = folded(trace, EliminateCat, function, matrix())
    assert not run.applied
    assert run.refused["a read would move across a write"] > 0
    assert run.refused["an output would be a tensor object that lives on outside"] == 1


SLICED = {
    "drops the last": lambda x, y: torch.cat([x, y, x])[:6],
    "drops part of the last": lambda x, y: torch.cat([x, y])[:7],
    "drops the first": lambda x, y: torch.cat([x, y, x])[4:],
    "drops both": lambda x, y: torch.cat([x, y, x])[2:9],
    "columns": lambda x, y: torch.cat([x, y, x], 1)[:, 2:9],
    "over an empty part": lambda x, y: torch.cat([x[:0], x, y[:0], y, x])[3:6],
}


@pytest.mark.parametrize("function", SLICED.values(), ids=SLICED)
def test_only_what_is_read_is_put_together(trace, function):
    x = matrix(torch.int64)

    def program(x, y):
        return function(x, y).sum()

    run = folded(trace, EliminateCat, program, x, x * 2, opt_level="level2")
    assert run.applied["eliminate_cat"] >= 1
    cats = run.unit.gm.graph.find_nodes(op="call_function", target=aten.cat.default)
    assert [cat.meta["val"].shape for cat in cats] == [function(x, x).shape]


@pytest.mark.parametrize("dynamic", [False, True])
def test_only_what_is_read_is_put_together_as_compiled(dynamic):
    def program(x, y):
        return [function(x, y).sum() for function in SLICED.values()]

    x = matrix(torch.int64)
    check_against_eager(program, lambda: [x.clone(), x * 2], alone(EliminateCat), dynamic=dynamic)


def test_at_level1_only_what_is_laid_out_alike(trace):
    x = matrix()
    run = folded(trace, EliminateCat, lambda x: torch.cat([x, x])[:7].neg(), x)
    assert run.applied == {"eliminate_cat": 1}
    run = folded(trace, EliminateCat, lambda x: torch.cat([x, x])[1:].neg(), x)
    assert run.refused == {"the storage offset would change": 1}
    run = folded(trace, EliminateCat, lambda x: torch.cat([x, x], 1)[:, :7].neg(), x)
    assert run.refused == {"stride (12, 1) would become (7, 1)": 1}


LEFT_SLICED = {
    "read elsewhere": lambda x: (z := torch.cat([x, x]))[:7].neg() + z[1:].neg(),
    "all of it": lambda x: torch.cat([x, x])[:8].neg(),
    "within a part": lambda x: torch.cat([x, x])[5:7].neg(),
    "with gaps": lambda x: torch.cat([x, x])[:7:2].neg(),
    "another dimension": lambda x: torch.cat([x, x])[:, :3].neg(),
    "nothing": lambda x: torch.cat([x, x])[4:4].neg(),
}


@pytest.mark.parametrize("function", LEFT_SLICED.values(), ids=LEFT_SLICED)
def test_leaves_slices_alone(trace, function):
    run = folded(trace, EliminateCat, function, matrix(), opt_level="level2")
    assert not run.applied
    assert not run.refused


def test_an_output_keeps_its_memory(trace):
    run = folded(trace, EliminateCat, lambda x: torch.cat([x, x])[:7], matrix())
    assert run.refused == {"an output's memory would have another size": 1}


def test_promotion_by_a_part_that_is_not_read(trace):
    run = folded(trace, EliminateCat, lambda x: torch.cat([x, x, x.double()])[:7].neg(), matrix())
    assert run.refused == {"dtype torch.float64 would become torch.float32": 1}


SYMBOLIC = {
    "halves": lambda x: torch.cat([x[: x.shape[0] // 2], x[x.shape[0] // 2 :]]),
    "chunks": lambda x: torch.cat(x.chunk(2)),
    "split": lambda x: torch.cat(x.split(4)),
    "sizes": lambda x: torch.cat(x.split([n := x.shape[0] // 2, x.shape[0] - n])),
    "numbers": lambda x: torch.cat([x[:1], x[1:3], x[3:]]),
    "the size itself": lambda x: torch.cat([x[:1], x[1 : x.shape[0]]]),
}


@pytest.mark.parametrize("function", SYMBOLIC.values(), ids=SYMBOLIC)
def test_symbolic_sizes(function):
    def inputs():
        return [torch.arange(42.0).view(7, 6)]

    def program(x):
        return function(x).neg()

    run = run_passes([EliminateCat], capture(program, *inputs(), dynamic=True)[0])
    assert run.after == {"aten.neg.default": 1} | {
        name: n for name, n in run.after.items() if not name.startswith("aten.")
    }
    check_against_eager(program, inputs, alone(EliminateCat), dynamic=True)


def test_symbolic_pieces_that_are_not_all():
    def function(x):
        n = x.shape[0] // 3
        return torch.cat([x[:n], x[n : 2 * n]]).neg(), torch.cat(x.split([n, n, n])[:2]).neg()

    def inputs():
        return [torch.arange(36.0).view(6, 6)]

    unit = capture(function, *inputs(), dynamic=True)[0]
    run = run_passes([EliminateCat], unit)
    assert run.after["aten.cat.default"] >= 1
    check_against_eager(function, inputs, alone(EliminateCat), dynamic=True)


def test_ranges_that_may_run_backwards_are_not_joined():
    """``x[:a]`` and ``x[b:]`` after ``x[a:b]`` are all of x only where a is at most b."""

    def function(x, y, z):
        a, b = y.shape[0], z.shape[0]
        return torch.cat([x[:a], x[a:b], x[b:]]).neg()

    def inputs():
        return [torch.arange(14.0).view(7, 2), torch.ones(5), torch.ones(2)]

    check_against_eager(function, inputs, alone(EliminateCat), dynamic=True)
