import operator

import pytest
import torch

from tests.passes.folding import alone
from xpu_graph.passes.fold_sizes import FoldSizes
from xpu_graph.testing import capture, check_against_eager, run_passes

aten = torch.ops.aten


def after(function, *inputs):
    return run_passes([FoldSizes], capture(function, *inputs, dynamic=True)[0])


@pytest.fixture
def computed():
    """A graph of a size and what is computed from it; AOTAutograd would not leave it so."""

    def computed(*steps, shape=(5, 3)):
        def function(x):
            return x.new_ones(x.shape[0]), x.shape

        (unit,) = capture(function, torch.ones(shape), dynamic=True)
        (ones,) = unit.gm.graph.find_nodes(op="call_function", target=aten.new_ones.default)
        sizes = [node for node in unit.gm.graph.nodes if node.name in ("arg0_1", "arg1_1")]
        node = sizes[0]
        for step in steps:
            with unit.gm.graph.inserting_before(ones):
                node = step(unit.gm.graph, node, sizes)
            args = [getattr(used, "meta", {}).get("val", used) for used in node.args]
            node.meta.update(ones.meta, val=node.target(*args))
        ones.args = (ones.args[0], [node])
        return unit, ones, sizes

    return computed


def by(function, number):
    return lambda graph, node, sizes: graph.call_function(function, (node, number))


@pytest.mark.parametrize(
    "steps",
    [
        (by(operator.mul, 4), by(operator.floordiv, 4)),
        (by(operator.add, 2), by(operator.sub, 2)),
        (by(operator.mul, 1),),
    ],
    ids=["* 4 // 4", "+ 2 - 2", "* 1"],
)
def test_what_arithmetic_undoes(computed, steps):
    unit, ones, sizes = computed(*steps)
    run = run_passes([FoldSizes], unit)
    assert run.applied == {"fold_sizes": 1}
    assert ones.args[1] == [sizes[0]]
    assert unit.gm(5, 3, torch.ones(5, 3))[0].shape == (5,)


def test_products_in_either_order(computed):
    def other(graph, node, sizes):
        return graph.call_function(operator.mul, (sizes[1], sizes[0]))

    def product(graph, node, sizes):
        return graph.call_function(operator.mul, (sizes[0], sizes[1]))

    unit, ones, sizes = computed(product, other)
    run = run_passes([FoldSizes], unit)
    assert run.applied == {"fold_sizes": 1}
    assert ones.args[1][0].args == (sizes[0], sizes[1])


def test_a_size_of_a_tensor():
    def function(x):
        flat = x.view(-1)
        return x.new_ones(torch.ops.aten.sym_size.int(flat, 0)), x.new_zeros(x.numel())

    check_against_eager(function, lambda: [torch.ones(5)], alone(FoldSizes), dynamic=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.new_ones(x.shape[0] + 1), x.new_ones(x.shape[0] + 2)),
        lambda x: (x.new_ones(x.shape[0] * x.shape[0]),),
    ],
)
def test_other_sizes_stay(function):
    run = after(function, torch.ones(5))
    assert not run.applied
    check_against_eager(function, lambda: [torch.ones(5)], alone(FoldSizes), dynamic=True)


def test_a_returned_size():
    def function(x):
        return x + 1, x.shape[0] * 2 // 2, x.shape[0] * 2

    check_against_eager(function, lambda: [torch.ones(5)], alone(FoldSizes), dynamic=True)
    check_against_eager(function, lambda: [torch.ones(3)], alone(FoldSizes), dynamic=True)


def test_sizes_known_at_run_time_only():
    def function(x):
        places = x.nonzero()
        return places * 2, x.new_ones(places.shape[0] * 2 // 2)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        run = after(function, torch.tensor([1.0, 0.0, 2.0]))
        assert run.before["aten.nonzero.default"] == run.after["aten.nonzero.default"] == 1
        check_against_eager(
            function, lambda: [torch.tensor([1.0, 0.0, 2.0])], alone(FoldSizes), dynamic=True
        )


def test_static_graphs_are_left():
    assert run_passes([FoldSizes], capture(lambda x: x + 1, torch.ones(3))[0]).rounds == 1
