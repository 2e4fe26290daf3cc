"""Fuel: so many rewrites over all graphs of a backend, and no more."""

import threading

import pytest
import torch

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.debug.fuel import Fuel
from xpu_graph.testing import check_against_eager


def function(x):
    y = x * 1 - 0
    torch._dynamo.graph_break()
    return (y / 1).sin() + (y / 1).sin()


def applied(backend):
    graphs = [graph for report in backend.reports for graph in report.graphs]
    return sum(record.applied for graph in graphs for record in graph.passes.values())


def run(backend):
    check_against_eager(function, lambda: [torch.ones(3)], backend, fullgraph=False)
    return applied(backend)


def test_without_a_limit_all_fire():
    assert run(XpuGraph(XpuGraphConfig())) > 3


@pytest.mark.parametrize("amount", [0, 1, 2, 3])
def test_a_limit_counts_over_all_graphs(monkeypatch, amount):
    monkeypatch.setenv("XPUGRAPH_FUEL", str(amount))
    backend = XpuGraph(XpuGraphConfig())
    assert run(backend) == amount
    reasons = [
        reason
        for report in backend.reports
        for graph in report.graphs
        for record in graph.passes.values()
        for reason in record.refused
    ]
    assert "out of fuel" in reasons


def test_a_limit_given_as_an_option_counts_over_all_graphs():
    backend = XpuGraph(XpuGraphConfig())
    compiled = torch.compile(function, backend=backend, options={"fuel": 2})
    with torch.no_grad():
        compiled(torch.ones(3))
    assert len(backend.reports) == 2 and applied(backend) == 2


def test_what_was_made_with_little_fuel_is_not_kept():
    for fuel in (0, None):
        backend = XpuGraph(XpuGraphConfig(fuel=fuel))
        run(backend)
        assert not any(
            graph.cache == "hit" for report in backend.reports for graph in report.graphs
        )


def test_threads_share_it():
    fuel = Fuel(500)
    allowed = []

    def take():
        allowed.extend(fuel.allow_rewrite(None, "any") for _ in range(100))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(allowed) == 500 and fuel.left == 0
