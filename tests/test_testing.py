"""The helpers tests rest on: they must fail where there is a difference."""

import pytest
import torch

from xpu_graph.passes.cse import CommonSubexpressions
from xpu_graph.testing import (
    alias_classes,
    assert_same,
    capture,
    check_against_eager,
    run_passes,
)

nan, inf = float("nan"), float("inf")

DIFFERENT = [
    (torch.tensor([1.0]), torch.tensor([2.0])),
    (torch.tensor([0.0]), torch.tensor([-0.0])),
    (torch.tensor([complex(0.0, 1.0)]), torch.tensor([complex(-0.0, 1.0)])),
    (torch.tensor([0.0], dtype=torch.float8_e5m2), torch.tensor([-0.0], dtype=torch.float8_e5m2)),
    (torch.tensor([nan]), torch.tensor([1.0])),
    (torch.tensor([1]), torch.tensor([1.0])),
    (torch.ones(2, 3), torch.ones(3, 2).t()),
    (torch.ones(1), torch.ones(())),
    (torch.ones(1), torch.ones(1).requires_grad_()),
    (torch.ones(1), 1.0),
    (1.0, torch.ones(1)),
    (1, 1.0),
    (1, True),
    (nan, 1.0),
    (0.0, -0.0),
    ("a", "b"),
    (None, 0),
    ([1], (1,)),
    ([1, 2], [1]),
    ({"a": 1}, {"b": 1}),
]


@pytest.mark.parametrize(("got", "want"), DIFFERENT, ids=str)
def test_differences_are_found(got, want):
    for left, right in ((got, want), (want, got)):
        with pytest.raises(AssertionError):
            assert_same(left, right)


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([nan, inf, -0.0, 1.0]),
        torch.tensor([complex(nan, -0.0)]).conj(),
        torch.tensor([0.5]).to(torch.float8_e4m3fn),
        torch.zeros(0, 3),
        torch.tensor(3),
        torch.eye(2).to_sparse(),
        nan,
        -0.0,
        None,
        "text",
        {"a": [1, (True, 2.5)], "b": torch.float32},
    ],
    ids=str,
)
def test_a_value_is_the_same_as_itself(value):
    twin = value.clone() if isinstance(value, torch.Tensor) else value
    assert_same(value, twin)


def test_tolerances_are_for_values_alone():
    assert_same(torch.ones(1), torch.ones(1) + 1e-6, bitwise=False, rtol=1e-5, atol=0)
    with pytest.raises(AssertionError):
        assert_same(torch.ones(1), torch.ones(1) + 1e-4, bitwise=False, rtol=1e-5, atol=0)
    with pytest.raises(AssertionError):
        assert_same(torch.ones(1), torch.ones(1).double(), bitwise=False, rtol=1, atol=1)


def test_alias_classes():
    x = torch.ones(4)
    assert alias_classes([x, torch.ones(1), x[1:], x.view(2, 2)]) == [0, 1, 0, 0]
    assert alias_classes([torch.ones(0), torch.ones(0)]) == [-1, -1]
    assert alias_classes([torch.eye(2).to_sparse(), x]) == [-1, 1]


def wrong(change):
    """A backend that compiles something else."""

    def backend(gm, inputs):
        def run(*args):
            return change(gm(*args), args)

        return run

    return backend


def copied(results, args):
    return [r.clone() for r in results]


def written(results, args):
    args[0].add_(1)
    return results


@pytest.mark.parametrize(
    ("function", "change"),
    [
        (lambda x: (x + 1, x * 2), lambda results, args: [results[1], results[0]]),
        (lambda x: (x + 1,), written),
        (lambda x: (x.view(-1), x + 1), copied),
        (lambda x: (x.t(), x * 1), lambda results, args: [results[0], args[0].view_as(args[0])]),
    ],
    ids=["values", "input", "lost alias", "new alias"],
)
def test_a_wrong_backend_is_found(function, change):
    make = lambda: [torch.arange(6.0).view(2, 3)]  # noqa: E731
    check_against_eager(function, make, "aot_eager")
    with pytest.raises(AssertionError):
        check_against_eager(function, make, wrong(change))


def test_a_wrong_object_is_found():
    def function(x):
        y = x + 1
        return y, y.view_as(y) if torch.compiler.is_compiling() else y

    with pytest.raises(AssertionError, match="objects are one"):
        check_against_eager(function, lambda: [torch.ones(2)])


def test_capture_gives_units_before_any_pass():
    def function(x):
        y = x * 1
        torch._dynamo.graph_break()
        return y + 0

    first, second = capture(function, torch.ones(3))
    assert [n.target for n in first.gm.graph.nodes if n.op == "call_function"] == [
        torch.ops.aten.mul.Tensor
    ]
    assert second.stage == first.stage and second.fake_inputs[0].shape == (3,)


def test_run_passes_tells_what_happened():
    (unit,) = capture(lambda x: x.sin() + x.sin(), torch.ones(3))
    run = run_passes([CommonSubexpressions], unit)
    assert run.before["aten.sin.default"] == 2 and run.after["aten.sin.default"] == 1
    assert run.applied == {"cse": 1} and run.rounds == 2 and not run.refused
