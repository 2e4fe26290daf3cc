import pytest
import torch

from xpu_graph import fx as graph_facts
from xpu_graph.passes.rewriter import Rewriter
from xpu_graph.testing import capture
from xpu_graph.torch_compat import guard_count

aten = torch.ops.aten


@pytest.fixture
def rewriter_of(trace):
    def rewriter_of(function, *inputs, allow=lambda unit, name: True):
        unit = trace(function, *inputs)
        unit.rewriter = Rewriter(unit, allow)
        unit.rewriter.pass_name = "test"
        return unit.rewriter, {node.name: node for node in unit.gm.graph.nodes}

    return rewriter_of


def reason(rewriter):
    ((_, text),) = rewriter.refusals
    return text


def text_of(rewriter):
    return str(rewriter.graph)


def values_of(rewriter):
    return {n.name: id(n.meta.get("val")) for n in rewriter.graph.nodes}


def test_replace(rewriter_of):
    rewriter, nodes = rewriter_of(lambda x: x.sin().clone().cos(), torch.ones(3))
    assert rewriter.replace(nodes["clone"], nodes["sin"])
    assert [n.name for n in rewriter.graph.nodes] == ["x_1", "sin", "cos", "output"]
    assert (rewriter.applied, rewriter.firings) == (1, {"test": 1})
    assert not rewriter.is_alive(nodes["clone"])


def test_replace_repairs_the_fake_values_of_views(rewriter_of):
    def function(x):
        parts = x.sin().clone().view(6).split(3)
        return parts[0].cos() + parts[1].t()

    rewriter, nodes = rewriter_of(function, torch.ones(2, 3))
    assert rewriter.replace(nodes["clone"], nodes["sin"])
    storage = graph_facts.storages_of(nodes["sin"])[0]
    for name in ("view", "split", "getitem", "getitem_1", "t"):
        assert set(graph_facts.storages_of(nodes[name])) == {storage}
        assert set(rewriter.memory.storages(nodes[name])) == {storage}
    assert graph_facts.storages_of(nodes["cos"])[0] != storage


def test_repaired_views_count_as_returned(rewriter_of):
    def function(x):
        return x.sin().clone().view(6), x.cos()

    rewriter, nodes = rewriter_of(function, torch.ones(2, 3))
    assert not rewriter.is_returned(nodes["sin"])
    assert rewriter.replace(nodes["clone"], nodes["sin"])
    assert rewriter.is_returned(nodes["sin"])


REFUSALS = {
    "dtype": (lambda x: (x.clone() + x.double(),), "clone", "_to_copy", "dtype"),
    "shape": (lambda x: (x.clone(), x.sum()), "clone", "sum_1", "shape"),
    "stride": (lambda x: (x.sin().cos(), x.sin().t()), "cos", "t", "stride"),
    "structure": (lambda x: (x.sort(), x.cos()), "cos", "sort", "the structure of the result"),
    "own object": (lambda x: (x.clone(), 0), "clone", "x_1", "an output would be a tensor object"),
    "one object": (
        lambda x: (x.sin(), x.sin()),
        "sin_1",
        "sin",
        "two outputs would be one tensor object",
    ),
    "no longer an alias of the input": (
        lambda x: (x.view(3, 3), x.sin().cos()),
        "view",
        "sin",
        "an output would no longer share memory with an input",
    ),
    "an alias of the input": (
        lambda x: (x.clone().view(9), 0),
        "clone",
        "x_1",
        "an output would share memory with an input or a constant",
    ),
    "outputs alias": (
        lambda x: (x.sin().view(9), x.cos().view(9)),
        "cos",
        "sin",
        "two outputs would share memory",
    ),
    "outputs no longer alias": (
        lambda x: ((y := x.sin()).view(3, 3), y.t(), x.cos().exp()),
        "view",
        "cos",
        "two outputs would no longer share memory",
    ),
    "extent": (
        lambda x: (x.sin(), x.cos().expand(3, 3)[:2].clone(), torch.ones(9)[:6].view(2, 3).exp()),
        "clone",
        "view",
        "an output's memory would have another size",
    ),
    "written": (
        lambda x: ((y := x.sin()).add_(1), x.cos() + y),
        "cos",
        "sin",
        "the memory is written to elsewhere in the graph",
    ),
    "whole storage": (
        lambda x: (x.clone().as_strided((2,), (1,)).cos(), x.sin()),
        "clone",
        "x_1",
        "a view reads memory beyond the tensor",
    ),
    "empty": (
        lambda x: (x.new_zeros(0).cos(), x.new_ones(0)),
        "new_zeros",
        "new_ones",
        "an empty tensor may have other strides than its fake value",
    ),
}


