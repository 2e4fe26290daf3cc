import pytest
import torch

from xpu_graph.passes import FoldCopies
from xpu_graph.testing import capture, check_against_eager, run_passes


def after(function, *inputs, **how):
    return run_passes([FoldCopies], capture(function, *inputs, **how)[0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.clone().sin(),
        lambda x: x.clone().clone().sin(),
        lambda x: x.clone(memory_format=torch.contiguous_format).sin(),
        lambda x: x.to(torch.float32, copy=True).sin(),
        lambda x: torch.ops.aten._to_copy(x, device="cpu").sin(),
    ],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_drops_copies(function, dynamic):
    run = after(function, torch.randn(3, 4), dynamic=dynamic)
    assert run.after == {"aten.sin.default": 1}
    check_against_eager(function, lambda: [torch.ones(3, 4)], dynamic=dynamic)


def test_a_copy_of_a_copy_that_is_returned_is_one_copy():
    run = after(lambda x: x.clone().clone(), torch.randn(3))
    assert run.after == {"aten.clone.default": 1}
    check_against_eager(lambda x: x.clone().clone(), lambda: [torch.ones(3)])


def test_views_of_a_dropped_copy_read_its_source():
    def function(x):
        return x.clone().view(6)[1:].sin()

    run = after(function, torch.randn(2, 3))
    assert run.after["aten.clone.default"] == 0
    check_against_eager(function, lambda: [torch.ones(2, 3)])


REFUSED = {
    "stride": (lambda x: x.t().clone(memory_format=torch.contiguous_format).sin(), "stride"),
    "expanded": (lambda x: x.expand(5, 3, 4).clone().sin(), "stride"),
    "dtype": (lambda x: x.double().sin(), "dtype"),
    "output of an input": (
        lambda x: x.clone(),
        "an output would be a tensor object that lives on outside",
    ),
    "view of it returned": (
        lambda x: x.clone().view(12),
        "an output would share memory with an input or a constant",
    ),
    "two outputs": (
        lambda x: (y := x.sin(), y.clone()),
        "two outputs would be one tensor object",
    ),
    "two returned views": (
        lambda x: ((y := x.sin()).view(12), y.clone().view(12)),
        "two outputs would share memory",
    ),
}


@pytest.mark.parametrize(("function", "reason"), REFUSED.values(), ids=REFUSED)
def test_refuses(function, reason):
    run = after(function, torch.randn(3, 4))
    assert run.before == run.after
    assert len(run.refused) == 1
    assert next(iter(run.refused)).startswith(reason)
    check_against_eager(function, lambda: [torch.ones(3, 4)])


def test_refuses_a_smaller_source_of_a_returned_copy():
    def function(x):
        return x.sin()[:2].clone()

    run = after(function, torch.randn(3))
    assert run.refused == {"an output's memory would have another size": 1}
    check_against_eager(function, lambda: [torch.ones(3)])


def test_refuses_pinned_memory(trace, monkeypatch):
    monkeypatch.setenv("XPUGRAPH_VERIFY", "final")  # fake tensors know no pinned memory
    unit = trace(lambda x: x.clone().sin(), torch.randn(3))
    (node,) = unit.gm.graph.find_nodes(op="call_function", target=torch.ops.aten.clone.default)
    node.target, node.kwargs = torch.ops.aten._to_copy.default, {"pin_memory": True}
    run = run_passes([FoldCopies], unit)
    assert run.refused == {"the copy lives in pinned memory": 1}


@pytest.mark.parametrize("write", ["x.add_(1)", "y.add_(1)", "x.view(-1).add_(1)"])
def test_refuses_where_either_side_is_written(trace, write):
    def function(x):
        y = x.clone()
        exec(write, {"x": x, "y": y})
        return y * x

    unit = trace(function, torch.ones(3))
    run = run_passes([FoldCopies], unit)
    assert run.refused == {"the memory is written to elsewhere in the graph": 1}
    assert torch.equal(unit.gm(torch.ones(3)), function(torch.ones(3)))


def test_input_mutation_after_a_copy():
    def function(x):
        y = x.clone()
        x.mul_(3)
        return y + x

    check_against_eager(function, lambda: [torch.ones(3)])


def test_refuses_where_a_view_reads_the_whole_storage(trace):
    def function(x):
        return x[1:].clone().as_strided((2,), (1,), 0).sin()

    unit = trace(function, torch.arange(4.0))
    run = run_passes([FoldCopies], unit)
    assert run.after["aten.clone.default"] == 1
    assert torch.equal(unit.gm(torch.arange(4.0)), function(torch.arange(4.0)))

    unit = trace(lambda x: x.clone().as_strided((2,), (1,), 0).sin(), torch.arange(4.0))
    run = run_passes([FoldCopies], unit)
    assert run.refused == {"a view reads memory beyond the tensor": 1}


def test_lazy_bits_and_empty_tensors():
    check_against_eager(lambda x: x.conj().clone() * 2, lambda: [torch.ones(3) * 1j])
    check_against_eager(lambda x: torch._neg_view(x).clone() + 1, lambda: [torch.ones(3)])
    check_against_eager(lambda x: (x.clone(), x.clone().view(0)), lambda: [torch.ones(0, 3)])


def test_sparse_tensors_are_left_alone(trace):
    def function(x):
        return x.to_sparse().clone().to_dense()

    unit = trace(function, torch.eye(3))
    run = run_passes([FoldCopies], unit)
    assert run.refused == {"the tensor has no ordinary storage": 1}
    assert torch.equal(unit.gm(torch.eye(3)), torch.eye(3))


def test_odd_strides_reach_no_output():
    """Fake tensors do not show which stride a dimension of size 1 will have."""
    check_against_eager(
        lambda x: (x * 3).clone(memory_format=torch.contiguous_format),
        lambda: [torch.arange(8.0).as_strided((4, 1), (1, 2))],
    )
