"""Run by ``test_warm_start.py`` in processes of their own: compile programs, say what happened."""

import json
import sys

import torch
from torch import nn

from xpu_graph.compiler import XpuGraph
from xpu_graph.config import XpuGraphConfig
from xpu_graph.testing import assert_same


class Model(nn.Module):
    def __init__(self, weight=0.5, constant=1.0):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        nn.init.constant_(self.linear.weight, weight)
        nn.init.constant_(self.linear.bias, 0.25)
        self.constant = constant

    def forward(self, x):
        hidden = (self.linear(x) * 1 + torch.tensor([self.constant, 2.0, 3.0, 4.0])).sin()
        return hidden, hidden.mean(dim=0)


def batch(rows):
    return torch.arange(3.0 * rows).view(rows, 3) / 10


def run(name, model, rows, dynamic=False, **config):
    torch._dynamo.reset()
    backend = XpuGraph(XpuGraphConfig(**config))
    compiled = torch.compile(model, backend=backend, dynamic=dynamic, fullgraph=True)
    on_cpu = config.get("target") == "cpu"
    tolerances = {"bitwise": False, "rtol": 1e-4, "atol": 1e-5} if on_cpu else {}
    for count in rows:
        x = batch(count)
        assert_same(compiled(x), model(x), f"{name} with {count} rows", **tolerances)
    return told_by(backend)


def train(name, rows, dynamic=False, **config):
    """Some steps of a compiled model and of its twin; gradients and parameters agree."""
    torch._dynamo.reset()
    backend = XpuGraph(XpuGraphConfig(**config))
    eager, mine = Model(), Model()
    compiled = torch.compile(mine, backend=backend, dynamic=dynamic, fullgraph=True)
    optimisers = [torch.optim.AdamW(m.parameters(), lr=0.1) for m in (eager, mine)]
    for count in rows:
        for forward, optimiser in zip((eager, compiled), optimisers, strict=True):
            optimiser.zero_grad()
            sum(out.square().sum() for out in forward(batch(count))).backward()
            optimiser.step()
        how = {"bitwise": False, "rtol": 1e-3, "atol": 1e-4}
        for left, right in zip(mine.parameters(), eager.parameters(), strict=True):
            assert_same(left.grad, right.grad, f"{name}: a gradient with {count} rows", **how)
            assert_same(left.detach(), right.detach(), f"{name} after {count} rows", **how)
    return told_by(backend)


def told_by(backend):
    """What the reports say of the graphs that are kept; a joint graph is not."""
    graphs = [g for report in backend.reports for g in report.graphs if g.stage != "joint"]
    return {
        "cache": [graph.cache for graph in graphs],
        "rounds": sum(graph.rounds for graph in graphs),
        "steps": sorted({step for graph in graphs for step in graph.seconds}),
        "keys": [graph.key for graph in graphs],
    }


CPU = {"target": "cpu", "vendor_compiler_config": {}}

PROGRAMS = {
    "none": lambda: run("none", Model(), [2]),
    "none dynamic": lambda: run("none dynamic", Model(), [2, 5, 7], dynamic=True),
    "none frozen": lambda: run("none frozen", Model(), [2], freeze=True),
    "none other constant": lambda: run("none other constant", Model(constant=-1.0), [2]),
    "none other weight": lambda: run("none other weight", Model(weight=-0.5), [2], freeze=True),
    "cpu": lambda: run("cpu", Model(), [2], **CPU),
    "cpu frozen": lambda: run("cpu frozen", Model(), [2], freeze=True, **CPU),
    "cpu beyond": lambda: run("cpu beyond", Model(), [2, 7, 5000], dynamic=True, **CPU),
    "training": lambda: train("training", [2, 2]),
    "training dynamic": lambda: train("training dynamic", [2, 5, 7], dynamic=True),
    "training cpu": lambda: train("training cpu", [2, 2], **CPU),
    "training cpu dynamic": lambda: train("training cpu dynamic", [2, 7], dynamic=True, **CPU),
    "cpu above": lambda: run("cpu above", Model(), [5000, 7, 2], dynamic=True, **CPU),
}


if __name__ == "__main__":
    told = {}
    for program in sys.argv[1:]:
        with torch.set_grad_enabled(program.startswith("training")):
            told[program] = PROGRAMS[program]()
    sys.stdout.write(json.dumps(told))
