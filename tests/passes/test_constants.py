import pytest
import torch

from xpu_graph.passes.constants import ConstantMap, drop_unused_constants, evaluate
from xpu_graph.passes.rewriter import Rewriter


@pytest.fixture
def constants_of(trace):
    """The names of the constant nodes of a function, its inputs named in ``sources`` included."""

    def constants_of(function, *inputs, sources=(), limit=1 << 20):
        unit = trace(function, *inputs)
        unit.rewriter = Rewriter(unit)
        found = ConstantMap(unit, frozenset(sources), limit)
        return {node.name for node in unit.gm.graph.nodes if node in found}

    return constants_of


def test_made_from_nothing_and_from_sources(constants_of):
    def function(x, w):
        return x + torch.arange(3).neg() + w.t().sin()

    inputs = torch.ones(3, 3), torch.ones(3, 3)
    assert constants_of(function, *inputs) == {"arange", "neg"}
    assert constants_of(function, *inputs, sources=["w_1"]) == {"arange", "neg", "w_1", "t", "sin"}


def test_random_and_what_reads_it_is_not(constants_of):
    assert constants_of(lambda x: x + torch.rand(3).neg(), torch.ones(3)) == set()


def test_uninitialised_is_not(constants_of):
    assert constants_of(lambda x: x + torch.empty(3).neg(), torch.ones(3)) == set()


def test_written_is_not(constants_of):
    def function(x):
        y = torch.zeros(3)
        y.view(-1).add_(x)
        return y + torch.ones(3)

    assert constants_of(function, torch.ones(3)) == {"ones"}


def test_a_written_source_is_not(constants_of):
    def function(w):
        w.add_(1)
        return w.sin()

    assert constants_of(function, torch.ones(3), sources=["w_1"]) == set()


def test_returned_is_not(constants_of):
    def function(x):
        y = torch.arange(6).neg()
        return y.view(2, 3), x + torch.arange(6)

    assert constants_of(function, torch.ones(6)) == {"arange", "arange_1"}


def test_large_results_are_not_unless_their_sources_are_as_large(constants_of):
    def function(x):
        return x + torch.arange(4).expand(100, 4).clone() + torch.arange(4).neg()

    assert constants_of(function, torch.ones(100, 4), limit=64) == {"arange", "arange_1", "neg"}

    def of_source(x, w):
        return x + w.sin() + w.expand(2, 3, 4).clone()

    names = constants_of(of_source, torch.ones(3, 4), torch.ones(3, 4), sources=["w_1"], limit=0)
    assert names == {"w_1", "sin"}


def test_evaluate_runs_on_real_tensors_under_a_fake_mode(trace):
    unit = trace(lambda x: x + torch.arange(3).sort(descending=True)[0], torch.ones(3))
    unit.rewriter = Rewriter(unit)
    (node,) = [n for n in unit.gm.graph.nodes if n.name == "getitem"]
    with unit.rewriter.fake_mode:
        value = evaluate(node, unit, {})
    assert value.tolist() == [2, 1, 0]


def test_drop_unused_constants():
    graph = torch.fx.Graph()
    graph.output(graph.get_attr("used"))
    gm = torch.fx.GraphModule({"used": torch.ones(1)}, graph)
    gm.register_buffer("unused", torch.ones(1))
    gm.register_parameter("also_unused", torch.nn.Parameter(torch.ones(1)))
    gm.plain = torch.ones(1)
    drop_unused_constants(gm)
    assert [name for name in ("used", "unused", "also_unused", "plain") if hasattr(gm, name)] == [
        "used"
    ]
