"""Compile with a structure implemented by its stand-in, and compare with eager."""

import torch

from tests.passes.patterns.stand_ins import implemented
from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.testing import assert_same

TOLERANCES = {
    torch.float64: {"rtol": 1e-6, "atol": 1e-7},
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.float16: {"rtol": 1e-2, "atol": 1e-2},
    torch.bfloat16: {"rtol": 5e-2, "atol": 5e-2},
}


def find(structure, function, *inputs, dynamic=None, **more):
    """How often a structure is found in a function, and the reasons why it is not.

    The results must be those of eager. ``more`` goes to ``register_structure``.
    """
    backend = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False, verify="each"))
    torch.compiler.reset()
    with torch.no_grad(), implemented(structure, **more):
        torch.manual_seed(0)
        got = torch.compile(function, backend=backend, dynamic=dynamic)(*inputs)
    torch.manual_seed(0)
    want = function(*inputs)
    first = want[0] if isinstance(want, tuple) else want
    limits = TOLERANCES.get(first.dtype, {"rtol": 0, "atol": 0})
    assert_same(got, want, bitwise=False, **limits)
    records = [
        record
        for graph in backend.reports[-1].graphs
        for name, record in graph.passes.items()
        if name.startswith(f"{structure}-") and "stand_in" in name
    ]
    reasons = {reason for record in records for reason in record.refused}
    return sum(record.applied for record in records), reasons
