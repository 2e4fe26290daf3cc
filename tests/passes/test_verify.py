"""The verifier, watching passes that are wrong on purpose."""

import pytest
import torch

from xpu_graph.errors import PassError
from xpu_graph.testing import capture, run_passes

aten = torch.ops.aten


def find(unit, target):
    return unit.gm.graph.find_nodes(op="call_function", target=target)


def call(unit, before, target, *args, value=None):
    """Insert a call the way no pass should: past the rewriter."""
    with unit.gm.graph.inserting_before(before):
        node = unit.gm.graph.call_function(target, args)
    mode = unit.rewriter.fake_mode
    if value is None:
        with mode:
            value = target(*[a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in args])
    node.meta["val"] = value
    node.meta["stack_trace"] = "made by a test"
    return node


def take_over(old, new):
    old.replace_all_uses_with(new)
    old.graph.erase_node(old)


@pytest.fixture
def breaks(trace, make_pass):
    """Run a bad pass over a function and return what the verifier says."""

    def breaks(run, function, *inputs, changed=True, unit=None):
        unit = unit or trace(function, *inputs)
        bad = make_pass(lambda unit: (run(unit), changed)[1], name="bad")
        with pytest.raises(PassError) as error:
            run_passes([bad], unit)
        assert "'bad'" in str(error.value)
        return str(error.value)

    return breaks


X = torch.ones(2, 3)


def test_says_changed_and_did_nothing(breaks):
    message = breaks(lambda unit: None, lambda x: x.sin(), X)
    assert "reports changed=True but did not change the graph" in message


def test_changed_and_says_nothing(breaks):
    def run(unit):
        (node,) = find(unit, aten.sin.default)
        take_over(node, call(unit, node, aten.cos.default, *node.args))

    message = breaks(run, lambda x: x.sin(), X, changed=False)
    assert "reports changed=False but changed the graph" in message


def test_stale_value(breaks):
    def run(unit):
        (node,) = find(unit, aten.sin.default)
        with unit.rewriter.fake_mode:
            value = torch.ones(3)
        take_over(node, call(unit, node, aten.cos.default, *node.args, value=value))

    message = breaks(run, lambda x: x.sin().sum(), X)
    assert "'fake values are true'" in message
    assert "cos_default is stale" in message


def test_stale_memory(breaks):
    """The shape is right, but the view says that it lives where its base no longer is."""

    def run(unit):
        (node,) = find(unit, aten.sin.default)
        take_over(node, call(unit, node, aten.cos.default, *node.args))

    message = breaks(run, lambda x: x.sin().view(6).exp(), X)
    assert "view is stale: it shares memory with other arguments" in message


def test_missing_value(breaks):
    def run(unit):
        (node,) = find(unit, aten.sin.default)
        new = call(unit, node, aten.cos.default, *node.args)
        take_over(node, new)
        del new.meta["val"]

    assert "cos_default has no fake value" in breaks(run, lambda x: x.sin().sum(), X)


def test_missing_provenance(breaks):
    def run(unit):
        (node,) = find(unit, aten.sin.default)
        new = call(unit, node, aten.cos.default, *node.args)
        take_over(node, new)
        del new.meta["stack_trace"]

    assert "cos_default does not say where it comes from" in breaks(run, lambda x: x.sin().sum(), X)


@pytest.mark.parametrize(
    ("target", "args", "what"),
    [(aten.to.dtype, (torch.float64,), "dtype"), (aten.t.default, (), "shape")],
)
def test_output_dtype_and_shape(breaks, target, args, what):
    def run(unit):
        (node,) = find(unit, aten.sin.default)
        take_over(node, call(unit, node, target, node.args[0], *args))

    message = breaks(run, lambda x: x.sin(), X)
    assert "'outputs keep dtype, shape, stride and device'" in message
    assert what in message


def test_output_stride(breaks):
    def run(unit):
        (node,) = find(unit, aten.sin.default)
        new = call(unit, node, aten.t.default, node.args[0])
        take_over(node, call(unit, node, aten.clone.default, new))

    message = breaks(run, lambda x: x.sin(), torch.ones(3, 3))
    assert "stride (3, 1) would become (1, 3)" in message


def test_created_alias(breaks):
    def run(unit):
        (node,) = find(unit, aten.clone.default)
        node.replace_all_uses_with(node.args[0])
        unit.gm.graph.erase_node(node)

    assert "'outputs share memory as before'" in breaks(run, lambda x: x.clone(), X)


def test_broken_alias(breaks):
    def run(unit):
        (node,) = find(unit, aten.view.default)
        take_over(node, call(unit, node, aten.clone.default, node.args[0]))

    assert "'outputs share memory as before'" in breaks(run, lambda x: x.view(2, 3), X)


