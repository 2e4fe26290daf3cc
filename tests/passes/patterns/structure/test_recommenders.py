"""What a recommender holds of each structure, and that all of it is found.

Not found, and why: Dcn joins slices beside other operands, and would copy them twice; a PReLU in
Din has a slope of its own; embeddings of wide & deep that are joined are stacked, too, so that each
is needed; one table for all fields, as in MMoE, is one embedding already.
"""

import pytest
import torch

from tests.passes.patterns.stand_ins import implemented
from tests.zoo import build
from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.testing import assert_same

ALL = (
    "DenseLayer",
    "DenseTower",
    "EmbeddingBundle",
    "ParallelLinears",
    "SliceCat",
    "SliceStackSum",
)
TOGETHER = {
    "dlrm": {"DenseTower": 2, "EmbeddingBundle": 1},
    "dcn": {"DenseTower": 1, "DenseLayer": 1, "EmbeddingBundle": 1},
    "mmoe": {"DenseTower": 5, "SliceCat": 2, "SliceStackSum": 1},
    "din": {"DenseTower": 1, "DenseLayer": 1, "EmbeddingBundle": 3},
    "wide-deep": {"DenseTower": 3, "EmbeddingBundle": 1},
}
ALONE = {
    "dlrm": {"DenseLayer": 5},
    "dcn": {"DenseLayer": 2, "ParallelLinears": 1},
    "mmoe": {"DenseLayer": 7, "ParallelLinears": 1},
    "din": {"DenseLayer": 3},
    "wide-deep": {"DenseLayer": 6},
}
"""Without the larger one: towers are layers, and layers of one input are taken first."""


@pytest.mark.parametrize("name", TOGETHER)
def test_all_are_found(name):
    assert counts(name, ALL) == TOGETHER[name]


@pytest.mark.parametrize("name", ALONE)
def test_what_is_found_without_towers(name):
    assert counts(name, ("DenseLayer", "ParallelLinears")) == ALONE[name]


def counts(name, structures):
    """How many operators of each structure a compiled model calls; its results are eager's."""
    sample = build(name)
    torch.compiler.reset()
    backend = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False))
    with implemented(*structures), torch.no_grad():
        got = torch.compile(sample.model, backend=backend, fullgraph=True)(**sample.small)
        assert_same(got, sample.model(**sample.small), bitwise=False, rtol=1e-4, atol=1e-5)
    (graph,) = backend.reports[-1].graphs
    calls = {structure: graph.after[f"stand_in.{structure}.default"] for structure in structures}
    return {structure: count for structure, count in calls.items() if count}
