"""Models and training steps for the ranks, and their comparison with eager."""

import contextlib

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.nn import functional

from xpu_graph import XpuGraph, XpuGraphConfig, XpuGraphLocalCache
from xpu_graph.testing import assert_same

STEPS = 10


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 2 * width)
        self.down = torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(functional.gelu(self.up(self.norm(x * 1))) - 0)


class Net(torch.nn.Module):
    """Blocks between two layers; with ``unused`` a layer that gets no gradient."""

    def __init__(self, width=16, blocks=2, unused=False):
        super().__init__()
        self.enter = torch.nn.Linear(width, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(blocks))
        self.head = torch.nn.Linear(width, 4)
        self.unused = torch.nn.Linear(width, width) if unused else None

    def forward(self, x):
        x = self.enter(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Wide(Net):
    """With layers of 1 MiB, which fill a bucket each: the smallest that torch has."""

    def __init__(self, unused=False):
        super().__init__(blocks=1, unused=unused)
        self.enter = torch.nn.Sequential(
            torch.nn.Linear(16, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 512),
            torch.nn.Linear(512, 16),
        )


OPTIMISERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
}


def whole(tensor):
    """A copy of a tensor, of its pieces on all ranks where it is distributed."""
    if tensor is None:
        return None
    if isinstance(tensor, DTensor):
        tensor = tensor.full_tensor()
    return tensor.detach().clone()


def train(model, call, optimiser, data_rank, steps=STEPS):
    """Losses and gradients of some steps, then the parameters.

    Args:
        model: owns the parameters.
        call: what is called: the model, or it compiled.
        optimiser: a name in ``OPTIMISERS``.
        data_rank: which part of the data this rank learns from.
        steps: how many.
    """
    updates = OPTIMISERS[optimiser](model.parameters())
    seen = []
    for step in range(steps):
        generator = torch.Generator().manual_seed(10 * step + data_rank)
        x = torch.randn(6, 16, generator=generator)
        wanted = torch.randint(0, 4, (6,), generator=generator)
        loss = functional.cross_entropy(call(x).float(), wanted)
        updates.zero_grad()
        loss.backward()
        seen.append((loss.detach().clone(), [whole(p.grad) for p in model.parameters()]))
        updates.step()
    return seen, [whole(p) for p in model.parameters()]


def compare(
    make,
    *,
    compiler=None,
    optimiser="sgd",
    is_data_parallel=True,
    cache=None,
    fields=None,
    around=contextlib.nullcontext,
    steps=STEPS,
    rtol=1e-5,
    atol=1e-6,
):
    """Train compiled and eagerly, and compare everything.

    Args:
        make: gives a model on this rank; called twice, with one seed.
        compiler: gets the model and a backend, returns what is called instead of it; by default
            the whole model is compiled.
        optimiser: a name in ``OPTIMISERS``.
        is_data_parallel: whether each rank has data of its own.
        cache: a directory for artifacts.
        fields: fields of the configuration.
        around: gives a context in which the compiled side runs.
        steps: how many steps are made.
        rtol: how far numbers may be apart, relatively.
        atol: and absolutely.

    Returns:
        For each compiled graph its stage, its cache key and whether it was a hit.
    """
    backend = XpuGraph(
        XpuGraphConfig(**{"opt_level": "level2", **(fields or {})}),
        XpuGraphLocalCache(cache) if cache else None,
    )
    compiler = compiler or (lambda model, backend: torch.compile(model, backend=backend))
    results = []
    for is_compiled in (True, False):
        torch.manual_seed(0)
        model = make()
        call = compiler(model, backend) if is_compiled else model
        with around() if is_compiled else contextlib.nullcontext():
            data_rank = dist.get_rank() if is_data_parallel else 0
            results.append(train(model, call, optimiser, data_rank, steps))
    assert_same(*results, bitwise=False, rtol=rtol, atol=atol)
    reports = [graph for report in backend.reports for graph in report.graphs]
    return [(graph.stage, graph.key, graph.cache) for graph in reports]
