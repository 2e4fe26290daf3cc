import pytest
import torch

from xpu_graph import XpuGraphConfig
from xpu_graph.debug.report import count_calls
from xpu_graph.fx import value_difference
from xpu_graph.passes import ConstantFolding, split_constant_part
from xpu_graph.passes.rewriter import Rewriter
from xpu_graph.testing import capture, run_passes

FREEZE = XpuGraphConfig(freeze=True, enable_cache=False)


@pytest.fixture
def split(trace):
    """Split a function whose inputs after the first are frozen, and check both parts together."""

    def split(function, *inputs, limit=1 << 20, lift=False):
        unit = trace(function, *inputs)
        names = [node.name for node in unit.gm.graph.find_nodes(op="placeholder")]
        unit.frozen = dict(zip(names[1:], inputs[1:], strict=True))
        unit.rewriter = Rewriter(unit)
        found = split_constant_part(unit, limit, lift)
        if found is not None:
            found.main.gm.graph.lint()
            given = [i.clone() for i in inputs]
            constants = found.fold(*[given[i] for i in found.frozen_inputs])
            found.main.gm.recompile()
            got = found.main.gm(*[given[i] for i in found.kept_inputs], *constants)
            torch.testing.assert_close(got, function(*[i.clone() for i in inputs]))
            placeholders = found.main.gm.graph.find_nodes(op="placeholder")
            assert len(placeholders) == len(found.main.fake_inputs)
            for node, fake in zip(placeholders, found.main.fake_inputs, strict=True):
                assert value_difference(node.meta["val"], fake) is None
        return found

    return split


X, W = torch.randn(2, 3), torch.randn(4, 3)


def test_moves_what_depends_on_frozen_inputs_alone(split):
    found = split(lambda x, w: x @ w.t().neg(), X, W)
    assert count_calls(found.fold) == {"aten.t.default": 1, "aten.neg.default": 1}
    assert count_calls(found.main.gm) == {"aten.mm.default": 1}
    assert (found.frozen_inputs, found.kept_inputs) == ([1], [0])


def test_nothing_to_move(split):
    assert split(lambda x, w: x @ w, X, torch.randn(3, 4)) is None
    assert split(lambda x: x + torch.ones(3), X) is None


def test_an_input_used_on_both_sides_stays_an_input_too(split):
    found = split(lambda x, w: (x @ w.t()) + w.sum() + x @ w.t().exp() + (x * w[0]).sum(), X, W)
    assert found.kept_inputs == [0]
    found = split(lambda x, w: (x @ w.t().exp()) + (x.sum() * w).sum(), X, W)
    assert found.kept_inputs == [0, 1]


def test_constants_join_what_they_meet(split):
    found = split(lambda x, w: x @ (w + torch.arange(3)).t(), X, W)
    assert count_calls(found.main.gm) == {"aten.mm.default": 1}


def test_several_results(split):
    found = split(lambda x, w: x * w.sort()[0] + w.sort()[1], torch.randn(3), torch.randn(3))
    assert count_calls(found.main.gm) == {"aten.mul.Tensor": 1, "aten.add.Tensor": 1}


def test_results_above_the_cap_stay(split):
    found = split(lambda x, w: x + w.expand(50, 4, 3).clone() + w.sin(), X[:1], W, limit=0)
    assert count_calls(found.fold)["aten.clone.default"] == 0
    assert count_calls(found.fold)["aten.sin.default"] == 1
    assert count_calls(found.main.gm)["aten.clone.default"] == 1


def test_returned_memory_stays(split):
    assert split(lambda x, w: (x + 1, w.t()), X, W) is None
    assert split(lambda x, w: (x + 1, w.sin()), X, W) is None
    found = split(lambda x, w: (x @ w.t().neg(), w.sin()), X, W)
    assert count_calls(found.main.gm)["aten.sin.default"] == 1


def test_written_inputs_stay(split):
    def function(x, w):
        y = x @ w.t()
        w.view(-1).add_(1)
        return y + w.sum()

    assert split(function, X, W) is None


def test_random_operators_stay(split):
    unsplit = split(lambda x, w: x.sum() + torch.rand_like(w).sum() * 0, X, W)
    assert unsplit is None


def test_owned_constants_are_lifted_for_a_vendor():
    def function(x):
        return x + torch.tensor([1.0, 2.0]) * 3

    for folded_before in (False, True):
        unit = capture(function, torch.ones(2))[0]
        if folded_before:
            run_passes([ConstantFolding], unit)
        else:
            unit.rewriter = Rewriter(unit)
        found = split_constant_part(unit, 1 << 20, True)
        assert not found.main.gm.graph.find_nodes(op="get_attr")
        assert found.frozen_inputs == []
        found.main.gm.recompile()
        assert found.main.gm(torch.ones(2), *found.fold())[0].tolist() == [4.0, 7.0]


def test_tied_weights_are_one_input():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    model = Tied()
    (unit,) = capture(model, torch.ones(2, 3), config=FREEZE)
    assert len(unit.frozen) == 1
    unit.rewriter = Rewriter(unit)
    found = split_constant_part(unit, 1 << 20, False)
    (weight,) = found.fold(model.a.weight)[:1]
    assert weight.data_ptr() == model.a.weight.data_ptr()
