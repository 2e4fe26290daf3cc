import pytest
import torch

from xpu_graph.passes.rewriter import Rewriter
from xpu_graph.passes.stand_ins import fill_in, stand_in
from xpu_graph.testing import assert_same, capture

aten = torch.ops.aten


@pytest.fixture
def replaced(trace):
    """Let the second argument of a ``where`` stand in for it."""

    def replaced(function, *inputs, cast=True):
        unit = trace(function, *inputs)
        unit.rewriter = Rewriter(unit)
        (node,) = unit.gm.graph.find_nodes(op="call_function", target=aten.where.self)
        done = stand_in(node, node.args[1], unit, cast=cast)
        unit.gm.recompile()
        return unit, done

    return replaced


X = torch.arange(3.0)
FORMS = {
    "as it is": (lambda x: torch.where(x >= 0, x.neg(), x).sin(), set()),
    "broadcast": (
        lambda x: torch.where(x.view(3, 1) >= 0, x, x),
        {"aten.expand.default", "aten.clone.default"},
    ),
    "cast": (lambda x: torch.where(x >= 0, x, x.double()), {"aten._to_copy.default"}),
    "both": (
        lambda x: torch.where(x.view(3, 1) >= 0, x, x.double()),
        {"aten.expand.default", "aten._to_copy.default"},
    ),
    "one more dimension": (
        lambda x: torch.where(x.view(1, 3) >= 0, x, x),
        {"aten.expand.default", "aten.clone.default"},
    ),
}


@pytest.mark.parametrize(("function", "added"), FORMS.values(), ids=FORMS)
def test_stands_in(replaced, function, added):
    unit, done = replaced(function, X)
    assert done
    targets = {str(node.target) for node in unit.gm.graph.nodes if node.op == "call_function"}
    assert added <= targets
    assert "aten.where.self" not in targets
    assert_same(unit.gm(X), function(X))


def test_dtypes_are_kept_where_nothing_is_cast(replaced):
    unit, done = replaced(lambda x: torch.where(x >= 0, x, x.double()), X, cast=False)
    assert not done
    ((_, reason),) = unit.rewriter.refusals
    assert reason.startswith("dtype")


def test_symbolic_sizes():
    (unit,) = capture(lambda x, y: x * y, torch.ones(3), torch.ones(4, 1), dynamic=True)
    unit.rewriter = Rewriter(unit)
    (node,) = unit.gm.graph.find_nodes(op="call_function", target=aten.mul.Tensor)
    assert not stand_in(node, node.args[0], unit)
    assert fill_in(node, 0, unit) is None
    assert unit.rewriter.refusals.total() == 2
    assert {reason for _, reason in unit.rewriter.refusals} == {"a size is symbolic"}


def test_fill_in(trace):
    unit = trace(lambda x: (x > 1, x.long() + 1), X)
    unit.rewriter = Rewriter(unit)
    (greater,) = unit.gm.graph.find_nodes(op="call_function", target=aten.gt.Scalar)
    (add,) = unit.gm.graph.find_nodes(op="call_function", target=aten.add.Tensor)
    assert fill_in(greater, 2, unit).args == ([3], True)
    assert fill_in(add, float("nan"), unit) is None
    assert fill_in(add, 2.5, unit).args == ([3], 2)
