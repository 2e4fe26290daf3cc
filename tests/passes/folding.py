"""One pass on a traced function, compared with eager to the last bit."""

import itertools

import torch

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.passes import DEFAULT_PASSES
from xpu_graph.testing import assert_same, run_passes

NAN, INF = float("nan"), float("inf")
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
DTYPES = [*FLOATS, *INTEGERS, torch.bool, torch.complex64]

_NUMBERS = [1.5, 0.0, -0.0, NAN, INF, -INF, 1e-45, -3.0, 6e-8, -1e-30, 300.0]


def special(dtype, length=37):
    """Numbers that go wrong first; long enough for vector instructions and a rest."""
    if dtype == torch.bool:
        numbers = [True, False, False]
    elif dtype.is_complex:
        numbers = [complex(a, b) for a, b in itertools.product(_NUMBERS[:6], _NUMBERS[:6])]
    elif dtype.is_floating_point:
        numbers = _NUMBERS
    else:
        limits = torch.iinfo(dtype)
        numbers = [limits.min, limits.max, 0, 1, 2, limits.max // 2 + 1, limits.max - 1]
    repeated = list(itertools.islice(itertools.cycle(numbers), length))
    if dtype.is_floating_point:
        return torch.tensor(repeated, dtype=torch.float64).to(dtype)
    return torch.tensor(repeated, dtype=dtype)


def folded(trace, pass_, function, *inputs, **config):
    """What a pass did to a function of tensors, whose results must stay what they are.

    Args:
        trace: the fixture.
        pass_: the pass, verified after each round.
        function: what to trace.
        inputs: what to call it with.
        config: see ``run_passes``.
    """
    unit = trace(function, *inputs)
    run = run_passes([pass_], unit, **config)
    assert_same(unit.gm(*[t.clone() for t in inputs]), function(*[t.clone() for t in inputs]))
    return run


def alone(pass_):
    """A backend that runs no other pass."""
    others = tuple(other.name for other in DEFAULT_PASSES if other is not pass_)
    return XpuGraph(XpuGraphConfig(verify="each", enable_cache=False, skip_patterns=others))
