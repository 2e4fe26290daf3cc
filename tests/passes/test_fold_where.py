import pytest
import torch

from tests.passes.folding import DTYPES, NAN, alone, folded, special
from xpu_graph.passes.fold_where import FoldWhere
from xpu_graph.testing import assert_same, capture, check_against_eager, run_passes

aten = torch.ops.aten
TRUE, FALSE = (torch.full((37,), value) for value in (True, False))


def mask():
    return torch.arange(37) % 3 == 0


def full(value, dtype=torch.bool):
    return torch.full((37,), value, dtype=dtype)


CHOSEN = {
    "both the same": lambda c, x, y: torch.where(c, x, x),
    "True": lambda c, x, y: torch.where(full(True), x, y),
    "False": lambda c, x, y: torch.where(full(False), x, y),
    "a view of True": lambda c, x, y: torch.where(torch.ones(1, 37).bool()[0], x, y),
    "0-dim": lambda c, x, y: torch.where(aten.scalar_tensor(1, dtype=torch.bool), x, y),
    "a mask of nothing": lambda c, x, y: x.masked_fill(full(False), 1),
    "a mask of nothing, tensor": lambda c, x, y: x.masked_fill(full(False), y[0]),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_is_chosen_is_read(trace, dtype):
    for function in CHOSEN.values():
        run = folded(
            trace, FoldWhere, copied(function), mask(), special(dtype), special(dtype).flip(0)
        )
        assert run.applied == {"fold_where": 1}
        assert not [name for name in run.after if "where" in name or "masked" in name]


def copied(function):
    """Between two copies: neither an input nor an output."""
    return lambda c, x, y: function(c, x.clone(), y.clone()).clone()


def test_constants_of_the_module():
    def function(x, y):
        return torch.where(torch.tensor([True] * 3), x, y).sin(), x.masked_fill(
            torch.tensor(False), 1
        ).cos()

    run = run_passes([FoldWhere], capture(function, torch.ones(3), torch.ones(3))[0])
    assert run.applied == {"fold_where": 2}
    check_against_eager(function, lambda: [torch.ones(3), torch.zeros(3)], alone(FoldWhere))


CONVERTED = {
    "broadcast by the condition": lambda c, x, y: torch.where(c.view(37, 1), x, x),
    "broadcast by the other": lambda c, x, y: torch.where(torch.ones(()).bool(), x, y.view(37, 1)),
    "cast": lambda c, x, y: torch.where(full(True), x.to(torch.float16), y),
    "integers": lambda c, x, y: torch.where(full(False), y, c),
    "0-dim and cast": lambda c, x, y: torch.where(full(True), x[0].to(torch.float16), y),
    "complex": lambda c, x, y: torch.where(full(True), x, y.to(torch.complex64)),
    "filled": lambda c, x, y: x.masked_fill(torch.zeros(2, 37).bool(), 1),
}


@pytest.mark.parametrize("function", CONVERTED.values(), ids=CONVERTED)
def test_what_is_chosen_is_broadcast_and_cast(trace, function):
    x = special(torch.float32)
    run = folded(trace, FoldWhere, function, mask(), x, x.flip(0))
    assert run.applied == {"fold_where": 1}


EQUAL = {
    "two fills": lambda c, x: torch.where(c, full(2.0, x.dtype), full(2, x.dtype)),
    "NaN": lambda c, x: torch.where(c, full(NAN, torch.float32), full(NAN, torch.float32)),
    "promoted": lambda c, x: torch.where(c, full(1, torch.int64), full(True)),
    "masked": lambda c, x: x.masked_fill(full(True), 3),
    "masked by a tensor": lambda c, x: x.masked_fill(full(True), torch.full((), 3)),
    "a mask that broadcasts": lambda c, x: x.masked_fill(torch.ones(2, 1).bool(), 3),
}


@pytest.mark.parametrize("function", EQUAL.values(), ids=EQUAL)
def test_equal_numbers_are_filled_in(trace, function):
    run = folded(trace, FoldWhere, function, mask(), special(torch.float32))
    assert run.after == {"aten.full.default": 1}


def test_a_fill_with_what_was_there(trace):
    run = folded(trace, FoldWhere, lambda c: full(2, torch.int64).masked_fill(c, 2).neg(), mask())
    assert run.after == {"aten.full.default": 1, "aten.neg.default": 1}


def test_signs_of_zero_are_two_numbers(trace):
    def function(c, x):
        zero, minus = full(0.0, torch.float32), full(-0.0, torch.float32)
        return torch.where(c, zero, minus), minus.masked_fill(c, 0.0)

    assert not folded(trace, FoldWhere, function, mask(), special(torch.float32)).applied


def test_a_negated_condition_swaps(trace):
    def function(c, x, y):
        return torch.where(~c, x, y), torch.where(c.logical_not(), x, 1.0)

    run = folded(trace, FoldWhere, function, mask(), special(torch.float32), torch.ones(37))
    assert run.applied == {"fold_where": 2}
    assert not {"aten.bitwise_not.default", "aten.logical_not.default"} & set(run.after)


def test_nested_choices(trace):
    def function(c, x, y):
        return (
            torch.where(c, torch.where(c, x, y), x.neg()),
            torch.where(c, x.neg(), torch.where(c, x, y)),
            torch.where(c, torch.where(c, x, y), torch.where(c, y, x.neg())),
        )

    x = special(torch.float32)
    run = folded(trace, FoldWhere, function, mask(), x, x.flip(0))
    assert run.applied == {"fold_where": 4}
    assert run.after["aten.where.self"] == 3


@pytest.mark.parametrize("dynamic", [False, True])
def test_symbolic_sizes(dynamic):
    def function(c, x, y):
        same = torch.where(c, x, x).sin()
        return same, torch.where(~c, x, y), torch.where(c, torch.where(c, y, x), x).cos()

    def inputs():
        return [mask(), torch.ones(37), torch.zeros(37)]

    run = run_passes([FoldWhere], capture(function, *inputs(), dynamic=dynamic)[0])
    assert run.applied == {"fold_where": 3}
    check_against_eager(function, inputs, alone(FoldWhere), dynamic=dynamic)


X = special(torch.float32)
REFUSES = {
    "the input is returned": (lambda c, x: torch.where(c, x, x), "an output would be a tensor"),
    "strides": (
        lambda c, x: torch.where(torch.ones(2, 3).bool(), x[:6].view(3, 2).t(), 1.0).sin(),
        "stride",
    ),
    "numbers as conditions": (
        lambda c, x: torch.where(x.logical_not(), x, 1.0),
        "the condition is not boolean",
    ),
    "the inner one casts": (
        lambda c, x: torch.where(c, torch.where(c, c.long(), x), x),
        "the inner choice casts what it chooses",
    ),
    "the inner one promotes 0-dim": (
        lambda c, x: torch.where(c, torch.where(c, x.double()[0], x), x.double()),
        "the inner choice casts what it chooses",
    ),
    "the inner one broadcasts": (
        lambda c, x: torch.where(c, torch.where(c, x, x.view(37, 1)), x),
        "shape",
    ),
}


@pytest.mark.parametrize(("function", "reason"), REFUSES.values(), ids=REFUSES)
def test_refuses(trace, function, reason):
    run = folded(trace, FoldWhere, function, mask(), X)
    assert run.before == run.after
    (given,) = run.refused
    assert given.startswith(reason)


def test_refuses_symbolic_sizes():
    def function(c, x):
        return torch.where(c, x, x)

    run = run_passes(
        [FoldWhere], capture(function, mask()[:, None], torch.ones(5), dynamic=True)[0]
    )
    assert run.refused == {"a size is symbolic": 1}


def test_writes_are_respected(trace):
    def swapped(c, x):
        other = ~c
        c.logical_not_()
        return torch.where(other, x, 1.0)

    run = folded(trace, FoldWhere, swapped, mask(), X)
    assert run.refused == {"a read would move across a write": 1}

    def flipped(c, x):
        other = ~c
        other.logical_not_()
        return torch.where(other, x, 1.0)

    assert not folded(trace, FoldWhere, flipped, mask(), X).applied

    def nested(c, x):
        inner = torch.where(c, x, 1.0)
        c.view(37, 1).logical_not_()
        return torch.where(c, inner, x)

    run = folded(trace, FoldWhere, nested, mask(), X)
    assert run.refused == {"the condition is written to": 1}

    def chosen(c, x):
        inner = torch.where(c, x, 1.0)
        inner.add_(1)
        return torch.where(c, inner, x)

    assert not folded(trace, FoldWhere, chosen, mask(), X).applied

    def condition(c, x):
        known = torch.ones(37, dtype=torch.bool)
        known.logical_not_()
        return torch.where(known, x, 1.0)

    assert not folded(trace, FoldWhere, condition, mask(), X).applied


def test_leaves_alone(trace):
    def function(c, x):
        other = torch.where(x > 0, x, 1.0)
        return torch.where(c, x, 1.0), x.masked_fill(c, 1), torch.where(c, other, x)

    run = folded(trace, FoldWhere, function, mask(), X)
    assert not run.applied
    assert not run.refused


def test_empty_and_0_dim(trace):
    def function(x, y):
        some, none = torch.ones((), dtype=torch.bool), torch.ones(0, dtype=torch.bool)
        return torch.where(some, x, 1.0).sin(), torch.where(none, y, 1.0), torch.where(none, y, y)

    run = folded(trace, FoldWhere, function, torch.tensor(-0.0), torch.ones(0))
    assert run.applied["fold_where"] >= 1


def test_a_condition_that_is_written_to_is_not_read_later(trace):
    """The condition is read where it is negated, not where it decides."""

    def function(c, x):
        negated = c.logical_not()
        c.logical_not_()
        return torch.where(negated, c, x)

    def inputs():
        return torch.tensor([True, False]), torch.tensor([1.0, 2.0])

    unit = trace(function, *inputs())
    run = run_passes([FoldWhere], unit)
    assert run.refused["a read would move across a write"] == 1
    assert_same(unit.gm(*inputs()), function(*inputs()))