@pytest.mark.parametrize(("function", "old", "new", "why"), REFUSALS.values(), ids=REFUSALS)
def test_replace_refuses_and_touches_nothing(rewriter_of, function, old, new, why):
    rewriter, nodes = rewriter_of(function, torch.ones(3, 3))
    before = text_of(rewriter), values_of(rewriter), rewriter.clock
    assert not rewriter.replace(nodes[old], nodes[new])
    assert why in reason(rewriter)
    assert (text_of(rewriter), values_of(rewriter), rewriter.clock) == before
    assert rewriter.applied == 0


def test_results_must_share_memory_among_themselves_as_before(rewriter_of):
    rewriter, nodes = rewriter_of(lambda x: x.sort()[0] + x.topk(3)[0], torch.ones(3))
    with rewriter.fake_mode:
        first, second = torch.ones(3), torch.ones(3)
    rewriter.memory.set_value(nodes["sort"], (first, first.view(3)))
    rewriter.memory.set_value(nodes["topk"], (first.sin(), second))
    assert not rewriter.replace(nodes["sort"], nodes["topk"])
    assert "in another way" in reason(rewriter)


def test_an_unrelated_returned_view_is_no_reason(rewriter_of):
    """What is returned must move to matter."""

    def function(x):
        y = x.sin()
        return y.t(), y.view(3, 3).cos(), x.exp().tan()

    rewriter, nodes = rewriter_of(function, torch.ones(3, 3))
    assert rewriter.replace(nodes["view"], nodes["exp"]) is True


def test_replace_with_call(rewriter_of):
    rewriter, nodes = rewriter_of(lambda x: (x + x).cos(), torch.ones(3))
    nodes["add"].meta["seq_nr"] = 7
    node = rewriter.replace_with_call(nodes["add"], aten.mul.Tensor, (nodes["x_1"], 2))
    assert node.meta["val"].shape == (3,)
    assert node.meta["seq_nr"] == 7
    assert node.meta["stack_trace"] == "trace of add"
    assert rewriter.is_alive(node)
    assert not rewriter.is_alive(nodes["add"])


def test_replace_with_call_refuses(rewriter_of):
    rewriter, nodes = rewriter_of(lambda x: (x + x).cos(), torch.ones(3))
    before = text_of(rewriter)
    for target, args, why in [
        (aten.mul.Tensor, (nodes["x_1"], 2.5j), "dtype"),
        (aten.view.default, (nodes["x_1"], [7]), "does not take these arguments (RuntimeError)"),
    ]:
        rewriter.refusals.clear()
        assert rewriter.replace_with_call(nodes["add"], target, args) is None
        assert why in reason(rewriter)
    assert text_of(rewriter) == before


def test_replace_with_call_does_not_move_a_read_over_a_write(rewriter_of):
    def function(x):
        y = x.sin()
        z = y * 2
        x.add_(1)
        return z.cos()

    rewriter, nodes = rewriter_of(function, torch.ones(3))
    assert rewriter.replace_with_call(nodes["cos"], aten.exp.default, (nodes["x_1"],)) is None
    assert reason(rewriter) == "a read would move across a write"


@pytest.fixture
def dynamic():
    """A unit of symbolic sizes, and its nodes by name."""

    def dynamic(function, *inputs):
        unit = capture(function, *inputs, dynamic=True)[0]
        unit.rewriter = Rewriter(unit)
        return unit, {node.name: node for node in unit.gm.graph.nodes}

    return dynamic


def test_replace_with_call_of_symbolic_sizes(dynamic):
    unit, nodes = dynamic(lambda x: (x + x).cos(), torch.ones(3))
    before = guard_count(unit.fake_inputs)
    new = unit.rewriter.replace_with_call(nodes["add"], aten.mul.Tensor, (nodes["arg1_1"], 2))
    assert new.meta["val"].shape == nodes["arg1_1"].meta["val"].shape
    assert guard_count(unit.fake_inputs) == before


