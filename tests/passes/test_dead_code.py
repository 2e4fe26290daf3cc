import torch

from xpu_graph.config import XpuGraphConfig
from xpu_graph.debug.fuel import Fuel
from xpu_graph.passes import DeadCode, Pipeline
from xpu_graph.testing import capture, run_passes


def test_unused_chains_go(trace):
    def function(x):
        x.cos().exp().sum()
        x.sort()
        return x.sin()

    run = run_passes([DeadCode], trace(function, torch.randn(3)))
    assert run.after == {"aten.sin.default": 1}
    assert run.applied["dead_code"] == 3  # the chain, and each result of sort
    assert run.rounds == 2


def test_nothing_to_do_is_no_change(trace):
    run = run_passes([DeadCode], trace(lambda x: x.sin(), torch.randn(3)))
    assert run.rounds == 1
    assert not run.applied


def test_unused_inputs_stay(trace):
    run = run_passes([DeadCode], trace(lambda x, y: x.sin(), torch.randn(3), torch.randn(3)))
    assert len(run.unit.gm.graph.find_nodes(op="placeholder")) == 2


def test_unused_random_operators_stay(trace):
    def function(x):
        torch.rand_like(x)
        return torch.rand_like(x)

    unit = trace(function, torch.randn(3))
    assert run_passes([DeadCode], unit).after["aten.rand_like.default"] == 2
    torch.manual_seed(0)
    want = function(torch.ones(3))
    torch.manual_seed(0)
    assert torch.equal(unit.gm(torch.ones(3)), want)


def test_writes_stay(trace):
    def function(x):
        x.add_(1)
        return x.new_zeros(2)

    run = run_passes([DeadCode], trace(function, torch.randn(3)))
    assert run.after["aten.add_.Tensor"] == 1


def test_assertions_stay(trace):
    def function(x):
        torch._assert_async(x.sum() > 0)
        return x.sin()

    run = run_passes([DeadCode], trace(function, torch.ones(3)))
    assert sum(times for name, times in run.after.items() if "assert" in name) == 1
    assert run.after["aten.sum.default"] == 1


def test_what_binds_a_symbol_stays():
    def function(x):
        n = x.sum().item()
        torch._check(n >= 2)
        return x.new_zeros(n)

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        unit = capture(function, torch.ones(3, dtype=torch.int64))[0]
    run = run_passes([DeadCode], unit)
    assert run.after["aten._local_scalar_dense.default"] == 1
    assert run.unit.gm(*[torch.ones(3, dtype=torch.int64)])[0].shape == (3,)


def test_unused_size_arithmetic_goes():
    def function(x):
        return x.sin()

    unit = capture(function, torch.ones(3), dynamic=True)[0]
    graph = unit.gm.graph
    size = next(iter(graph.nodes))
    with graph.inserting_after(list(graph.nodes)[1]):
        unused = graph.call_function(torch.ops.aten.sym_size.int, (list(graph.nodes)[1], 0))
    unused.meta["val"] = size.meta["val"]
    unused.meta["stack_trace"] = "here"
    assert run_passes([DeadCode], unit).after == {"aten.sin.default": 1}


def test_branches_go_unless_something_inside_has_to_stay():
    def pure(x):
        torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return x * 2

    def random(x):
        torch.cond(x.sum() > 0, lambda x: x * torch.rand_like(x), lambda x: x.cos(), (x,))
        return x * 2

    for function, left in ((pure, 0), (random, 1)):
        run = run_passes([DeadCode], capture(function, torch.ones(3))[0])
        assert run.after["cond"] == (left if run.before["cond"] else 0)


def test_fuel_stops_it(trace):
    def function(x):
        x.cos(), x.exp()
        return x.sin()

    unit = trace(function, torch.randn(3))
    Pipeline([DeadCode], XpuGraphConfig(verify="each")).run(unit, [Fuel(1)])
    assert unit.rewriter.firings == {"dead_code": 1}
    assert unit.rewriter.refusals["dead_code", "out of fuel"] > 0
