"""Run by test_artifacts.py in processes of its own: compile or load, run, and tell how it went.

artifact_program.py MODE CACHE_DIRECTORY [static|dynamic] [freeze] [nocompile]
"""

import json
import sys

import torch

from xpu_graph import Target, XpuGraph, XpuGraphConfig, XpuGraphLocalCache

mode, directory, *flags = sys.argv[1:]


class Model(torch.nn.Module):
    """Has what an artifact has to carry: weights, a buffer it writes to, a constant, views out."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(8))

    def forward(self, x):
        self.seen.add_(x.sum(0))
        weights = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], device=x.device)
        hidden = torch.nn.functional.silu(self.layer(x)) * weights
        return hidden + self.seen, hidden.t(), x.t(), x.shape[0]


def main():
    torch.manual_seed(0)
    expected, model = Model(), Model()
    model.load_state_dict(expected.state_dict())
    model = model.npu()
    if "nocompile" in flags:
        forbid_compiling()
    options = (
        {"compiler": "device_graph"} if mode == "device_graph" else {"compiler": "ge", "mode": mode}
    )
    config = XpuGraphConfig(
        target=Target.npu, freeze="freeze" in flags, vendor_compiler_config=options
    )
    backend = XpuGraph(config, XpuGraphLocalCache(directory))
    run = torch.compile(model, backend=backend, dynamic="dynamic" in flags or None)
    worst = 0.0
    with torch.no_grad():
        for batch in (4, 4, 6) if "dynamic" in flags else (4, 4):
            x = torch.randn(batch, 8)
            for got, want in zip(run(x.npu()), expected(x), strict=True):
                if isinstance(want, int):
                    assert got == want
                else:
                    assert got.shape == want.shape
                    worst = max(worst, (got.cpu() - want).abs().max().item())
        worst = max(worst, (model.seen.cpu() - expected.seen).abs().max().item())
    outcomes = [graph.cache for report in backend.reports for graph in report.graphs]
    print(json.dumps({"cache": outcomes, "worst": worst}))


def forbid_compiling():
    """Let every compiler of the vendor's fail."""
    from xpu_graph.backends.npu import engines, vendor

    vendor.attach()

    def compile_graph(*_):
        raise AssertionError("the vendor's compiler was called")

    engines.compile_graph = compile_graph


main()