def test_a_call_that_would_need_a_guard_is_refused(dynamic, capfd):
    unit, nodes = dynamic(lambda x: x.sin(), torch.ones(3, 4))
    before = guard_count(unit.fake_inputs)
    x = nodes["arg2_1"]
    assert unit.rewriter.replace_with_call(nodes["sin"], aten.mm.default, (x, x)) is None
    assert reason(unit.rewriter) == "it would need a guard on a size"
    assert guard_count(unit.fake_inputs) == before
    assert capfd.readouterr().err == ""  # torch itself would complain at length


def test_a_symbol_is_no_literal(dynamic):
    unit, nodes = dynamic(lambda x: x.sin(), torch.ones(3))
    x = nodes["arg1_1"]
    shape = list(x.meta["val"].shape)
    assert unit.rewriter.replace_with_call(nodes["sin"], aten.view.default, (x, shape)) is None
    assert reason(unit.rewriter) == "sizes are symbolic"


def test_sizes_known_at_run_time_only_are_refused(dynamic):
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        unit, nodes = dynamic(lambda x: x.nonzero().sin(), torch.ones(3))
    count = nodes["nonzero"]
    assert unit.rewriter.replace_with_call(nodes["sin"], aten.cos.default, (count,)) is None
    assert reason(unit.rewriter) == "a size is known at run time only"


def test_replace_with_calls(rewriter_of):
    rewriter, nodes = rewriter_of(lambda x: x.view(6).sin().cos(), torch.ones(2, 3))
    new = rewriter.replace_with_calls(
        nodes["sin"],
        lambda call: call(aten.view.default, call(aten.sin.default, nodes["x_1"]), [6]),
    )
    assert [str(n.target) for n in rewriter.graph.nodes if n.op == "call_function"] == [
        "aten.sin.default",
        "aten.view.default",
        "aten.cos.default",
    ]
    assert new.meta["val"].shape == (6,)
    assert all(graph_facts.has_provenance(n) for n in (new, new.args[0]))
    assert rewriter.firings == {"test": 1}
    assert new in rewriter.touched_since(len(nodes))


def test_calls_that_the_last_one_does_not_need_are_not_added(rewriter_of):
    rewriter, nodes = rewriter_of(lambda x: x.sin().cos(), torch.ones(3))

    def build(call):
        call(aten.exp.default, nodes["x_1"])
        return call(aten.tan.default, nodes["x_1"])

    assert rewriter.replace_with_calls(nodes["sin"], build) is not None
    assert "exp" not in text_of(rewriter)


def test_a_draft_that_fails_touches_nothing(rewriter_of):
    rewriter, nodes = rewriter_of(lambda x: x.sin().cos(), torch.ones(3))
    before = text_of(rewriter)

    def build(call):
        return call(aten.view.default, call(aten.sin.default, nodes["x_1"]), [5])

    assert rewriter.replace_with_calls(nodes["sin"], build) is None
    assert text_of(rewriter) == before
    assert "does not take these arguments" in reason(rewriter)


def late(x, y):
    """``tan`` reads ``sin``; what takes the places of both needs ``exp``, which comes between."""
    first = x.sin()
    between = y.exp()
    return first.tan(), first.cos(), between


def both(nodes):
    def build(call):
        total = call(aten.add.Tensor, nodes["x_1"], nodes["exp"])
        return [call(aten.neg.default, total), call(aten.abs.default, total)]

    return build


def test_several_at_once_where_their_operands_are_there(rewriter_of):
    rewriter, nodes = rewriter_of(late, torch.ones(3), torch.ones(3))
    gone = [nodes["sin"], nodes["tan"]]
    new = rewriter.replace_several(gone, both(nodes))
    assert [node.target for node in new] == [aten.neg.default, aten.abs.default]
    assert nodes["exp"] < new[0] < nodes["cos"]
    assert nodes["cos"].args == (new[0],)
    assert all(graph_facts.has_provenance(node) for node in new)
    rewriter.graph.lint()


def test_several_at_once_all_or_none(rewriter_of):
    def early(x, y):
        first = x.sin()
        seen = first.cos()
        return first.tan(), seen, y.exp()

    rewriter, nodes = rewriter_of(early, torch.ones(3), torch.ones(3))
    before = text_of(rewriter)
    assert rewriter.replace_several([nodes["sin"], nodes["tan"]], both(nodes)) is None
    assert text_of(rewriter) == before
    assert reason(rewriter) == (
        "one result is used before all that they are computed from is there"
    )


