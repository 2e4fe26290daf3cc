"""Faults of layout: results whose strides, dtype or memory format were forgotten."""

import pytest
import torch

from xpu_graph.testing import check_against_eager

last = torch.channels_last
plain = torch.contiguous_format


def base():
    return torch.arange(2.0 * 3 * 4 * 5).view(2, 3, 4, 5)


LAYOUTS = {
    "contiguous": base,
    "channels last": lambda: base().to(memory_format=last),
    "transposed": lambda: base().transpose(1, 3),
    "sliced": lambda: base()[:, 1:, ::2],
    "expanded": lambda: base()[:1, :1].expand(2, 3, 4, 5),
    "one channel": lambda: base()[:, :1].to(memory_format=last),
    "no elements": lambda: base()[:, :0],
    "shifted": lambda: base().view(-1)[7:31].view(2, 3, 2, 2),
}

OPERATORS = {
    "like": lambda x: (
        torch.zeros_like(x),
        torch.full_like(x, 2),
        torch.ones_like(x, memory_format=plain),
        torch.zeros_like(x, dtype=torch.int64),
    ),
    "copies": lambda x: (
        x.clone(),
        x.clone(memory_format=plain),
        x.contiguous(),
        x.contiguous(memory_format=last),
        x.to(memory_format=last),
        x.to(memory_format=plain, copy=True),
        x.to(torch.float64).to(torch.float32),
        x.to(x.dtype),
    ),
    "neutral": lambda x: (x * 1, x - 0, x / 1, x + torch.zeros_like(x), 1 * x.clone()),
    "views": lambda x: (
        x.permute(3, 1, 2, 0).permute(3, 1, 2, 0),
        x.transpose(0, 1).transpose(0, 1),
        x.reshape(x.shape),
        x.reshape(-1).reshape(x.shape),
        x.unsqueeze(1).squeeze(1),
        x.flatten(2).unflatten(2, x.shape[2:]),
        x.expand(x.shape),
        x[:],
        x.movedim(1, -1).contiguous().movedim(-1, 1),
    ),
    "mixed": lambda x: (
        x + x.contiguous(),
        x.contiguous(memory_format=last) * 2,
        torch.cat([x, x.clone(memory_format=plain)]),
        torch.where(x > 3, x, x.contiguous()),
        x.sum(1, keepdim=True),
    ),
}


@pytest.mark.parametrize("operators", OPERATORS)
def test_strides_are_those_of_eager(backend, dynamic, operators):
    def function(*inputs):
        return [OPERATORS[operators](x) for x in inputs]

    make = lambda: [make_one() for make_one in LAYOUTS.values()]  # noqa: E731
    check_against_eager(function, make, backend, dynamic=dynamic)
