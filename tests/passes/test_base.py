import torch

from xpu_graph.passes import RewritePass
from xpu_graph.testing import run_passes

aten = torch.ops.aten


def visiting(targets, action=lambda node, unit: None):
    """A pass that notes what it visits, round by round."""
    rounds = []

    class Visit(RewritePass):
        name = "visit"

        def run(self, unit):
            rounds.append([])
            return super().run(unit)

        def visit(self, node, unit):
            rounds[-1].append(node.name)
            action(node, unit)

    Visit.targets = targets
    return Visit, rounds


def drop(node, unit):
    unit.rewriter.replace(node, node.args[0])


def test_visits_its_targets_in_graph_order(trace):
    visit, rounds = visiting(frozenset({aten.cos.default, aten.sin.default}))
    run_passes([visit], trace(lambda x: x.sin().cos().exp().sin(), torch.ones(3)))
    assert rounds == [["sin", "cos", "sin_1"]]


def test_visits_every_node_without_targets(trace):
    visit, rounds = visiting(None)
    run_passes([visit], trace(lambda x: x.sin(), torch.ones(3)))
    assert rounds == [["x_1", "sin", "output"]]


def test_visits_only_what_was_touched_from_the_second_round_on(trace):
    def function(x):
        y = x.sin().clone().cos()
        for _ in range(50):
            y = y.exp()
        return y

    targets = frozenset({aten.clone.default, aten.cos.default, aten.sin.default, aten.exp.default})
    visit, rounds = visiting(
        targets, lambda n, u: drop(n, u) if n.target is aten.clone.default else None
    )
    run = run_passes([visit], trace(function, torch.ones(3)))
    assert len(rounds[0]) == 53
    assert rounds[1] == ["sin", "cos"]
    assert run.rounds == 2


def test_reports_whether_it_changed_the_graph(trace):
    visit, _ = visiting(frozenset({aten.sin.default}))
    assert run_passes([visit], trace(lambda x: x.sin(), torch.ones(3))).rounds == 1
    visit, _ = visiting(frozenset({aten.clone.default}), drop)
    assert run_passes([visit], trace(lambda x: x.clone().sin(), torch.ones(3))).rounds == 2


def test_does_not_visit_what_died_on_the_way(trace):
    visit, rounds = visiting(
        frozenset({aten.cos.default, aten.clone.default}),
        lambda node, unit: unit.rewriter.erase(node),
    )

    def function(x):
        x.cos().clone()
        return x.sin()

    unit = trace(function, torch.ones(3))
    visit_backwards = type(
        "Backwards",
        (visit,),
        {"candidates": lambda self, unit, since: super(visit, self).candidates(unit, since)[::-1]},
    )
    run_passes([visit_backwards], unit)
    assert rounds[0] == ["clone"]
