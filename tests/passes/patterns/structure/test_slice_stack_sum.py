"""SliceStackSum: slices of one tensor that are stacked and added up."""

import pytest
import torch

from tests.passes.patterns.stand_ins import implemented
from tests.passes.patterns.structure.finding import found

X, Y = torch.randn(6, 12), torch.randn(6, 12)


def cut(x, width=4):
    return [x[:, start : start + width] for start in (0, 8, 3, 5)]


SPELLINGS = {
    "the first dimension": lambda x: torch.stack(cut(x)).sum(0),
    "one in between": lambda x: torch.stack(cut(x), dim=1).sum(dim=1),
    "the last": lambda x: torch.stack(cut(x), -1).sum(-1),
    "counted otherwise": lambda x: torch.stack(cut(x), 2).sum([-1]),
    "of rows": lambda x: torch.stack([x[4:], x[:2], x[2:4]]).sum(0),
    "parts of a split": lambda x: torch.stack([(p := x.split(4, 1))[2], p[0], p[1]]).sum(0),
    "of width one": lambda x: torch.stack([x[:, 3:4], x[:, 7:8]]).sum(0),
    "a slice is read": lambda x: torch.stack([(y := x[:, 4:]), x[:, :8]]).sum(0) + y,
    "of a result": lambda x: torch.stack(cut(x.sin())).sum(0).cos(),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_it_is_found(name):
    run = found("SliceStackSum", SPELLINGS[name], X)
    assert run.applied == run.after["stand_in.SliceStackSum.default"] == 1
    assert not run.after["aten.stack.default"]


@pytest.mark.parametrize(
    "dtype", [torch.int64, torch.int8, torch.bool, torch.bfloat16, torch.float64], ids=str
)
def test_dtypes(dtype):
    x = torch.arange(72).view(6, 12).to(dtype)
    assert found("SliceStackSum", SPELLINGS["the first dimension"], x).applied == 1


def test_sizes_of_run_time_elsewhere():
    x = X.clone()
    torch._dynamo.mark_dynamic(x, 0)
    assert found("SliceStackSum", SPELLINGS["the first dimension"], x).applied == 1


ELSEWHERE = "the sum does not go over the stacked dimension alone"
LEFT = {
    "another dimension": (lambda x, y: torch.stack(cut(x)).sum(1), ELSEWHERE),
    "several dimensions": (lambda x, y: torch.stack(cut(x)).sum((0, 1)), ELSEWHERE),
    "it keeps the dimension": (
        lambda x, y: torch.stack(cut(x)).sum(0, keepdim=True),
        "the sum keeps the dimension",
    ),
    "another dtype": (
        lambda x, y: torch.stack(cut(x)).sum(0, dtype=torch.float64),
        "the sum names a dtype",
    ),
    "the stack is read": (
        lambda x, y: ((s := torch.stack(cut(x))).sum(0), s),
        "something else reads a value inside",
    ),
    "several tensors": (
        lambda x, y: torch.stack([x[:, :4], y[:, 4:8]]).sum(0),
        "the slices are not of one tensor and one dimension",
    ),
    "beside others": (
        lambda x, y: torch.stack([*cut(x), y[:, :4].sin()]).sum(0),
        "there are other operands beside the slices",
    ),
    "steps": (
        lambda x, y: torch.stack([x[:, ::2], x[:, 1::2]]).sum(0),
        "a slice has a step",
    ),
    "additions": (lambda x, y: x[:, :4] + x[:, 4:8] + x[:, 8:], ""),
    "written to after": (
        lambda x, y: (torch.stack(cut(x)).sum(0), x.zero_())[0],
        "a read would move across a write",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_it_is_left_alone(name):
    program, reason = LEFT[name]
    run = found("SliceStackSum", program, X, Y)
    assert not run.applied
    assert reason in run.reasons if reason else not run.reasons


def test_ends_of_run_time():
    run = found(
        "SliceStackSum",
        lambda x: torch.stack([x[:, 1:], x[:, :-1]]).sum(0),
        X,
        dynamic=True,
    )
    assert not run.applied
    assert "where a slice ends is known at run time only" in run.reasons


def test_the_stand_in_computes_it():
    with implemented("SliceStackSum", verify=True):
        pass
