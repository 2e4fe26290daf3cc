"""What a structure means may implement it: the passes come to rest, with eager's numbers."""

import pytest
import torch

from xpu_graph import XpuGraph, XpuGraphConfig, register_structure, unregister_structure
from xpu_graph.passes.patterns.structure import STRUCTURES
from xpu_graph.testing import check_against_eager


@pytest.mark.parametrize(
    "name",
    [
        "DenseLayer",
        "DenseTower",
        "EmbeddingBundle",
        "ParallelLinears",
        "SliceCat",
        "SliceStackSum",
    ],
)
def test_a_reference_as_the_implementation(name):
    structure = STRUCTURES[name]
    torch.manual_seed(0)
    examples = structure.examples()
    backend = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False, verify="each"))
    register_structure(name, "none", structure.reference)
    try:
        check_against_eager(
            structure.reference,
            lambda: examples,
            backend,
            calls=1,
            bitwise=False,
            rtol=1e-5,
            atol=1e-5,
        )
    finally:
        unregister_structure(name, "none", structure.reference)
    (graph,) = backend.reports[-1].graphs
    assert graph.rounds < 5
