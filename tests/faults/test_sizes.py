"""Faults of symbolic sizes: folds that pin a size, or that hold for the first size only."""

import pytest
import torch

from xpu_graph.testing import assert_same

ROUNDS = ((4, 6), (5, 7), (9, 8), (3, 12))

FOLDS = {
    "slices": lambda x: (
        x[: x.shape[0]],
        x[:, 0 : x.shape[1]] + 1,
        x[1:],
        x.narrow(0, 0, x.shape[0]),
    ),
    "views": lambda x: (
        x.view(x.shape),
        x.reshape(x.shape[0], -1).view(x.shape),
        x.expand(x.shape).clone(),
        x.unsqueeze(0).expand(1, -1, -1).squeeze(0),
        x.t().t().flatten().view(x.shape[0], x.shape[1]),
        x.permute(0, 1),
    ),
    "neutral": lambda x: (
        x * torch.ones_like(x),
        x - torch.zeros(x.shape),
        x + torch.zeros(x.shape[1]),
        x * 1 - 0,
        x.clone() / 1,
    ),
    "sizes as values": lambda x: (
        torch.full((2,), x.shape[0]) + 1,
        torch.arange(x.shape[0]) * 2,
        x * x.shape[1] + 0,
        x.sum() / x.numel(),
        torch.zeros(x.shape[0], 2) + x[:, :1],
        torch.ones(x.shape[0]) * x.shape[0],
        torch.tensor([1.0, 2.0]) * x.shape[1],
    ),
    "repeats": lambda x: (
        (x + x.shape[0]) * (x + x.shape[0]),
        x.sum(0) + x.sum(0),
        torch.cat([x, x]).view(2, x.shape[0], -1),
        x.view(-1).sum() * x.view(-1).sum(),
    ),
    "a write": lambda x: (x.add_(1) * 1, x[:1].zero_() + 0),
}


def counted(backend):
    compiled = []

    def call(gm, inputs):
        compiled.append(gm)
        return backend(gm, inputs)

    return call, compiled


def ramp(rows, columns, dtype=torch.float32):
    return torch.arange(rows * columns).view(rows, columns).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("folds", FOLDS)
def test_one_compilation_serves_all_sizes(backend, folds, dtype):
    call, compiled = counted(backend)
    mine = torch.compile(FOLDS[folds], backend=call, dynamic=True, fullgraph=True)
    with torch.no_grad():
        for rows, columns in ROUNDS:
            left, right = ramp(rows, columns, dtype), ramp(rows, columns, dtype)
            assert_same((mine(left), left), (FOLDS[folds](right), right))
    assert len(compiled) == 1


@pytest.mark.parametrize("folds", sorted({*FOLDS} - {"slices"}))
def test_sizes_zero_and_one_follow_general_ones(backend, folds):
    mine = torch.compile(FOLDS[folds], backend=backend, dynamic=True)
    with torch.no_grad():
        for rows, columns in ((4, 3), (1, 3), (5, 1), (1, 1), (2, 2)):
            left, right = ramp(rows, columns), ramp(rows, columns)
            assert_same((mine(left), left), (FOLDS[folds](right), right))


def test_other_numbers_dtypes_and_layouts_are_compiled_for(backend):
    def function(x, k, s):
        return x * k + s, x.reshape(-1), x / k if k else x

    mine = torch.compile(function, backend=backend)
    m = ramp(2, 3)
    inputs = (
        *((m, 1, 0), (m, 2, 0.5), (m, 1.0, -0.0), (m.t(), 2, 0.0), (m[:, ::2], 1, 1)),
        *((m.half(), 1.0, -0.0), (m.long(), True, 1), (m.to(torch.complex64), 0, 1)),
    )
    with torch.no_grad():
        for arguments in inputs:
            assert_same(mine(*arguments), function(*arguments))
