import pytest
import torch
from torch.nn import functional

from xpu_graph.passes.canonicalize_views import CanonicalizeViews
from xpu_graph.passes.dead_code import DeadCode
from xpu_graph.passes.sink_views import SinkViews
from xpu_graph.testing import assert_same, capture, run_passes

WEIGHT, NEXT, BIAS = torch.randn(8, 6), torch.randn(6, 4), torch.randn(6)


def run(function, *inputs, dynamic=None, passes=(SinkViews,), level="level2"):
    """Capture, rewrite, compare with eager; returns what the passes did and the calls in order."""
    unit = capture(function, *inputs, dynamic=dynamic)[0]
    given = list(unit.fake_inputs)
    done = run_passes(passes, unit, opt_level=level)
    calls = [str(n.target) for n in unit.gm.graph.nodes if n.op == "call_function"]
    if dynamic is None and len(given) == len(inputs):
        want, got = function(*inputs), unit.gm(*inputs)
        assert_same(got[0] if len(got) == 1 else got, want, bitwise=False, rtol=1e-5, atol=1e-6)
    return done, calls


def linear(x, w):
    return (x.reshape(-1, x.shape[-1]) @ w).view(*x.shape[:-1], w.shape[-1])


def squared(x):
    return x * x


FIRES = {
    "gelu": lambda x, w: functional.gelu(linear(x, w)),
    "scalar": lambda x, w: linear(x, w) * 2.0,
    "cast": lambda x, w: linear(x, w).to(torch.float64),
    "clamp": lambda x, w: linear(x, w).clamp(min=0.0),
}


@pytest.mark.parametrize("function", FIRES.values(), ids=FIRES)
def test_a_view_sinks(function):
    done, calls = run(function, torch.randn(2, 3, 8), WEIGHT)
    assert done.applied["sink_views"] == 1
    assert calls[-1] == "aten.view.default"
    assert calls[-3] == "aten.mm.default"


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_chain_sinks_until_the_next_product(dynamic):
    def function(x, w, v):
        return linear((functional.gelu(linear(x, w)) * 2).sigmoid(), v)

    done, calls = run(
        function,
        *(torch.randn(2, 3, 8), WEIGHT, NEXT),
        dynamic=dynamic,
        passes=(SinkViews, CanonicalizeViews),
    )
    assert done.applied["sink_views"] == 3
    tail = [call for call in calls if "mul.default" not in call][-6:]
    assert tail == [
        "aten.mm.default",
        "aten.gelu.default",
        "aten.mul.Tensor",
        "aten.sigmoid.default",
        "aten.mm.default",
        "aten.view.default",
    ]


STAYS = {
    "no product": lambda x, w: x.sin().view(-1).cos(),
    "a tensor that is no such view": lambda x, w: linear(x, w) + w.sum(),
    "one tensor twice": lambda x, w: squared(linear(x, w)),
    "views of two shapes": lambda x, w: linear(x, w) * (x[0] @ w).view(1, 3, 6),
    "views of two products": lambda x, w: linear(x, w) + (x.view(3, 2, 8) @ w).view(2, 3, 6)[:, :1],
    "random": lambda x, w: functional.dropout(linear(x, w), 0.5, True),
    "a product is no pointwise operator": lambda x, w: linear(x, w).sum(-1),
}


@pytest.mark.parametrize("function", STAYS.values(), ids=STAYS)
def test_left_alone(function):
    unit = capture(function, torch.randn(2, 3, 8), WEIGHT)[0]
    assert "sink_views" not in run_passes([SinkViews], unit, opt_level="level2").applied


@pytest.mark.parametrize("dynamic", [None, True])
def test_two_views_meet_in_a_binary_operator(dynamic):
    def gated(x, w, v):
        return functional.silu(linear(x, w)) * linear(x, v)

    done, calls = run(gated, torch.randn(2, 3, 8), WEIGHT, WEIGHT.flip(0), dynamic=dynamic)
    assert done.applied["sink_views"] == 2
    assert calls[-2:] == ["aten.mul.Tensor", "aten.view.default"]


def test_a_formula_of_one_product_ends_in_one_view():
    def gelu(x, w):
        y = linear(x, w)
        return 0.5 * y * (1.0 + torch.tanh(0.79788456 * (y + 0.044715 * torch.pow(y, 3.0))))

    _, calls = run(gelu, torch.randn(2, 3, 8), WEIGHT, passes=(SinkViews, DeadCode))
    assert [call for call in calls if "view" in call][1:] == ["aten.view.default"]
    assert calls[-1] == "aten.view.default"


def test_not_at_level1():
    done, _ = run(FIRES["gelu"], torch.randn(2, 3, 8), WEIGHT, level="level1")
    assert not done.applied


def test_a_view_with_other_readers_stays_beside_the_new_one():
    def function(x, w):
        y = linear(x, w)
        return y.sin(), y.sum(-1)

    done, calls = run(function, torch.randn(2, 3, 8), WEIGHT)
    assert done.applied["sink_views"] == 1
    assert calls.count("aten.view.default") == 3


def test_a_write_between_is_refused(trace):
    def function(x, w):
        product = x @ w
        seen = product.view(12)
        product.add_(1)
        return seen.sin()

    unit = trace(function, torch.randn(2, 8), WEIGHT)
    done = run_passes([SinkViews], unit, opt_level="level2")
    assert done.refused == {"a read would move across a write": 1}
