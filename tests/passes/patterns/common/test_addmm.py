"""Products and sums in one, as on a target where that pays."""

import pytest
import torch

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.passes.patterns.common.addmm import ADDMM, BADDBMM
from xpu_graph.testing import assert_same

A, B, ROW = torch.randn(4, 8), torch.randn(8, 6), torch.randn(6)
X = torch.randn(2, 3, 8)


@pytest.fixture(autouse=True)
def _on(monkeypatch):
    for pattern in (ADDMM, BADDBMM):
        monkeypatch.setattr(pattern, "wanted", lambda config: True)


@pytest.mark.parametrize("target", ["none", "cpu"])
def test_off_where_torchs_cpu_kernels_run(target, monkeypatch):
    monkeypatch.undo()
    assert compiled("common-addmm", FIRES["row"][0], A, B, ROW, target=target) is None


def compiled(name, function, *inputs, dynamic=None, level="level2", target="none"):
    """What the pattern did; the results must be those of eager."""
    config = XpuGraphConfig(target=target, opt_level=level, enable_cache=False, verify="each")
    backend = XpuGraph(config)
    torch.compiler.reset()
    with torch.no_grad():
        got = torch.compile(function, backend=backend, dynamic=dynamic)(*inputs)
    assert_same(got, function(*inputs), bitwise=False, rtol=1e-4, atol=1e-4)
    return backend.reports[-1].graphs[0].passes.get(name)


FIRES = {
    "row": (lambda a, b, c: a @ b + c, (A, B, ROW)),
    "row first": (lambda a, b, c: c + a @ b, (A, B, ROW)),
    "matrix": (lambda a, b, c: a @ b + c, (A, B, torch.randn(4, 6))),
    "column": (lambda a, b, c: a @ b + c, (A, B, torch.randn(4, 1))),
    "one more dimension": (lambda a, b, c: a @ b + c, (X, B, ROW)),
    "half": (lambda a, b, c: a @ b + c, (A.bfloat16(), B.bfloat16(), ROW.bfloat16())),
}


@pytest.mark.parametrize(("function", "inputs"), FIRES.values(), ids=FIRES)
@pytest.mark.parametrize("dynamic", [None, True])
def test_addmm(function, inputs, dynamic):
    if inputs[0].dtype == torch.bfloat16:
        inputs = tuple(one.round() for one in inputs)
    assert compiled("common-addmm", function, *inputs, dynamic=dynamic).applied == 1


def test_not_at_level1():
    assert compiled("common-addmm", FIRES["row"][0], A, B, ROW, level="level1") is None


@pytest.mark.parametrize("added", [torch.randn(5, 4, 6), torch.randn(5, 1, 6), torch.randn(6)])
def test_baddbmm(added):
    a, b = torch.randn(5, 4, 8), torch.randn(5, 8, 6)
    record = compiled("common-baddbmm", lambda a, b, c: torch.bmm(a, b) + c, a, b, added)
    assert record.applied == 1


REFUSED = {
    "a number": (lambda a, b, c: a @ b + 3.0, (A, B, ROW), "what is added is a number"),
    "integers": (
        lambda a, b, c: a @ b + c,
        (A.long(), B.long(), ROW.long()),
        "it computes with torch.int64",
    ),
    "another dtype": (
        lambda a, b, c: a @ b + c,
        (A, B, ROW.double()),
        "it computes with torch.float32, torch.float64",
    ),
    "the product is broadcast": (
        lambda a, b, c: a @ b + c,
        (A, B, torch.randn(3, 4, 6)),
        "the product is broadcast",
    ),
    "no row": (
        lambda a, b, c: a @ b + c,
        (X, B, torch.randn(3, 6)),
        "what is added to the view is no row",
    ),
    "a view that cuts the columns": (
        lambda a, b, c: (a @ b).view(4, 2, 3) + c,
        (A, B, torch.randn(3)),
        "what is added to the view is no row",
    ),
    "read elsewhere": (
        lambda a, b, c: ((a @ b).sin(), a @ b + c),
        (A, B, ROW),
        "something else reads a value inside",
    ),
}


@pytest.mark.parametrize(("function", "inputs", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(function, inputs, reason):
    record = compiled("common-addmm", function, *inputs)
    assert record.applied == 0
    assert reason in record.refused


def test_a_scaled_sum_is_another_thing():
    record = compiled("common-addmm", lambda a, b, c: torch.add(a @ b, c, alpha=2), A, B, ROW)
    assert record.applied == 0
