"""Ten steps of every model, with every optimiser: losses, gradients and parameters are eager's."""

import pytest
import torch

from tests.training.models import MODELS
from tests.training.steps import OPTIMISERS, compare
from xpu_graph import XpuGraph, XpuGraphConfig


def backend(**fields):
    return XpuGraph(XpuGraphConfig(**{"enable_cache": False, "verify": "final", **fields}))


def made(name):
    torch.manual_seed(0)
    make, make_batch = MODELS[name]
    return make().train(), make_batch


@pytest.mark.parametrize("name", MODELS)
def test_level1_gives_the_same_bits(name):
    model, make_batch = made(name)
    made_here = backend()
    compare(model, made_here, make_batch, tuple(OPTIMISERS))
    stages = [graph.stage for report in made_here.reports for graph in report.graphs]
    assert stages == ["joint", "forward", "backward"]


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("convolutional", {"opt_level": "level2", "partition_fn": "MINCUT", "verify": "each"}),
        ("minilm", {"opt_level": "level2", "partition_fn": "MINCUT"}),
        ("llama", {"opt_level": "level3", "freeze": True}),
    ],
)
def test_level2(name, fields):
    model, make_batch = made(name)
    compare(model, backend(**fields), make_batch, bitwise=False, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["mlp", "gpt2"])
def test_sizes_that_change(name):
    model, make_batch = made(name)
    made_here = backend(opt_level="level2")

    def of_some_size(generator):
        return make_batch(generator, 2 + generator.initial_seed() % 4)

    where = {"bitwise": False, "rtol": 2e-4, "atol": 2e-5}
    compare(model, made_here, of_some_size, dynamic=True, **where)
    assert len(made_here.reports) == 1


@pytest.mark.parametrize(("name", "dynamic"), [("mlp", True), ("convolutional", False)])
def test_inductor(name, dynamic):
    model, make_batch = made(name)
    vendor = backend(target="cpu", vendor_compiler_config={})
    compare(
        model, vendor, make_batch, dynamic=dynamic, bitwise=False, rtol=1e-3, atol=1e-4, steps=4
    )
    assert not vendor.counts
