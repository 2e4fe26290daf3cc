import pytest
import torch

from tests.passes.folding import alone, folded, special
from xpu_graph.passes import fold_cat
from xpu_graph.passes.fold_cat import FoldCat
from xpu_graph.testing import capture, check_against_eager, run_passes

aten = torch.ops.aten
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
CAT, STACK = "aten.cat.default", "aten.stack.default"


def matrix(dtype=torch.float32):
    return special(dtype, 24).view(4, 6)


def copied(function):
    """Between two copies: neither an input nor an output."""
    return lambda x: function(x.clone()).clone()


def all_of(functions):
    """One program of several, which is compiled once."""
    chosen = list(functions)
    return lambda *inputs: [function(*inputs) for function in chosen]


def parts_of(run):
    """How many parts each cat has that is left."""
    cats = run.unit.gm.graph.find_nodes(op="call_function", target=aten.cat.default)
    return [len(cat.args[0]) for cat in cats]


SINGLE = {
    "cat": lambda x: torch.cat([x]),
    "along the last": lambda x: torch.cat([x], -1),
    "concat": lambda x: torch.concat([x], 1),
    "concatenate": lambda x: torch.concatenate([x], axis=1),
    "hstack": lambda x: torch.hstack([x]),
    "stack": lambda x: torch.stack([x]),
    "stack in the middle": lambda x: torch.stack([x], 1),
    "stack at the end": lambda x: torch.stack([x], -1),
    "an empty part": lambda x: torch.cat([x, x[:, :0]], 1),
    "empty parts before": lambda x: torch.cat([x[:, 2:2], x[:, :0], x], -1),
    "a legacy empty part": lambda x: torch.cat([torch.empty(0, dtype=x.dtype), x], 1),
    "nested": lambda x: torch.cat([torch.cat([torch.cat([x], 1)], -1)], 1),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_of_one_part(trace, dtype):
    for function in SINGLE.values():
        run = folded(trace, FoldCat, copied(function), matrix(dtype))
        assert run.applied["fold_cat"] >= 1
        assert not {CAT, STACK} & set(run.after)


@pytest.mark.parametrize("dynamic", [False, True])
def test_of_one_part_as_compiled(dynamic):
    def program(x):
        return [(function(x).neg(), function(x)) for function in SINGLE.values()]

    run = run_passes([FoldCat], capture(program, matrix(), dynamic=dynamic)[0])
    assert run.applied["fold_cat"] >= len(SINGLE)
    check_against_eager(program, lambda: [matrix()], alone(FoldCat), dynamic=dynamic)


FEWER = {
    "empty": (lambda x, y: torch.cat([x, y[:, :0], y], 1), [2]),
    "legacy empty": (lambda x, y: torch.cat([x, torch.empty(0, dtype=x.dtype), y], 1), [2]),
    "nested": (lambda x, y: torch.cat([torch.cat([x, y], 1), x], 1), [3]),
    "nested, counted from the end": (lambda x, y: torch.cat([x, torch.cat([y, x], -1)], 1), [3]),
    "two in one": (lambda x, y: torch.cat([torch.cat([x, y]), torch.cat([y, x])]), [4]),
    "deep": (lambda x, y: torch.cat([torch.cat([torch.cat([x, y]), y]), y]), [4]),
    "repeated": (lambda x, y: torch.cat([z := torch.cat([x, y]), z]), [4]),
    "nested and empty": (lambda x, y: torch.cat([torch.cat([x[:, :0], y], 1), x], 1), [2]),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fewer_parts_or_fewer_cats(trace, dtype):
    for function, parts in FEWER.values():
        x = matrix(dtype)
        run = folded(trace, FoldCat, function, x, x.flip(0))
        assert parts_of(run) == parts
        assert run.applied == {"fold_cat": 1}


@pytest.mark.parametrize("dynamic", [False, True])
def test_fewer_parts_as_compiled(dynamic):
    program = all_of([function for function, _ in FEWER.values()])
    check_against_eager(
        program, lambda: [matrix(), matrix().flip(0)], alone(FoldCat), dynamic=dynamic
    )


def test_symbolic_sizes():
    def function(x, y):
        return torch.cat([torch.cat([x, y]), torch.cat([x, y[:0]])]).neg(), torch.cat([y]).sum()

    def inputs():
        return [torch.arange(6.0).view(3, 2), torch.ones(4, 2)]

    run = run_passes([FoldCat], capture(function, *inputs(), dynamic=True)[0])
    assert parts_of(run) == [3]
    check_against_eager(function, inputs, alone(FoldCat), dynamic=True)


def test_channels_last_parts_give_a_channels_last_cat(trace):
    x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    run = folded(trace, FoldCat, lambda x: torch.cat([torch.cat([x, x], 1), x], 1), x)
    assert parts_of(run) == [3]
    run = folded(trace, FoldCat, lambda x: torch.cat([torch.cat([x, x], 1), x[:, :0], x], 1), x)
    assert parts_of(run) == [4]  # the empty part makes the cat an ordinary one
    assert run.applied == {"fold_cat": 1}
    run = folded(trace, FoldCat, lambda x: torch.cat([x.clone()], 1).clone(), x)
    assert parts_of(run) == []


WHOLE, F16 = torch.ones(4, 6), torch.ones(4, 6, dtype=torch.float16)
REFUSES = {
    "an input": (
        lambda x, y: torch.cat([x]),
        WHOLE,
        "an output would be a tensor object that lives on outside",
    ),
    "a stack of an input": (
        lambda x, y: torch.stack([x]),
        WHOLE,
        "an output would share memory with an input or a constant",
    ),
    "returned twice": (
        lambda x, y: (z := x.neg(), torch.cat([z])),
        WHOLE,
        "two outputs would be one tensor object",
    ),
    "strides": (lambda x, y: torch.cat([x.t()]).neg(), WHOLE, "stride"),
    "strides of a stack": (lambda x, y: torch.stack([x.t()]).neg(), WHOLE, "stride"),
    "an expanded part": (lambda x, y: torch.cat([x[0].expand(4, 6)]).neg(), WHOLE, "stride"),
    "promotion": (lambda x, y: torch.cat([x, y.double()[:0]]).neg(), WHOLE, "dtype"),
    "promotion by a legacy empty part": (
        lambda x, y: torch.cat([torch.empty(0, dtype=torch.float64), x]).neg(),
        WHOLE,
        "dtype",
    ),
    "the format of an empty part": (
        lambda x, y: torch.cat(
            [x.view(2, 3, 2, 2).to(memory_format=torch.channels_last), torch.empty(0)], 1
        ).neg(),
        WHOLE,
        "stride",
    ),
    "rounding inside": (
        lambda x, y: torch.cat([torch.cat([x.long(), x]), y.float()]),
        F16,
        "the inner cat has another dtype",
    ),
    "across": (
        lambda x, y: torch.cat([torch.cat([x, y], 1), torch.cat([y, x], 1)]),
        WHOLE,
        "the inner cat is along another dimension",
    ),
    "read elsewhere": (
        lambda x, y: torch.cat([z := torch.cat([x, y]), x]).sum() + z.sum(),
        WHOLE,
        "something else reads the inner cat",
    ),
    "empty parts only": (
        lambda x, y: torch.cat([x[:0]]).neg(),
        WHOLE,
        None,
    ),
}


@pytest.mark.parametrize(("function", "x", "reason"), REFUSES.values(), ids=REFUSES)
def test_refuses(trace, function, x, reason):
    run = folded(trace, FoldCat, function, x, x * 2)
    assert run.before == run.after
    assert not run.applied
    if reason is None:
        assert not run.refused
    else:
        assert any(reason in given for given in run.refused)


def test_refuses_as_compiled():
    for sample in (WHOLE, F16):
        program = all_of([function for function, x, _ in REFUSES.values() if x is sample])
        check_against_eager(program, lambda x=sample: [x.clone(), x * 2], alone(FoldCat))


def test_strides_may_differ_at_level2(trace):
    def function(x):
        return torch.cat([x.t()]).neg().sum(), torch.stack([x.t()]).neg().sum(0)

    run = folded(trace, FoldCat, function, matrix(torch.int64), opt_level="level2")
    assert run.applied == {"fold_cat": 2}
    assert not {CAT, STACK} & set(run.after)


def test_what_is_written_to_stays_a_copy(trace):
    def function(x):
        y, inner = torch.cat([x]), torch.cat([x, x])
        x.view(24).add_(1)
        return y + x, torch.cat([inner, x])

    run = folded(trace, FoldCat, function, matrix())
    assert run.refused["the memory is written to elsewhere in the graph"] > 0
    assert run.refused["a read would move across a write"] > 0
    assert not run.applied


def test_a_chain_is_flattened_at_once(trace):
    def function(x):
        y = x.neg()
        for _ in range(40):
            y = torch.cat([y, x])
        return y

    run = folded(trace, FoldCat, function, torch.arange(2.0))
    assert run.applied == {"fold_cat": 1}
    assert parts_of(run) == [41]


def test_cats_do_not_grow_without_end(trace, monkeypatch):
    monkeypatch.setattr(fold_cat, "MAX_PARTS", 16)

    def function(x):
        for _ in range(10):
            x = torch.cat([x, x])
        return x

    run = folded(trace, FoldCat, function, torch.arange(2.0))
    assert run.refused == {"the cat would have more than 16 parts": 1}
    assert parts_of(run) == [2] * 10


def test_more_parts_than_that_may_lose_the_empty_ones(trace, monkeypatch):
    monkeypatch.setattr(fold_cat, "MAX_PARTS", 4)
    run = folded(trace, FoldCat, lambda x: torch.cat([x, x[:0]] * 8), torch.arange(2.0))
    assert parts_of(run) == [8]
