import operator

import pytest
import torch

from xpu_graph.passes.dead_code import DeadCode
from xpu_graph.passes.fold_assertions import FoldAssertions
from xpu_graph.testing import capture, run_passes

aten = torch.ops.aten
NOT_KNOWN = {"the assertion is not known to hold": 1}


def asserting(unit, target, *args, **kwargs):
    """The unit with an assertion about its first tensor in front of everything else."""
    graph = unit.gm.graph
    inputs = graph.find_nodes(op="placeholder")
    first = next(n for n in graph.nodes if n.op != "placeholder")
    tensor = next(n for n in inputs if isinstance(n.meta["val"], torch.Tensor))
    given = [tensor, *args] if target is aten._assert_tensor_metadata.default else list(args)
    with graph.inserting_before(first):
        node = graph.call_function(target, tuple(given), kwargs)
    node.meta["val"] = None
    return run_passes([FoldAssertions], unit)


def unit_of(*shape, dynamic=None):
    return capture(lambda x: x.sin(), torch.randn(*shape), dynamic=dynamic)[0]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (([2, 3], [3, 1], torch.float32), {}),
        ((None, None, torch.float32), {"device": torch.device("cpu"), "layout": torch.strided}),
        ((), {"dtype": torch.float32}),
        ((), {}),
    ],
)
def test_metadata_that_is_there_is_not_asserted(args, kwargs):
    run = asserting(unit_of(2, 3), aten._assert_tensor_metadata.default, *args, **kwargs)
    assert run.applied == {"fold_assertions": 1}
    assert run.after == {"aten.sin.default": 1}


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (([2, 4],), {}),
        (([2],), {}),
        ((None, [1, 2]), {}),
        ((None, None, torch.float64), {}),
        ((), {"device": torch.device("meta")}),
        ((), {"layout": torch.sparse_coo}),
    ],
)
def test_metadata_that_is_not_there_is_asserted(args, kwargs):
    run = asserting(unit_of(2, 3), aten._assert_tensor_metadata.default, *args, **kwargs)
    assert run.refused == NOT_KNOWN
    assert run.after["aten._assert_tensor_metadata.default"] == 1


def test_a_symbolic_size_is_not_a_number():
    run = asserting(unit_of(5, dynamic=True), aten._assert_tensor_metadata.default, [5])
    assert run.refused == NOT_KNOWN


@pytest.mark.parametrize(("condition", "goes"), [(True, True), (1, True), (False, False)])
def test_literals(condition, goes):
    run = asserting(unit_of(2), aten._assert_scalar.default, condition, "message")
    assert (run.applied == {"fold_assertions": 1}) == goes


@pytest.mark.parametrize(("least", "goes"), [(2, True), (3, False)])
def test_what_the_guards_say_of_a_size(least, goes):
    """Dynamo treats sizes 0 and 1 apart, so that a symbol is at least 2."""
    unit = unit_of(5, dynamic=True)
    graph = unit.gm.graph
    size = next(n for n in graph.nodes if isinstance(n.meta.get("val"), torch.SymInt))
    with graph.inserting_after(graph.find_nodes(op="placeholder")[-1]):
        condition = graph.call_function(operator.ge, (size, least))
    condition.meta["val"] = size.meta["val"] >= least
    with graph.inserting_after(condition):
        node = graph.call_function(aten._assert_scalar.default, (condition, "message"))
    node.meta["val"] = None
    run = run_passes([FoldAssertions], unit)
    assert (run.applied == {"fold_assertions": 1}) == goes


def test_sizes_known_at_run_time_only():
    """A count is not negative; its upper end is known from the assertion alone."""
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        unit = capture(lambda x: x.nonzero() * 2, torch.ones(5))[0]
    assert str(unit.gm.graph).count("_assert_scalar") > 1
    run = run_passes([FoldAssertions], unit)
    assert run.applied == {"fold_assertions": 1}
    assert run.refused == NOT_KNOWN
    kept = unit.gm.graph.find_nodes(op="call_function", target=aten._assert_scalar.default)
    assert [str(node.args[0].target) for node in kept] == ["<built-in function le>"]


def test_assertions_about_values_stay(trace):
    def function(x):
        torch.ops.aten._assert_async.msg((x > 0).all(), "positive")
        return x.sin()

    unit = trace(function, torch.ones(3))
    run = run_passes([FoldAssertions, DeadCode], unit)
    assert run.after["aten._assert_async.msg"] == 1
    with pytest.raises(RuntimeError, match="positive"):
        unit.gm(torch.zeros(3))
