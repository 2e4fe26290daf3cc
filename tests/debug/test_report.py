"""The report: counts that are right, and a text for people."""

import torch

from xpu_graph import XpuGraph, XpuGraphConfig, recent_reports
from xpu_graph.debug.report import KEPT_REPORTS, CompileReport, GraphReport, count_calls, remember
from xpu_graph.testing import capture


def function(x):
    return x.sin() * 1 + x.sin() * 1, x * 1


def compiled(backend, program=function, **options):
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(program, backend=backend, **options)(torch.ones(3))
    return backend.reports[-1]


def test_counts():
    (graph,) = compiled(XpuGraph(XpuGraphConfig())).graphs
    assert graph.before == {
        "aten.sin.default": 2,
        "aten.mul.Tensor": 3,
        "aten.add.Tensor": 1,
    }
    assert graph.after == {"aten.sin.default": 1, "aten.add.Tensor": 1, "aten.mul.Tensor": 1}
    assert graph.rounds in (2, 3)
    last = graph.passes["reinplace"]
    assert last.runs == 1
    assert all(r.runs == graph.rounds for r in graph.passes.values() if r is not last)
    assert graph.passes["cse"].applied >= 1
    refused = [reason for record in graph.passes.values() for reason in record.refused]
    assert any("an output would be" in reason for reason in refused)
    assert set(graph.seconds) >= {"key", "load", "passes", "store"}


def test_a_hit_ran_no_pass():
    first = compiled(XpuGraph(XpuGraphConfig()))
    second = compiled(XpuGraph(XpuGraphConfig()))
    assert (first.graphs[0].cache, second.graphs[0].cache) == ("miss", "hit")
    assert not second.graphs[0].passes and "passes" not in second.graphs[0].seconds
    assert compiled(XpuGraph(XpuGraphConfig(enable_cache=False))).graphs[0].cache == "off"


def test_the_text_names_what_happened():
    report = compiled(XpuGraph(XpuGraphConfig()))
    text = str(report)
    (graph,) = report.graphs
    for word in (graph.name, "inference", "miss", "aten.sin.default", "2 ->     1", *graph.passes):
        assert word in text
    assert max(map(len, text.splitlines())) < 160


def test_an_empty_report_is_readable():
    assert str(CompileReport("none")).startswith("xpu_graph for none")
    assert str(GraphReport("graph", "forward")) == "graph (forward), cache: off"


def test_notes_say_what_froze():
    backend = XpuGraph(XpuGraphConfig(freeze=True))
    torch._dynamo.reset()
    model = torch.nn.Linear(3, 3)
    with torch.no_grad():
        torch.compile(model, backend=backend)(torch.ones(1, 3))
    assert "depend on frozen parameters alone" in str(backend.reports[-1])


def test_recent_reports_are_bounded_and_in_order():
    made = [CompileReport(str(number)) for number in range(KEPT_REPORTS + 3)]
    for report in made:
        remember(report)
    assert recent_reports() == made[3:]
    backend = XpuGraph(XpuGraphConfig())
    assert recent_reports()[-1] is not None
    assert compiled(backend) is recent_reports()[-1]


def test_calls_are_counted_by_operator():
    (unit,) = capture(lambda x: (x + 1) + 2 * x, torch.ones(3))
    assert count_calls(unit.gm) == {"aten.add.Tensor": 2, "aten.mul.Tensor": 1}


def test_a_miss_is_named():
    def function(x):
        return x.clone()

    backend = XpuGraph(XpuGraphConfig(enable_cache=False))
    with torch.no_grad():
        torch.compile(function, backend=backend)(torch.ones(3))
    (graph,) = backend.reports[-1].graphs
    record = graph.passes["fold_copies"]
    ((reason, times),) = record.refused.items()
    assert times == 1
    assert record.misses[reason].startswith("clone (from ")
    assert "return x.clone()" in record.misses[reason]
    assert f"refused 1x: {reason}\n        at clone (from" in str(graph)