def test_merged_outputs(breaks):
    def run(unit):
        first, second = find(unit, aten.sin.default)
        take_over(second, first)

    message = breaks(run, lambda x: (x.sin(), x.sin()), X)
    assert "'outputs share memory as before'" in message


ORDER = "'random and effectful operators stay in order'"


def test_dropped_random_operator(breaks):
    def run(unit):
        unit.gm.graph.erase_node(find(unit, aten.rand_like.default)[0])

    def function(x):
        torch.rand_like(x)
        return torch.rand_like(x)

    assert ORDER in breaks(run, function, X)


def test_merged_random_operators(breaks):
    def run(unit):
        first, second = find(unit, aten.rand_like.default)
        take_over(second, first)

    assert ORDER in breaks(run, lambda x: torch.rand_like(x) + torch.rand_like(x), X)


def test_swapped_random_operators(breaks):
    def run(unit):
        first, second = find(unit, aten.rand_like.default)
        first.prepend(second)

    assert ORDER in breaks(run, lambda x: (torch.rand_like(x), torch.rand_like(x)), X)


def test_swapped_writes(breaks):
    def run(unit):
        first, second = find(unit, aten.copy_.default)
        first.prepend(second)

    def function(x, y, z):
        x.copy_(z)
        y.copy_(z)
        return z.sin()

    assert ORDER in breaks(run, function, X, X.clone(), X.clone())


def test_dropped_write(breaks):
    def run(unit):
        unit.gm.graph.erase_node(find(unit, aten.add_.Tensor)[0])

    def function(x):
        x.add_(1)
        return torch.ones(3)

    assert ORDER in breaks(run, function, X)


def test_reordered_inputs(breaks):
    def run(unit):
        first, second = unit.gm.graph.find_nodes(op="placeholder")
        first.prepend(second)

    assert "'inputs stay'" in breaks(run, lambda x, y: x + y, X, X.clone())


def test_dropped_input(breaks):
    def run(unit):
        unit.gm.graph.erase_node(unit.gm.graph.find_nodes(op="placeholder")[1])

    assert "'inputs stay'" in breaks(run, lambda x, y: x.sin(), X, X.clone())


def test_dropped_output(breaks):
    def run(unit):
        output = unit.gm.graph.output_node()
        output.args = (output.args[0][:1],)

    assert "2 outputs became 1" in breaks(run, lambda x: (x.sin(), x.cos()), X)


def test_added_guard(breaks):
    unit = capture(lambda x: x.sin(), torch.ones(5, 3), dynamic=True)[0]

    def run(unit):
        bool(unit.fake_inputs[0] > 4)
        (node,) = find(unit, aten.sin.default)
        take_over(node, call(unit, node, aten.cos.default, *node.args))

    assert "'no guard is added'" in breaks(run, None, unit=unit)


def test_malformed_graph(breaks):
    def run(unit):
        sin, cos = find(unit, aten.sin.default)[0], find(unit, aten.cos.default)[0]
        sin.prepend(cos)

    assert "'the graph is well formed'" in breaks(run, lambda x: x.sin().cos(), X)


def test_a_bad_graph_handed_in_is_not_a_passs_fault(trace, make_pass):
    unit = trace(lambda x: x.sin().cos(), X)
    find(unit, aten.sin.default)[0].meta["val"] = torch.ones(7)
    with pytest.raises(PassError, match="the graph that was handed in breaks the rule"):
        run_passes([make_pass(lambda unit: False)], unit)


def test_final_looks_once_and_cheaply(trace, make_pass, monkeypatch):
    monkeypatch.delenv("XPUGRAPH_VERIFY")

    def lie(unit):
        return False

    def drop_random(unit):
        for node in find(unit, aten.rand_like.default):
            unit.gm.graph.erase_node(node)
        return False

    def function(x):
        torch.rand_like(x)
        return x.sin()

    run_passes([make_pass(lie)], trace(function, X), verify="final")
    with pytest.raises(PassError, match="the pipeline breaks the rule"):
        run_passes([make_pass(drop_random)], trace(function, X), verify="final")
    run_passes([make_pass(drop_random)], trace(function, X), verify="off")


def test_an_honest_pass_is_left_alone(trace, make_pass):
    def run(unit):
        (copy,) = find(unit, aten.clone.default) or [None]
        return copy is not None and unit.rewriter.replace(copy, copy.args[0])

    assert run_passes([make_pass(run)], trace(lambda x: x.clone().sin(), X)).rounds == 2


def test_operators_without_results_need_no_value(trace, make_pass):
    def function(x):
        torch._assert_async(x.sum() > 0)
        return x.sin()

    assert run_passes([make_pass(lambda unit: False)], trace(function, X)).rounds == 1
