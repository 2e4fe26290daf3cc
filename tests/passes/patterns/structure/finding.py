"""Compile a function with one structure implemented by its stand-in, and compare it with eager."""

import copy
from dataclasses import dataclass

import torch

from tests.passes.patterns.stand_ins import implemented
from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.testing import check_against_eager

TOLERANCES = {
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
    torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
    torch.float16: {"rtol": 5e-3, "atol": 5e-3},
}


@dataclass
class Found:
    """What became of one compilation.

    Attributes:
        applied: how often the structure was replaced.
        reasons: why it was not, elsewhere.
        after: calls by operator.
    """

    applied: int
    reasons: str
    after: dict


def found(name, function, *inputs, dynamic=None, **tolerances):
    """What is found of a structure in a function, whose results must be eager's.

    Args:
        name: the structure.
        function: of the inputs; it is called with copies of them.
        inputs: tensors.
        dynamic: as for ``torch.compile``.
        tolerances: where those for the inputs' dtypes will not do.
    """
    if not tolerances:
        known = [TOLERANCES[one.dtype] for one in inputs if one.dtype in TOLERANCES]
        tolerances = known[0] if known else {"rtol": 1e-5, "atol": 1e-5}
    backend = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False, verify="each"))
    with implemented(name):
        check_against_eager(
            function,
            lambda: copy.deepcopy(inputs),
            backend,
            calls=1,
            dynamic=dynamic,
            bitwise=False,
            **tolerances,
        )
    (graph,) = backend.reports[-1].graphs
    (record,) = [
        one for key, one in graph.passes.items() if key.startswith(f"{name}-") and "stand_in" in key
    ]
    return Found(record.applied, " | ".join(record.refused), graph.after)


def find(name, function, *inputs, dynamic=None, **tolerances):
    """How often a structure is found, and the set of reasons why it is not; see ``found``."""
    done = found(name, function, *inputs, dynamic=dynamic, **tolerances)
    return done.applied, set(done.reasons.split(" | ")) - {""}
