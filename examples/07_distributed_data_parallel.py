"""Data parallel training on two processes of this machine, compiled and not, over gloo.

    python examples/07_distributed_data_parallel.py [--ranks N] [--steps N]

Each process learns from data of its own; DistributedDataParallel averages the gradients. The
processes share one cache: what one of them has compiled, the others load.

On a cluster the same ``work`` is started by torchrun, which sets the rank and the address; then
``dist.init_process_group()`` needs no arguments.
"""

import argparse
import logging
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from xpu_graph import OptLevel, XpuGraph, XpuGraphConfig, XpuGraphLocalCache


class Model(torch.nn.Module):
    """A small classifier; its layers are large enough to fill two buckets of 1 MiB."""

    def __init__(self):
        super().__init__()
        self.enter = torch.nn.Linear(32, 512)
        self.middle = torch.nn.Linear(512, 512)
        self.deep = torch.nn.Linear(512, 512)
        self.leave = torch.nn.Linear(512, 2)

    def forward(self, x):
        """The logits of the two classes."""
        x = torch.relu(self.enter(x))
        x = torch.relu(self.middle(x))
        return self.leave(torch.relu(self.deep(x)))


def batch(step, rank):
    """Points, and whether their first half weighs more than their second; other ones each time."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    x = torch.randn(64, 32, generator=generator)
    return x, (x[:, :16].sum(1) > x[:, 16:].sum(1)).long()


def train(compiled_by, steps):
    """Train a fresh model; returns the losses, averaged over the ranks."""
    torch.manual_seed(0)
    model = DistributedDataParallel(Model(), bucket_cap_mb=1)
    step_of = torch.compile(model, backend=compiled_by) if compiled_by is not None else model
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        x, wanted = batch(step, dist.get_rank())
        loss = torch.nn.functional.cross_entropy(step_of(x), wanted)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean / dist.get_world_size())
    return torch.stack(losses)


def work(rank, ranks, steps, place):
    """What each process does."""
    torch._logging.set_logs(dynamo=logging.ERROR)  # DDP marks a range for profilers: no news
    torch.set_num_threads(1)
    store = dist.FileStore(str(pathlib.Path(place) / "store"), ranks)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    cache = XpuGraphLocalCache(pathlib.Path(place) / "cache")
    backend = XpuGraph(XpuGraphConfig(is_training=True, opt_level=OptLevel.level2), cache)

    eager = train(None, steps)
    compiled = train(backend, steps)
    torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5)

    graphs = [graph for report in backend.reports for graph in report.graphs if graph.key]
    made = sum(graph.cache == "miss" for graph in graphs)
    told = [None] * ranks
    dist.all_gather_object(told, ([graph.key for graph in graphs], made))
    if rank == 0:
        report_on(backend, told, eager, compiled)
    dist.destroy_process_group()


def report_on(backend, told, eager, compiled):
    """Print what the job did."""
    print(f"{len(told)} ranks, {len(eager)} steps; mean loss of all ranks:")
    for step in sorted({0, len(eager) // 2, len(eager) - 1}):
        print(f"  step {step:3d}   eager {eager[step]:.6f}   compiled {compiled[step]:.6f}")
    print(f"Dynamo cut the model into {len(backend.reports)} graphs, where a bucket is full.")
    for rank, (keys, made) in enumerate(told):
        print(f"  rank {rank}: compiled {made} of {len(keys)} forward and backward graphs itself")
    if any(keys != told[0][0] for keys, _ in told):
        raise SystemExit("the ranks have different keys")
    print("Every rank has the same keys, and the losses are eager's.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    if not (dist.is_available() and dist.is_gloo_available()):
        raise SystemExit("this build of torch has no gloo")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as place:
        mp.spawn(work, (arguments.ranks, arguments.steps, place), nprocs=arguments.ranks)


if __name__ == "__main__":
    main()
