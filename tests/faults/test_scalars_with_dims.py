"""Operators that name a dimension take tensors of none, too: 0 and -1 are then legal."""

import pytest
import torch
from torch.nn import functional

from xpu_graph.testing import check_against_eager

aten = torch.ops.aten

PROGRAMS = {
    "flip": lambda x, d: x.flip(d),
    "roll": lambda x, d: x.roll(1),
    "sum": lambda x, d: x.sum(d),
    "sum kept": lambda x, d: x.sum(d, keepdim=True),
    "mean": lambda x, d: x.mean(d),
    "amax": lambda x, d: x.amax(d),
    "max": lambda x, d: x.max(d),
    "median": lambda x, d: x.median(d),
    "prod": lambda x, d: x.prod(d),
    "var": lambda x, d: x.var(d, unbiased=False),
    "logsumexp": lambda x, d: x.logsumexp(d),
    "argmax": lambda x, d: x.argmax(d),
    "any": lambda x, d: x.any(d),
    "all": lambda x, d: x.all(d),
    "norm": lambda x, d: torch.linalg.vector_norm(x, dim=d),
    "cumsum": lambda x, d: x.cumsum(d),
    "cumprod": lambda x, d: x.cumprod(d),
    "cummax": lambda x, d: x.cummax(d),
    "softmax": lambda x, d: x.softmax(d),
    "log_softmax": lambda x, d: x.log_softmax(d),
    "squeeze": lambda x, d: x.squeeze(d) + x.squeeze(),
    "unsqueeze": lambda x, d: x.unsqueeze(d).squeeze(d).sin(),
    "transpose": lambda x, d: (
        x.transpose(d, d) + x.t() + x.mT if x.dim() > 1 else x.transpose(d, d)
    ),
    "permute": lambda x, d: x.permute(()),
    "movedim": lambda x, d: x.movedim(d, d),
    "sort": lambda x, d: x.sort(d),
    "topk": lambda x, d: x.topk(1, d),
    "gather": lambda x, d: x.gather(d, torch.zeros((), dtype=torch.int64)),
    "index_select": lambda x, d: x.index_select(d, torch.zeros(1, dtype=torch.int64)),
    "index_fill": lambda x, d: x.index_fill(d, torch.zeros(1, dtype=torch.int64), 2.0),
    "scatter": lambda x, d: x.scatter(d, torch.zeros((), dtype=torch.int64), 2.0),
    "index_add": lambda x, d: x.index_add(d, torch.zeros(1, dtype=torch.int64), x.view(1)[0]),
    "expand": lambda x, d: x.expand(()) + x.expand(3).sum(d),
    "reshape": lambda x, d: x.reshape(()).view(1).view(()),
    "stack": lambda x, d: torch.stack([x, x], d).sum(d),
    "renorm": lambda x, d: functional.normalize(x, dim=d),
    "glu of two": lambda x, d: functional.glu(torch.stack([x, x]), d),
    "unfold": lambda x, d: x.unfold(d, 1, 1),
    "diff": lambda x, d: torch.stack([x, x]).diff(dim=d),
    "tensor_split": lambda x, d: torch.stack([x, x]).tensor_split(2, d),
    "repeat": lambda x, d: x.repeat(()) + x.repeat(1),
    "tile": lambda x, d: x.tile(()),
    "to and fro": lambda x, d: x.double().float().clone().contiguous(),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_tensors_without_dimensions(program):
    def both(x):
        return program(x.sin(), 0), program(x.cos(), -1)

    check_against_eager(both, lambda: [torch.full((), 0.5)], calls=1, fullgraph=False)
