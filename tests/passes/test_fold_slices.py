import sys

import pytest
import torch

from tests.passes.folding import alone, folded, special
from xpu_graph.passes import origins
from xpu_graph.passes.fold_slices import FoldSlices
from xpu_graph.testing import capture, check_against_eager, run_passes

aten = torch.ops.aten
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
SLICE, SELECT = "aten.slice.Tensor", "aten.select.int"
OFFSET, OTHER_DTYPE = "the storage offset would change", "a part has another dtype than the result"


def matrix(dtype=torch.float32):
    return special(dtype, 24).view(4, 6)


def all_of(functions):
    """One program of several, which is compiled once."""
    chosen = list(functions)
    return lambda *inputs: [function(*inputs) for function in chosen]


def calls(run):
    """What is left, with the arguments that are no nodes."""
    return [
        (node.target, [a for a in node.args if not isinstance(a, torch.fx.Node)])
        for node in run.unit.gm.graph.nodes
        if node.target in (aten.slice.Tensor, aten.select.int)
    ]


END = sys.maxsize
JOINED = {
    "twice": (lambda x: x[1:][1:3], [0, 2, 4]),
    "counted from the end": (lambda x: x[:-1][-2:], [0, 1, 3]),
    "beyond the end": (lambda x: x[1:100][:-1][:50], [0, 1, 3]),
    "steps": (lambda x: x.view(24)[1::2][2:9:3], [0, 5, 19, 6]),
    "a step over the end": (lambda x: x.view(24)[:23:5][1:], [0, 5, 21, 5]),
    "along the last": (lambda x: x[:, 1:][..., 1:-1], [1, 2, 5]),
    "three": (lambda x: x[1:][1:][1:], [0, 3, 4]),
    "nothing of nothing": (lambda x: x[3:1][5:], [0, 3, 3]),
    "select": (lambda x: x[1:][1], [0, 2]),
    "select from the end": (lambda x: x.view(24)[1::5][-1], [0, 21]),
}


@pytest.mark.parametrize(("function", "expected"), JOINED.values(), ids=JOINED)
def test_joins(trace, function, expected):
    run = folded(trace, FoldSlices, function, matrix())
    ((_, given),) = calls(run)
    assert given == expected


@pytest.mark.parametrize("dynamic", [False, True])
def test_joins_as_compiled(dynamic):
    program = all_of([function for function, _ in JOINED.values()])
    check_against_eager(program, lambda: [matrix()], alone(FoldSlices), dynamic=dynamic)


SYMBOLIC = {
    "open": (lambda x: x[1:][2:].neg(), [[0, 3, END]]),
    "closed": (lambda x: x[1:][:2].neg(), [[0, 1, 3]]),
    "select": (lambda x: x[1:][1].neg(), [[0, 2]]),
    "the outer one is open": (lambda x: x[1 : x.shape[0] - 1][1:].neg(), [[0, 2]]),
}


@pytest.mark.parametrize(("function", "expected"), SYMBOLIC.values(), ids=SYMBOLIC)
def test_joins_symbolic_sizes(function, expected):
    x = special(torch.float32, 42).view(7, 6)
    run = run_passes([FoldSlices], capture(function, x, dynamic=True)[0])
    assert [given for _, given in calls(run)] == expected


def test_symbolic_sizes_as_compiled():
    program = all_of([function for function, _ in SYMBOLIC.values()])
    x = special(torch.float32, 42).view(7, 6)
    check_against_eager(program, lambda: [x.clone()], alone(FoldSlices), dynamic=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[1 : x.shape[0] - 1][: x.shape[0] - 3].neg(),
        lambda x: x[x.shape[0] // 2 :][1:].neg(),
        lambda x: x[1::2][1::3].neg(),
    ],
)
def test_unknown_bounds_are_not_joined(function):
    x = special(torch.float32, 42).view(7, 6)
    run = run_passes([FoldSlices], capture(function, x, dynamic=True)[0])
    assert not run.applied
    check_against_eager(function, lambda: [x.clone()], alone(FoldSlices), dynamic=True)


