import pytest
import torch

from xpu_graph.passes import CommonSubexpressions, cse
from xpu_graph.testing import capture, check_against_eager, run_passes


def after(function, *inputs, **how):
    return run_passes([CommonSubexpressions], capture(function, *inputs, **how)[0])


def test_merges_equal_calls():
    def function(x):
        return torch.sin(x) + torch.sin(x)

    run = after(function, torch.randn(3))
    assert run.after == {"aten.sin.default": 1, "aten.add.Tensor": 1}
    check_against_eager(function, lambda: [torch.randn(3, generator=seeded())])


def test_merges_chains_and_literals():
    def function(x):
        return torch.sum(x.sin() * 2.0, [0], True) - torch.sum(x.sin() * 2.0, [0], True)

    assert after(function, torch.randn(3, 4)).after == {
        "aten.sin.default": 1,
        "aten.mul.Tensor": 1,
        "aten.sum.dim_IntList": 1,
        "aten.sub.Tensor": 1,
    }


def test_merges_operators_with_several_results():
    def function(x):
        return x.sort()[0] + x.sort()[1] + x.sort()[0]

    assert after(function, torch.randn(5)).after["aten.sort.default"] == 1
    check_against_eager(function, lambda: [torch.randn(5, generator=seeded())])


def test_merges_what_views_of_a_merged_tensor_read():
    def function(x):
        return x.sin().view(6).cos() + x.sin().view(6).cos()

    run = after(function, torch.randn(2, 3))
    assert run.after == {
        "aten.sin.default": 1,
        "aten.view.default": 1,
        "aten.cos.default": 1,
        "aten.add.Tensor": 1,
    }


@pytest.mark.parametrize(
    ("left", "right"), [(1, 1.0), (1, True), (0.0, -0.0), (2, 3), (float("nan"), float("inf"))]
)
def test_literals_differ_by_type_and_bits(left, right):
    def function(x):
        return x * left + x * right

    assert after(function, torch.tensor([1, 2])).after["aten.mul.Tensor"] == 2
    check_against_eager(function, lambda: [torch.tensor([1, 2])])


def test_one_nan_is_another():
    def function(x):
        return x * float("nan") + x * float("nan")

    assert after(function, torch.ones(2)).after["aten.mul.Tensor"] == 1


@pytest.mark.parametrize("kwargs", [({"dtype": torch.float32}, {"dtype": torch.float64})])
def test_keyword_arguments_count(kwargs):
    def function(x):
        return x.sum(**kwargs[0]) + x.sum(**kwargs[1])

    assert after(function, torch.ones(2)).after["aten.sum.default"] == 2


def test_random_operators_stay():
    def function(x):
        return torch.rand_like(x) + torch.rand_like(x), torch.rand(3), torch.rand(3)

    run = after(function, torch.randn(3))
    assert run.after["aten.rand_like.default"] == 2
    assert run.after["aten.rand.default"] == 2
    assert not run.applied
    check_against_eager(function, lambda: [torch.ones(3)])


def test_results_of_one_random_operator_may_be_read_together():
    def function(x):
        return torch.nn.functional.dropout(x, 0.5, True).sin() * x.sin()

    check_against_eager(function, lambda: [torch.ones(30)])


def test_uninitialised_memory_stays():
    def function(x):
        return torch.empty_like(x).fill_(1) + torch.empty_like(x).fill_(2)

    unit = capture(function, torch.ones(3))[0]
    calls = run_passes([CommonSubexpressions], unit)
    assert calls.before["aten.empty_like.default"] == calls.after["aten.empty_like.default"]


def test_custom_operators_stay():
    with torch.library._scoped_library("xg_test_cse", "FRAGMENT") as library:
        library.define("count(Tensor x) -> Tensor")
        library.impl("count", lambda x: x + 1, "CompositeExplicitAutograd")
        library.impl("count", torch.empty_like, "Meta")
        operator = torch.ops.xg_test_cse.count.default
        run = after(lambda x: operator(x) + operator(x), torch.ones(3))
    assert run.after["xg_test_cse.count.default"] == 2


