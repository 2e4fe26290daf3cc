"""RoPE: halves that are rotated, however they are cut."""

import pytest
import torch

from tests.passes.patterns.structure.finding import found

X = torch.randn(2, 3, 5, 8)
COS, SIN = torch.randn(1, 1, 5, 8), torch.randn(1, 1, 5, 8)


def with_slices(x):
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)


def with_chunk(x):
    left, right = x.chunk(2, -1)
    return torch.cat([-right, left], -1)


def with_split(x):
    left, right = x.split(4, 3)
    return torch.cat((-right, left), dim=3)


def rope(x, cos, sin, rotate=with_slices):
    return x * cos + rotate(x) * sin


def rotated_in_part(x, cos, sin):
    turned, kept = x[..., :4], x[..., 4:]
    return torch.cat([rope(turned, cos[..., :4], sin[..., :4]), kept], -1)


def later_part(x, cos, sin):
    return rope(x[..., 2:6], cos[..., 2:6], sin[..., 2:6])


def transposed(x, cos, sin):
    return rope(x.transpose(1, 2).contiguous().transpose(1, 2), cos, sin)


SPELLINGS = {
    "slices": rope,
    "chunks": lambda x, cos, sin: rope(x, cos, sin, with_chunk),
    "a split": lambda x, cos, sin: rope(x, cos, sin, with_split),
    "sine first": lambda x, cos, sin: sin * with_slices(x) + cos * x,
    "a part": rotated_in_part,
    "a part in the middle": later_part,
    "another layout": transposed,
    "of a result": lambda x, cos, sin: rope(x.exp(), cos, sin),
    "unsqueezed": lambda x, cos, sin: rope(x, cos[0].unsqueeze(1), sin[0].unsqueeze(1)),
    "of two dimensions": lambda x, cos, sin: rope(x[0, 0], cos[0, 0], sin[0, 0]),
    "what is rotated is read": lambda x, cos, sin: rope(x, cos, sin) + x,
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_it_is_found(name):
    run = found("RoPE", SPELLINGS[name], X, COS, SIN)
    assert run.applied == run.after["stand_in.RoPE.default"] == 1
    assert not run.after["aten.neg.default"]


def test_query_and_key():
    def program(query, key, cos, sin):
        return rope(query, cos, sin), rope(key, cos, sin)

    run = found("RoPE", program, X, torch.randn(2, 1, 5, 8), COS, SIN)
    assert run.applied == run.after["stand_in.RoPE.default"] == 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_dtypes(dtype):
    assert found("RoPE", rope, *(one.to(dtype) for one in (X, COS, SIN))).applied == 1


def test_sizes_of_run_time_elsewhere():
    inputs = [one.clone() for one in (X, COS, SIN)]
    for one in inputs:
        torch._dynamo.mark_dynamic(one, 2)
    assert found("RoPE", rope, *inputs).applied == 1


def interleaved(x, cos, sin):
    pairs = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
    return x * cos + pairs * sin


NOT_HALVES = "what is turned is not the halves of what is rotated"
LEFT = {
    "pairs side by side": (interleaved, ""),
    "a cut elsewhere": (
        lambda x, c, s: x * c + torch.cat([-x[..., 3:], x[..., :3]], -1) * s,
        NOT_HALVES,
    ),
    "turned back": (
        lambda x, c, s: x * c + torch.cat([-x[..., :4], x[..., 4:]], -1) * s,
        NOT_HALVES,
    ),
    "halves of something else": (
        lambda x, c, s: x * c + with_slices(x.sin()) * s,
        NOT_HALVES,
    ),
    "a start before the first element": (
        lambda x, c, s: (
            (y := x[..., -10:6].sin()) * c[..., :6]
            + torch.cat([-y[..., 1:4], y[..., -10:3]], -1) * s[..., :6]
        ),
        NOT_HALVES,
    ),
    "slices of what it is a slice of, from before the first element": (
        lambda x, c, s: (
            x[..., -10:6] * c[..., :6] + torch.cat([-x[..., 1:4], x[..., -10:3]], -1) * s[..., :6]
        ),
        NOT_HALVES,
    ),
    "another dimension": (
        lambda x, c, s: (
            (y := x.transpose(2, 3)) * (d := c.transpose(2, 3))
            + torch.cat([-y[:, :, 4:], y[:, :, :4]], 2) * d
        ),
        "the last dimension is not cut in the middle",
    ),
    "an odd size": (
        lambda x, c, s: (
            (y := x[..., :7].sin()) * c[..., :7]
            + torch.cat([-y[..., 3:], y[..., :3]], -1) * s[..., :7]
        ),
        "the last dimension is not cut in the middle",
    ),
    "a number": (lambda x, c, s: x * 2.0 + with_slices(x) * s, "cos is no tensor"),
    "another number": (lambda x, c, s: x * c + with_slices(x) * 2.0, "sin is no tensor"),
    "returned": (
        lambda x, c, s: ((t := with_slices(x)), x * c + t * s),
        "something else reads a value inside",
    ),
    "written to after": (
        lambda x, c, s: (rope(x, c, s), x.zero_())[0],
        "a read would move across a write",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_it_is_left_alone(name):
    program, reason = LEFT[name]
    run = found("RoPE", program, X, COS, SIN)
    assert not run.applied
    assert reason in run.reasons if reason else not run.reasons


def test_integers_are_left_alone():
    x = torch.arange(240).view(2, 3, 5, 8)
    run = found("RoPE", rope, x, COS, SIN)
    assert not run.applied
    assert "x is not floating point" in run.reasons


def test_a_last_dimension_of_run_time_is_left_alone():
    run = found("RoPE", rope, X, COS, SIN, dynamic=True)
    assert not run.applied
    assert "the last dimension is not cut in the middle" in run.reasons
