"""Recommenders where nobody implements towers; docs/patterns.md says what is found where all do."""

import pytest
import torch

from tests.passes.patterns.stand_ins import implemented
from tests.zoo import build
from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.testing import assert_same

ALONE = {
    "dlrm": {"DenseLayer": 5},
    "dcn": {"DenseLayer": 2, "ParallelLinears": 1},
    "mmoe": {"DenseLayer": 7, "ParallelLinears": 1},
    "din": {"DenseLayer": 3},
    "wide-deep": {"DenseLayer": 6},
}
"""Towers are layers then, and layers of one input are taken first."""


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
