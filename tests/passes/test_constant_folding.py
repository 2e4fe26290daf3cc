import pytest
import torch

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.passes import ConstantFolding, Phase
from xpu_graph.passes.constants import ConstantMap
from xpu_graph.testing import capture, check_against_eager, run_passes


def after(function, *inputs, dynamic=None, **config):
    return run_passes([ConstantFolding], capture(function, *inputs, dynamic=dynamic)[0], **config)


def constants(run):
    nodes = run.unit.gm.graph.find_nodes(op="get_attr")
    return [getattr(run.unit.gm, node.target) for node in nodes]


def test_folds_a_chain_to_its_last_tensor():
    def function(x):
        return x + (torch.tensor([1.0, 2.0]) * 2).sin()

    run = after(function, torch.ones(2))
    assert run.after == {"aten.add.Tensor": 1}
    (constant,) = constants(run)
    assert torch.equal(constant, torch.tensor([2.0, 4.0]).sin())
    check_against_eager(function, lambda: [torch.ones(2)])


def test_folds_results_of_operators_with_several():
    def function(x):
        values, places = torch.tensor([3.0, 1.0, 2.0]).sort()
        return x * values + places

    run = after(function, torch.ones(3))
    assert run.after == {"aten.mul.Tensor": 1, "aten.add.Tensor": 1}
    check_against_eager(function, lambda: [torch.ones(3)])


def test_folds_views_and_keeps_their_strides():
    def function(x):
        constant = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t()
        return x @ constant, x + torch.tensor([1.0, 2.0]).expand(2, 2)

    run = after(function, torch.ones(2, 2))
    assert run.after == {"aten.mm.default": 1, "aten.add.Tensor": 1}
    check_against_eager(function, lambda: [torch.ones(2, 2)])


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.bfloat16, torch.complex64])
def test_folds_dtypes(dtype):
    def function(x):
        return x + torch.tensor([1, 0]).to(dtype)

    assert after(function, torch.ones(2)).after == {"aten.add.Tensor": 1}
    check_against_eager(function, lambda: [torch.ones(2)])


def test_folds_constants_under_symbolic_sizes():
    run = after(lambda x: x + torch.tensor([1.0]) * 2, torch.ones(5), dynamic=True)
    assert run.after == {"aten.add.Tensor": 1}


def test_a_filled_tensor_alone_is_cheaper_made_than_kept():
    run = after(lambda x: x + torch.ones(2), torch.ones(2))
    assert run.after["aten.ones.default"] == 1
    assert constants(run) == []


def test_returned_constants_are_fresh_at_every_call():
    def function(x):
        return x + 1, torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]).view(2, 1)

    run = after(function, torch.ones(2))
    assert run.before == run.after
    compiled = check_against_eager(function, lambda: [torch.ones(2)])
    with torch.no_grad():
        compiled(torch.ones(2))[1].zero_()
        assert compiled(torch.ones(2))[1].tolist() == [1.0, 2.0]


def test_written_constants_are_made_anew_at_every_call():
    def function(x):
        counter = torch.tensor([1.0])
        counter.add_(x.sum())
        return counter * 2

    check_against_eager(function, lambda: [torch.ones(2)], calls=3)


def test_random_numbers_are_drawn_at_every_call():
    def function(x):
        return x + torch.rand(2).sin()

    assert after(function, torch.ones(2)).after["aten.rand.default"] == 1
    check_against_eager(function, lambda: [torch.ones(2)])


def test_symbolic_sizes_are_not_folded():
    def function(x):
        return x + torch.arange(x.shape[0]) * 2

    run = after(function, torch.ones(5), dynamic=True)
    assert run.before == run.after
    check_against_eager(function, lambda: [torch.ones(7)], dynamic=True)


def test_the_cap():
    def function(x):
        return x + (torch.arange(1000) * 2)

    assert after(function, torch.ones(1000)).after == {"aten.add.Tensor": 1}
    run = after(function, torch.ones(1000), fold_limit_bytes=100)
    assert run.before == run.after


def test_sparse_constants_are_left_alone(trace):
    def function(x):
        return x + (torch.eye(3) * 2).to_sparse().to_dense()

    unit = trace(function, torch.ones(3, 3))
    run_passes([ConstantFolding], unit)
    assert torch.equal(unit.gm(torch.ones(3, 3)), 1 + 2 * torch.eye(3))


def test_switched_off():
    function = lambda x: x + torch.tensor([1.0]) * 2  # noqa: E731
    run = after(function, torch.ones(2), constant_folding=False)
    assert run.before == run.after
    assert run.rounds == 0


def test_later_rounds_look_at_what_was_touched_only(monkeypatch):
    def function(x):
        for _ in range(20):
            x = x.sin()
        return x + torch.arange(2) * 3

    looked = []
    real = ConstantMap._look_at
    monkeypatch.setattr(
        ConstantMap, "_look_at", lambda self, node: looked.append(node) or real(self, node)
    )
    run = after(function, torch.ones(2))
    assert run.rounds == 2
    assert run.applied == {"constant_folding": 1}
    nodes = 1 + 20 + 3 + 1  # the input, the sines, arange, mul and add, the output
    assert len(looked) - nodes <= 3  # the constant, its reader, and what reads that


def test_what_becomes_constant_later_is_folded(make_pass):
    """A pass of a later phase drops what hid a constant; the next round folds what reads it."""

    def replace(unit):
        find = unit.gm.graph.find_nodes
        hidden = find(op="call_function", target=torch.ops.aten.where.self)
        return any(unit.rewriter.replace(node, node.args[1]) for node in hidden)

    def function(x):
        chosen = torch.where(x > 0, torch.arange(3.0), torch.arange(3.0))
        return x + ((chosen * 2).sin() + 1).cos()

    (unit,) = capture(function, torch.ones(3))
    run = run_passes([ConstantFolding, make_pass(replace, name="z", phase=Phase.clean)], unit)
    assert run.after == {"aten.add.Tensor": 1}
    (constant,) = constants(run)
    assert torch.equal(constant, ((torch.arange(3.0) * 2).sin() + 1).cos())


def test_autocast_does_not_reach_constants():
    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            w = torch.tensor([[1.0, 1e-3], [3.0, 4.0]])
            return (w @ w) + x, w.t() * x

    check_against_eager(function, lambda: [torch.ones(2, 2)])


def test_constants_keep_no_gradient_and_no_inference_mode():
    backend = XpuGraph(XpuGraphConfig(verify="each", enable_cache=False))
    compiled = torch.compile(lambda x: x + torch.tensor([1.0]) * 2, backend=backend)
    with torch.inference_mode():
        assert compiled(torch.ones(1)).item() == 3.0
    with torch.no_grad():
        assert compiled(torch.ones(1)).item() == 3.0
    x = torch.ones(1, requires_grad=True)
    compiled(x).backward()
    assert x.grad.item() == 1.0
