import pytest
import torch

from tests.passes.folding import alone, folded, special
from xpu_graph.passes.fold_split import FoldSplit
from xpu_graph.testing import capture, check_against_eager, run_passes

aten = torch.ops.aten
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
SPLITS = {"aten.split.Tensor", "aten.split_with_sizes.default", "aten.unbind.int"}


def matrix(dtype=torch.float32):
    return special(dtype, 24).view(4, 6)


def copied(function):
    """Between copies: neither an input nor an output."""
    return lambda x, y: function(x.clone(), y.clone()).clone()


@pytest.fixture
def tidy(trace):
    """Trace a function; pieces that nobody reads are gone, as in graphs of AOTAutograd's."""

    def tidy(function, *inputs):
        unit = trace(function, *inputs)
        unit.gm.graph.eliminate_dead_code()
        return unit

    return tidy


def splits(run):
    return sorted(SPLITS & set(run.after))


FOLDS = {
    "one piece": (lambda x, y: x.split(6, 1)[0], None),
    "one piece by sizes": (lambda x, y: x.split([4])[0], None),
    "one piece of a size beyond": (lambda x, y: x.split(100)[0], None),
    "one chunk": (lambda x, y: x.chunk(1, -1)[0], None),
    "one piece and nothing": (lambda x, y: x.split([0, 4])[1], None),
    "one of several": (lambda x, y: x.split(2)[1], [0, 2, 4]),
    "the rest": (lambda x, y: x.split(4, -1)[1], [1, 4, 6]),
    "one of several by sizes": (lambda x, y: x.split([1, 2, 3], 1)[1], [1, 1, 3]),
    "one of several chunks": (lambda x, y: x.chunk(4, 1)[2], [1, 4, 6]),
    "one of all": (lambda x, y: x.unbind(-1)[2], [1, 2]),
    "an empty one": (lambda x, y: x.split([2, 0, 2])[1], [0, 2, 2]),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reads_a_slice_or_the_whole(tidy, dtype):
    for function, expected in FOLDS.values():
        run = folded(tidy, FoldSplit, copied(function), matrix(dtype), matrix(dtype))
        assert run.applied == {"fold_split": 1}
        assert not splits(run)
        views = [
            n for n in run.unit.gm.graph.nodes if n.target in (aten.slice.Tensor, aten.select.int)
        ]
        assert [list(n.args[1:]) for n in views] == ([] if expected is None else [expected])


@pytest.mark.parametrize("dynamic", [False, True])
def test_reads_a_slice_or_the_whole_as_compiled(dynamic):
    def program(x, y):
        return [(function(x, y), function(x, y).neg()) for function, _ in FOLDS.values()]

    check_against_eager(program, lambda: [matrix(), matrix()], alone(FoldSplit), dynamic=dynamic)


PARTS = {
    "of a cat": lambda x, y: torch.cat([x, y]).split(4),
    "of a cat by sizes": lambda x, y: torch.cat([x, y]).split([3, 1, 4]),
    "chunks of a cat": lambda x, y: torch.cat([x, y, x]).chunk(3),
    "of a stack": lambda x, y: torch.stack([x, y]).unbind(),
    "of a stack at the end": lambda x, y: torch.stack([x, y], -1).unbind(2),
    "of a cat, all": lambda x, y: torch.cat([x[:1], y[:1]]).unbind(0),
    "along the last": lambda x, y: torch.cat([x, y], -1).split(6, 1),
    "of a scatter": lambda x, y: torch.slice_scatter(x, y[:2], 0, 2, 4).split(2),
    "of scatters": lambda x, y: torch.select_scatter(x, y[0], 0, 1).unbind(),
}


@pytest.mark.parametrize("function", PARTS.values(), ids=PARTS)
def test_reads_the_parts(tidy, function):
    def program(x, y):
        return tuple(piece.sum() for piece in function(x, y))

    x = matrix(torch.int64)
    run = folded(tidy, FoldSplit, program, x, x.flip(0), opt_level="level2")
    assert run.applied["fold_split"] == len(function(x, x))
    assert not splits(run)


@pytest.mark.parametrize("dynamic", [False, True])
def test_reads_the_parts_as_compiled(dynamic):
    def program(x, y):
        return [piece.sum() for function in PARTS.values() for piece in function(x, y)]

    x = matrix(torch.int64)
    check_against_eager(program, lambda: [x.clone(), x.flip(0)], alone(FoldSplit), dynamic=dynamic)


def test_at_level1_only_what_is_laid_out_alike(tidy):
    def program(x, y):
        first, second = torch.cat([x, y]).split(4)
        left, right = torch.cat([x, y], 1).split(6, 1)
        return first.neg(), second.neg(), left.neg(), right.neg()

    run = folded(tidy, FoldSplit, program, matrix(), matrix())
    assert run.applied == {"fold_split": 2}
    assert run.after["aten.slice.Tensor"] == 1  # the second is then the only piece that is read
    assert run.refused["the storage offset would change"] == 1
    assert run.refused["stride (12, 1) would become (6, 1)"] == 2


REFUSES = {
    "an input": (
        lambda x, y: x.split(4)[0],
        "an output would be a tensor object that lives on outside",
    ),
    "the whole beside it": (
        lambda x, y: (z := x.neg(), z.split(4)[0]),
        "two outputs would be one tensor object",
    ),
    "a returned part": (
        lambda x, y: [torch.cat([x, y]).split(4)[0], x.split(2)],
        "an output would be a tensor object that lives on outside",
    ),
    "promoted": (
        lambda x, y: [p.neg() for p in torch.cat([x, y.double()]).split(4)],
        "a part has another dtype than the result",
    ),
}


@pytest.mark.parametrize(("function", "reason"), REFUSES.values(), ids=REFUSES)
def test_refuses(tidy, function, reason):
    unit = tidy(function, matrix(), matrix())
    run = run_passes([FoldSplit], unit)
    assert run.refused[reason] > 0
    check_against_eager(function, lambda: [matrix(), matrix()], alone(FoldSplit))


def test_leaves_alone(tidy):
    def function(x, y):
        first, second = x.split(2)
        third, fourth = torch.cat([x, y]).split([5, 3])
        fifth, sixth = x[1:].split([1, 2])
        return first * second + third[:2] * fourth[:2] + fifth * sixth

    x = matrix(torch.int64)
    run = folded(tidy, FoldSplit, function, x, x, opt_level="level2")
    assert run.applied == {"fold_split": 1}  # the last three rows are those of one part
    assert len(splits(run)) == 2


def test_symbolic_sizes():
    def function(x):
        first, second = x.split(4)
        lone = x.split(4)[1]
        halves = x.chunk(2)
        sizes = x.split([x.shape[0] // 2, x.shape[0] - x.shape[0] // 2])
        return first.sum() + second.sum(), lone.sum(), halves[1].sum(), sizes[0].sum()

    def inputs():
        return [torch.arange(42).view(7, 6)]

    run = run_passes([FoldSplit], capture(function, *inputs(), dynamic=True)[0])
    assert run.after["aten.split_with_sizes.default"] == 1
    check_against_eager(function, inputs, alone(FoldSplit), dynamic=True)


def test_one_piece_of_symbolic_size():
    def function(x):
        return x.split(x.shape[0])[0].neg(), x.chunk(1, 1)[0].neg()

    x = matrix()
    run = run_passes([FoldSplit], capture(function, x, dynamic=True)[0])
    assert run.after == {"aten.neg.default": 2}
    check_against_eager(function, lambda: [matrix()], alone(FoldSplit), dynamic=True)


def test_what_was_written_to_inside_is_not_looked_through(trace):
    """The cat inside no longer holds its parts when the outer one reads it."""

    def function(x, y):
        inner = torch.cat([x, y])
        inner.view(-1).add_(1)
        return [piece.neg() for piece in torch.cat([inner, x]).split([3, 1, 4, 4])]

    run = folded(trace, FoldSplit, function, matrix(), matrix(), opt_level="level2")
    assert run.refused["what is taken apart is written to"] == 3