PARTS = {
    "the first part": lambda x, y: torch.cat([x, y])[:4].clone(),
    "inside it": lambda x, y: torch.cat([x, y])[:3].clone(),
    "a step inside it": lambda x, y: torch.cat([x, y])[:4:3].clone(),
    "selected": lambda x, y: torch.cat([x, y])[0].clone(),
    "stacked": lambda x, y: torch.stack([x, y])[0].clone(),
    "after an empty part": lambda x, y: torch.cat([y[:0], x, y])[:4].clone(),
    "after a legacy empty part": lambda x, y: torch.cat([torch.empty(0, dtype=x.dtype), x, y], 0)[
        :4
    ].clone(),
    "through two cats": lambda x, y: torch.cat([torch.cat([x, y]), y])[:4].clone(),
    "slices of a part": lambda x, y: torch.cat([x, y])[:3][1:][:1].clone(),
    "what was written": lambda x, y: torch.slice_scatter(y, x[:2], 0, 0, 2)[:2].clone(),
    "a part of what was written": lambda x, y: torch.slice_scatter(y, x[:2], 0, 0, 2)[:1].clone(),
    "selected from what was written": lambda x, y: torch.slice_scatter(y, x[:2], 0, 0, 2)[
        0
    ].clone(),
    "what was not written": lambda x, y: torch.slice_scatter(x, y[:2], 0, 2)[:2].clone(),
    "an index that was written": lambda x, y: torch.select_scatter(y, x[0], 0, 0)[0].clone(),
    "another index": lambda x, y: torch.select_scatter(x, y[0], 0, -1)[0].clone(),
    "a slice beside the index": lambda x, y: torch.select_scatter(x, y[0], 0, 2)[:2].clone(),
    "nothing was written": lambda x, y: torch.slice_scatter(x, y[:0], 0, 2, 2)[:3].clone(),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reads_the_part(trace, dtype):
    for function in PARTS.values():
        x = matrix(dtype)
        run = folded(trace, FoldSlices, function, x, x.flip(0))
        assert run.applied["fold_slices"] >= 1
        assert not [name for name in run.after if "cat" in name or "sta" in name]


@pytest.mark.parametrize("dynamic", [False, True])
def test_reads_the_part_as_compiled(dynamic):
    program = all_of(PARTS.values())
    check_against_eager(
        program, lambda: [matrix(), matrix().flip(0)], alone(FoldSlices), dynamic=dynamic
    )


LAID_OUT = {
    "a cat along the last": lambda x, y: torch.cat([x, y], -1)[:, 6:].sum(),
    "inside": lambda x, y: torch.cat([x, y], 1)[:, 7:9].sum(),
    "with a step": lambda x, y: torch.cat([x, y], 1)[:, 6:12:5].sum(),
    "selected": lambda x, y: torch.cat([x, y], 1)[:, -1].sum(),
    "stacked": lambda x, y: torch.stack([x, y], -1)[..., 1].sum(),
    "the second of a stack": lambda x, y: torch.stack([x, y])[1].sum(),
    "written": lambda x, y: torch.slice_scatter(x, y[:, :2], 1, 2, 4)[:, 2:4].sum(),
    "written with steps": lambda x, y: torch.slice_scatter(x, y[:2], 0, 0, 4, 2)[::2].sum(),
    "an index": lambda x, y: torch.select_scatter(x, y[:, 0], 1, -1)[:, 5].sum(),
}


@pytest.mark.parametrize("function", LAID_OUT.values(), ids=LAID_OUT)
def test_other_strides_need_level2(trace, function):
    x = matrix(torch.int64)
    run = folded(trace, FoldSlices, function, x, x.flip(0))
    assert not run.applied
    assert all(reason == OFFSET or "stride" in reason for reason in run.refused)
    run = folded(trace, FoldSlices, function, x, x.flip(0), opt_level="level2")
    assert run.applied == {"fold_slices": 1}
    assert not [name for name in run.after if "cat" in name or "sta" in name]


LEFT = {
    "several parts": (lambda x, y: torch.cat([x, y])[3:5].neg(), None),
    "a step over parts": (lambda x, y: torch.cat([x, y])[::4].neg(), None),
    "nothing": (lambda x, y: torch.cat([x, y])[2:2].neg(), None),
    "nothing after the last": (lambda x, y: x.view(24)[0:9:4][3:], OFFSET),
    "another dimension": (lambda x, y: torch.cat([x, y])[:, :1].neg(), None),
    "a slice of a stack": (lambda x, y: torch.stack([x, y])[:1].neg(), None),
    "another dimension of a stack": (lambda x, y: torch.stack([x, y])[:, 0].neg(), None),
    "written in part": (lambda x, y: torch.slice_scatter(x, y[:2], 0, 1, 3)[:2].neg(), None),
    "written with gaps": (lambda x, y: torch.slice_scatter(x, y[:2], 0, 0, 4, 2)[:3].neg(), None),
    "another dimension is written": (
        lambda x, y: torch.slice_scatter(x, y[:, :2], 1, 0, 2)[:2].neg(),
        None,
    ),
    "promoted": (lambda x, y: torch.cat([x, y.double()])[:4].neg(), OTHER_DTYPE),
    "converted": (
        lambda x, y: torch.slice_scatter(x, y.double()[:2], 0, 0, 2)[:2].neg(),
        OTHER_DTYPE,
    ),
    "returned": (
        lambda x, y: torch.cat([x, y])[:4],
        "an output would be a tensor object that lives on outside",
    ),
    "a returned view": (
        lambda x, y: torch.cat([x, y])[:4].view(24),
        "an output would share memory with an input or a constant",
    ),
}


@pytest.mark.parametrize(("function", "reason"), LEFT.values(), ids=LEFT)
def test_refuses(trace, function, reason):
    run = folded(trace, FoldSlices, function, matrix(), matrix().flip(0))
    assert not run.applied
    assert list(run.refused) == ([] if reason is None else [reason])


@pytest.mark.parametrize("dynamic", [False, True])
def test_others_as_compiled(dynamic):
    """The backend runs at level2."""
    functions = [function for function, _ in LEFT.values()]
    integers = matrix(torch.int64)
    check_against_eager(
        all_of(functions), lambda: [matrix(), matrix().flip(0)], alone(FoldSlices), dynamic=dynamic
    )
    check_against_eager(
        all_of(LAID_OUT.values()),
        lambda: [integers.clone(), integers.flip(0)],
        alone(FoldSlices),
        dynamic=dynamic,
    )


def test_every_link_keeps_the_dtype(trace):
    """Single precision is written into half, and that becomes part of a cat in single again."""

    def function(x, y):
        half = torch.slice_scatter(y.half(), x, 0, 0, 4)
        return torch.cat([half, x])[:4].neg()

    run = folded(trace, FoldSlices, function, torch.full((4,), 1.0001), torch.ones(4))
    assert run.refused == {OTHER_DTYPE: 1}


def test_what_is_written_to_is_not_read_instead(trace):
    def function(x, y):
        first = torch.cat([x, y])[:4]
        x.add_(1)
        return first * x

    run = folded(trace, FoldSlices, function, matrix(torch.int64), matrix(torch.int64))
    assert run.refused == {"the memory is written to elsewhere in the graph": 1}


def test_unequal_dimensions_are_told_apart(trace):
    x = torch.arange(16.0).view(4, 4)
    run = folded(trace, FoldSlices, lambda x: torch.select_scatter(x, x[0], 1, 2)[2].neg(), x)
    assert not run.applied


def test_symbolic_parts():
    """Up to the first part of unknown size positions are known."""

    def function(x, y):
        z = torch.cat([torch.stack([x[0], x[0]]), x, y])
        return z[:2].neg(), z[1:3].neg(), z[-1:].neg()

    def inputs():
        return [special(torch.float32, 42).view(7, 6), torch.ones(5, 6)]

    run = run_passes([FoldSlices], capture(function, *inputs(), dynamic=True)[0])
    assert run.applied == {"fold_slices": 1}
    check_against_eager(function, inputs, alone(FoldSlices), dynamic=True)


def test_symbolic_ranges_of_scatters():
    def function(x, y):
        n = x.shape[0] // 2
        z = torch.slice_scatter(x, x[n:] * y, 0, n)
        last = torch.select_scatter(x, x[0], 0, -1)
        return z[n:].sum(), z[n : x.shape[0]].sum(), z[:n].sum(), last[-1].sum(), last[0].sum()

    def inputs():
        return [torch.arange(42).view(7, 6), torch.arange(6)]

    unit = capture(function, *inputs(), dynamic=True)[0]
    run = run_passes([FoldSlices], unit, opt_level="level2")
    assert run.applied == {"fold_slices": 3}
    check_against_eager(function, inputs, alone(FoldSlices), dynamic=True)


def test_writes_one_after_the_other(trace):
    """As a program that fills a tensor row by row comes out of functionalisation."""

    def function(x):
        z = x.clone()
        for row in range(1, 4):
            z = torch.select_scatter(z, z[row - 1] * 2, 0, row)
        return z

    run = folded(trace, FoldSlices, function, matrix(torch.int64), opt_level="level2")
    assert run.applied == {"fold_slices": 2}


def test_long_chains_cost_a_bounded_look(trace, monkeypatch):
    links = []
    real = origins.Origins._step
    monkeypatch.setattr(
        origins.Origins, "_step", lambda self, piece: links.append(1) or real(self, piece)
    )

    def function(x):
        z = x.clone()
        for row in range(1, 40):
            z = torch.select_scatter(z, x[0], 0, row)
        return z[0].neg()

    run = folded(trace, FoldSlices, function, torch.arange(80.0).view(40, 2))
    assert run.refused == {"the chain above it is longer than what is looked at": 1}
    assert len(links) == origins.MAX_LINKS


def test_a_wide_cat_is_added_up_once(trace, monkeypatch):
    from xpu_graph.passes import pieces

    looks = []
    real = pieces.size_in_cat
    monkeypatch.setattr(pieces, "size_in_cat", lambda *args: looks.append(1) or real(*args))

    def function(x):
        z = torch.cat([x[row : row + 1] for row in range(40)], 1)
        return [z[:, 2 * row : 2 * row + 2].sum() for row in range(40)]

    x = torch.arange(80).view(40, 2)
    run = folded(trace, FoldSlices, lambda x: tuple(function(x)), x, opt_level="level2")
    assert run.applied == {"fold_slices": 40}
    assert len(looks) == 40