def test_what_was_made_is_known_again(rewriter_of):
    rewriter, nodes = rewriter_of(lambda x: x.sin().cos(), torch.ones(3))
    rewriter.maker = "a pattern"
    made = rewriter.replace_with_call(nodes["sin"], aten.tan.default, (nodes["x_1"],))
    rewriter.maker = None
    again = rewriter.replace_with_call(made, aten.exp.default, (nodes["x_1"],))
    assert rewriter.was_made_by(again, "a pattern")
    assert not rewriter.was_made_by(again, "another")
    assert not rewriter.was_made_by(nodes["cos"], "a pattern")


def test_replace_with_constant(rewriter_of):
    rewriter, nodes = rewriter_of(lambda x: x + torch.arange(3).neg(), torch.ones(3))
    assert rewriter.replace_with_constant(nodes["neg"], "folded", torch.tensor([0, -1, -2]))
    assert torch.equal(rewriter.unit.gm.folded, torch.tensor([0, -1, -2]))
    assert "arange" not in text_of(rewriter)


def test_replace_with_constant_refuses(rewriter_of):
    rewriter, nodes = rewriter_of(lambda x: (x, torch.arange(3).neg().view(3, 1)), torch.ones(3))
    assert not rewriter.replace_with_constant(nodes["neg"], "folded", torch.tensor([0, -1, -2]))
    assert reason(rewriter) == "an output would share memory with a constant"
    rewriter, nodes = rewriter_of(lambda x: x + torch.arange(3).neg(), torch.ones(3))
    assert not rewriter.replace_with_constant(nodes["neg"], "folded", torch.ones(3))
    assert "dtype" in reason(rewriter)
    assert not hasattr(rewriter.unit.gm, "folded")


def test_no_fuel_no_rewrite(rewriter_of):
    asked = []
    rewriter, nodes = rewriter_of(
        lambda x: x.sin().clone().cos() + torch.arange(3).neg(),
        torch.ones(3),
        allow=lambda unit, name: asked.append(name),
    )
    before = text_of(rewriter)
    assert not rewriter.replace(nodes["clone"], nodes["sin"])
    assert rewriter.replace_with_call(nodes["cos"], aten.sin.default, (nodes["clone"],)) is None
    assert not rewriter.replace_with_constant(nodes["neg"], "c", -torch.arange(3))
    assert rewriter.refusals == {("test", "out of fuel"): 3}
    assert asked == ["test"] * 3
    assert text_of(rewriter) == before


def test_asks_for_fuel_only_when_all_checks_pass(rewriter_of):
    asked = []
    rewriter, nodes = rewriter_of(
        lambda x: (x.sin(), x.sum()), torch.ones(3), allow=lambda *a: asked.append(a)
    )
    assert not rewriter.replace(nodes["sin"], nodes["sum_1"])
    assert asked == []


def test_touched_nodes(rewriter_of):
    rewriter, nodes = rewriter_of(lambda x: x.exp().sin().clone().cos().tan(), torch.ones(3))
    clock = rewriter.clock
    assert rewriter.touched_since(clock) == []
    rewriter.replace(nodes["clone"], nodes["sin"])
    assert [n.name for n in rewriter.touched_since(clock)] == ["sin", "cos"]
    assert rewriter.is_touched_since(nodes["cos"], clock)
    assert not rewriter.is_touched_since(nodes["tan"], clock)
    assert len(rewriter.touched_since(0)) == 6


def test_writes_are_counted_through_views(rewriter_of):
    def function(x):
        a = x.cos()
        x.view(-1).add_(1)
        b = x.cos()
        x.t().mul_(2)
        return a + b + x.cos()

    rewriter, nodes = rewriter_of(function, torch.ones(3, 3))
    counts = [rewriter.writes_before(nodes[n], nodes["x_1"]) for n in ("cos", "cos_1", "cos_2")]
    assert counts == [0, 1, 2]
    assert rewriter.is_written(nodes["x_1"])
    assert not rewriter.is_written(nodes["cos"])


def test_numbers_of_dead_storages_are_not_given_out_again(rewriter_of):
    """A freed storage's number may come back for a new one; then facts of the old would hold."""
    rewriter, _ = rewriter_of(lambda x: x + torch.arange(3).neg().neg(), torch.ones(3))
    seen = {s for n in rewriter.graph.nodes for s in graph_facts.storages_of(n)}
    for number in range(20):
        old = rewriter.graph.find_nodes(op="call_function", target=aten.neg.default)[-1]
        new = rewriter.replace_with_call(old, aten.neg.default, old.args)
        (storage,) = graph_facts.storages_of(new)
        assert storage not in seen, number
        seen.add(storage)