def test_a_write_between_keeps_both(trace):
    def function(x):
        early = x.sin()
        x.view(-1).add_(1)
        return early + x.sin()

    unit = trace(function, torch.zeros(3))
    assert run_passes([CommonSubexpressions], unit).after["aten.sin.default"] == 2
    assert torch.equal(unit.gm(torch.zeros(3)), function(torch.zeros(3)))


def test_reads_on_one_side_of_a_write_merge(trace):
    def function(x):
        early = x.sin() + x.sin()
        x.add_(1)
        return early + (x.sin() + x.sin())

    unit = trace(function, torch.zeros(3))
    assert run_passes([CommonSubexpressions], unit).after["aten.sin.default"] == 2
    assert torch.equal(unit.gm(torch.zeros(3)), function(torch.zeros(3)))


def test_what_is_written_to_later_is_not_merged(trace):
    def function(x):
        a, b = x.sin(), x.sin()
        a.add_(1)
        return a * b

    unit = trace(function, torch.ones(3))
    run = run_passes([CommonSubexpressions], unit)
    assert run.refused == {"the memory is written to elsewhere in the graph": 1}
    assert torch.equal(unit.gm(torch.ones(3)), function(torch.ones(3)))


def test_two_outputs_stay_two_tensors():
    def function(x):
        return x.sin(), x.sin()

    run = after(function, torch.randn(3))
    assert run.refused == {"two outputs would be one tensor object": 1}
    check_against_eager(function, lambda: [torch.ones(3)])


def test_items_of_merged_sequences_stay_two_tensors():
    def both(x):
        return x.split(2)[0], x.split(2)[0]

    def later(x):  # the view is dropped after the sequences were merged
        y = x.sin()
        return y.split(1)[0], y.split(1)[0].view(1)

    run = after(both, torch.randn(4))
    assert run.refused == {"two outputs would be one tensor object": 1}
    check_against_eager(both, lambda: [torch.ones(4)])
    check_against_eager(later, lambda: [torch.ones(4)])


def test_two_returned_views_stay_apart():
    def function(x):
        return x.sin().view(2, 3), x.sin().t()

    run = after(function, torch.randn(3, 2))
    assert run.refused == {"two outputs would share memory": 1}
    check_against_eager(function, lambda: [torch.ones(3, 2)])


def test_sizes_merge_by_node_not_by_hint():
    def function(x, y):
        return x.shape[0] * 2 + x, y.shape[0] * 2 + y, x.new_zeros(x.shape[0] * 2)

    run = after(function, torch.ones(3, 2), torch.ones(3, 5), dynamic=True)
    assert len(run.unit.fake_inputs) >= 4
    check_against_eager(function, lambda: [torch.ones(3, 2), torch.ones(4, 5)], dynamic=True)


def test_many_equal_outputs_cost_a_bounded_look():
    unit = capture(lambda x: [x.sin() for _ in range(100)], torch.ones(2))[0]
    run = run_passes([CommonSubexpressions], unit)
    assert run.refused.total() <= 100 * cse.MAX_KEPT_APART
    assert run.after["aten.sin.default"] == 100


def seeded():
    return torch.Generator().manual_seed(0)


def test_sections_are_not_merged():
    """A custom operator without a result may switch the stream: what follows runs elsewhere."""
    with torch.library._scoped_library("xpu_graph_test_section", "FRAGMENT") as library:
        library.define("switch(str name) -> ()")
        library.impl("switch", lambda name: None, "CompositeExplicitAutograd")
        torch.fx.node.has_side_effect(torch.ops.xpu_graph_test_section.switch.default)

        def program(x):
            merged = x.sin() + x.sin()
            torch.ops.xpu_graph_test_section.switch("side")
            return merged, x.sin()

        run = after(program, torch.ones(3))
        assert run.after["aten.sin.default"] == 2
        assert run.applied == {"cse": 1}
