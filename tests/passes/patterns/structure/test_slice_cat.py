"""SliceCat: slices of one tensor that a cat joins."""

import pytest
import torch

from tests.passes.patterns.stand_ins import implemented
from tests.passes.patterns.structure.finding import found

X, Y = torch.randn(6, 12), torch.randn(6, 12)

SPELLINGS = {
    "in order": lambda x: torch.cat([x[:, :2], x[:, 4:5], x[:, 8:]], 1),
    "in any order": lambda x: torch.cat([x[:, 8:], x[:, :2], x[:, 4:7]], 1),
    "overlapping": lambda x: torch.cat([x[:, :8], x[:, 4:], x[:, :8]], 1),
    "counted from the end": lambda x: torch.cat([x[:, -3:], x[:, :-4]], -1),
    "the first dimension": lambda x: torch.cat([x[3:], x[:2]]),
    "of three dimensions": lambda x: torch.cat(
        [x.view(3, 2, 12)[:, :, 5:9], x.view(3, 2, 12)[:, :, :3]], 2
    ),
    "parts of a split": lambda x: torch.cat([(p := x.split(4, 1))[2], p[0]], 1),
    "parts of sizes": lambda x: torch.cat([(p := x.split([5, 3, 4], 1))[2], p[1], p[0]], 1),
    "chunks": lambda x: torch.cat([(p := x.chunk(2, 1))[1], p[0]], 1),
    "narrow": lambda x: torch.cat([x.narrow(1, 6, 2), x.narrow(1, 0, 5)], 1),
    "a slice is read": lambda x: torch.cat([(y := x[:, 6:]), x[:, :2]], 1).sum() + y,
    "a slice is returned": lambda x: ((y := x[:, 6:]), torch.cat([y, x[:, :2]], 1)),
    "an empty slice": lambda x: torch.cat([x[:, 8:], x[:, 3:3], x[:, :2]], 1),
    "of a result": lambda x: torch.cat([(y := x * 2)[:, 8:], y[:, :2]], 1).sin(),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_it_is_found(name):
    run = found("SliceCat", SPELLINGS[name], X)
    assert run.applied == run.after["stand_in.SliceCat.default"] == 1
    assert not run.after["aten.cat.default"]


@pytest.mark.parametrize(
    "dtype",
    [torch.int64, torch.int8, torch.bool, torch.bfloat16, torch.complex64],
    ids=str,
)
def test_dtypes(dtype):
    x = torch.arange(72).view(6, 12).to(dtype)
    assert found("SliceCat", SPELLINGS["in order"], x).applied == 1


def test_sizes_of_run_time_elsewhere():
    def program(x):
        return torch.cat([x[:, 4:], x[:, :2]], 1)

    x = X.clone()
    torch._dynamo.mark_dynamic(x, 0)
    assert found("SliceCat", program, x).applied == 1


def test_another_layout():
    assert found("SliceCat", SPELLINGS["the first dimension"], torch.randn(4, 6).t()).applied == 1


LEFT = {
    "of several tensors": (
        lambda x, y: torch.cat([x[:, 4:], y[:, :2]], 1),
        "the slices are not of one tensor and one dimension",
    ),
    "beside others": (
        lambda x, y: torch.cat([x[:, 4:], y, x[:, :2]], 1),
        "there are other operands beside the slices",
    ),
    "one slice": (lambda x, y: torch.cat([x[:, 4:], y], 1), ""),
    "another dimension": (
        lambda x, y: torch.cat([x[3:], x[:3]], 1),
        "what is joined is sliced along another dimension",
    ),
    "of another shape": (
        lambda x, y: torch.cat([x[:, 3:9], x[:, :6], x.view(12, 6)[4:10]], 1),
        "the slices are not of one tensor and one dimension",
    ),
    "steps": (lambda x, y: torch.cat([x[:, 1::2], x[:, ::2]], 1), "a slice has a step"),
    "written to after": (
        lambda x, y: (torch.cat([x[:, 4:], x[:, :2]], 1), x.zero_())[0],
        "a read would move across a write",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_it_is_left_alone(name):
    program, reason = LEFT[name]
    run = found("SliceCat", program, X, Y)
    assert not run.applied
    assert reason in run.reasons if reason else not run.reasons


def test_ends_of_run_time():
    run = found("SliceCat", lambda x: torch.cat([x[:, 4:], x[:, :2]], 1), X, dynamic=True)
    assert not run.applied
    assert "where a slice ends is known at run time only" in run.reasons


def test_no_rows():
    run = found("SliceCat", SPELLINGS["in order"], torch.randn(0, 12))
    assert run.applied or "an empty tensor" in run.reasons


def test_the_stand_in_computes_it():
    with implemented("SliceCat", verify=True):
        pass
