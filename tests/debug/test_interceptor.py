"""The interceptor: silent where all is well, and it names what is not."""

import pytest
import torch
from torch import fx

from xpu_graph import XpuGraph, XpuGraphConfig, XpuGraphError
from xpu_graph.artifact import SerializableGraphModule
from xpu_graph.debug.interceptor import Interceptor
from xpu_graph.debug.memory import copies_of, sharing
from xpu_graph.passes import DEFAULT_PASSES, Pipeline
from xpu_graph.passes.base import Phase, RewritePass
from xpu_graph.testing import assert_same, check_against_eager


def intercepting(tolerances=True, passes=DEFAULT_PASSES, **fields):
    config = XpuGraphConfig(enable_interceptor=tolerances, enable_cache=False, **fields)
    backend = XpuGraph(config)
    backend._pipeline = Pipeline(passes, config)
    return backend


def pair(function, other, tolerances=None):
    """An interceptor that compares two functions of the same inputs."""
    artifact = SerializableGraphModule(fx.symbolic_trace(other))
    return Interceptor(artifact, fx.symbolic_trace(function), "graph", tolerances or {})


class SineForCosine(RewritePass):
    """Wrong on purpose."""

    name = "sine_for_cosine"
    phase = Phase.simplify
    targets = frozenset({torch.ops.aten.cos.default})

    def visit(self, node, unit):
        unit.rewriter.replace_with_call(node, torch.ops.aten.sin.default, node.args)


class WriteLess(RewritePass):
    """Wrong on purpose: what is written to an input loses its last step."""

    name = "write_less"
    targets = frozenset({torch.ops.aten.mul.Tensor})

    def visit(self, node, unit):
        unit.rewriter.replace_with_call(node, torch.ops.aten.add.Tensor, node.args)


def program(x, y, noise):
    z = y.cos()
    x.mul_(3)
    return y + 0, z * torch.rand_like(z), torch.rand(2), noise.normal_()


def inputs():
    return [torch.ones(3), torch.ones(3), torch.zeros(3)]


@pytest.mark.parametrize("level", ["level1", "level2"])
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("freeze", [False, True])
def test_results_and_draws_are_those_of_eager(level, dynamic, freeze):
    backend = intercepting(opt_level=level, freeze=freeze)
    check_against_eager(program, inputs, backend, calls=3, dynamic=dynamic)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    check_against_eager(model.eval(), lambda: [torch.ones(2, 4)], backend)


def test_a_wrong_output_is_named():
    backend = intercepting(passes=[*DEFAULT_PASSES, SineForCosine])
    with torch.no_grad(), pytest.raises(XpuGraphError, match=r"output 1 \(mul") as caught:
        torch.compile(program, backend=backend)(*inputs())
    assert "_inference" in str(caught.value)


def test_a_wrong_write_is_named():
    def function(x, y):
        x.copy_(y * 3)
        return x.shape[0]

    backend = intercepting(passes=[WriteLess])
    with torch.no_grad(), pytest.raises(XpuGraphError, match=r"input \d .*after the call"):
        torch.compile(function, backend=backend)(torch.ones(3), torch.ones(3))


def test_tolerances():
    wide = pair(lambda x: (x + 1,), lambda x: (x + 1.01,), {"rtol": 0.0, "atol": 0.1})
    wide(torch.ones(2))
    assert wide.compared == 1
    narrow = pair(lambda x: (x + 1,), lambda x: (x + 1.01,), {"rtol": 0.0, "atol": 1e-3})
    with pytest.raises(XpuGraphError, match="output 0"):
        narrow(torch.ones(2))
    assert narrow.compared == 0


@pytest.mark.parametrize(
    ("function", "other", "what"),
    [
        (lambda x: (x + 1,), lambda x: (x + 2,), "output 0"),
        (lambda x: (x + 1,), lambda x: ((x + 1).double(),), "output 0"),
        (lambda x: (x, x + 1), lambda x: (x + 0, x + 1), "memory"),
        (lambda x: (x + 0,), lambda x: (x,), "memory"),
        (lambda x: (x.sum(), 3), lambda x: (x.sum(), 4), "output 1"),
        (lambda x: (x.sum(), None), lambda x: (x.sum(), 0), "output 1"),
        (lambda x: (x, x), lambda x: (x,), "number of outputs"),
    ],
)
def test_each_difference_is_found(function, other, what):
    pair(function, function)(torch.ones(3))
    with pytest.raises(XpuGraphError, match=what):
        pair(function, other)(torch.ones(3))


def test_not_a_number_equals_itself():
    pair(lambda x: (x / x, float("nan")), lambda x: (x / x, float("nan")))(torch.zeros(2))


def test_inputs_that_share_memory():
    def function(x, y):
        x[0] = -1
        y.view(-1)[:5] = 8
        return x * 1, y.sum()

    def overlapping():
        memory = torch.arange(30.0)
        return [memory[:12].view(3, 4), memory[6:18].view(3, 4)]

    def twice():
        x = torch.ones(3, 4)
        return [x, x]

    for make in (overlapping, twice):
        check_against_eager(function, make, intercepting())
    # The same on the artifact itself, where no wrapper has merged the inputs.
    written = fx.symbolic_trace(lambda x, y: (x.add_(1), y * 2))
    for make in (overlapping, twice):
        Interceptor(SerializableGraphModule(written), written, "graph", {})(*make())


def test_copies_share_memory_as_the_originals():
    memory = torch.arange(40.0)
    bytes_of = memory.view(torch.uint8)
    values = [
        memory[2:8],
        memory[4:10].view(2, 3).t(),
        torch.ones(3),
        7,
        memory.as_strided((3, 3), (0, 1), 30),
        torch.tensor([1 + 2j]).conj(),
        torch.tensor([1 + 2j]).conj().imag,
        torch.eye(2).to_sparse(),
        torch.zeros(0),
        torch.nn.Parameter(memory[1:3]),
        bytes_of[8:20],
        torch.from_numpy(memory.numpy())[3:5],
    ]
    copies = copies_of(values)
    plain = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor)]
    for position in plain:
        assert_same(copies[position], values[position].detach())
    assert sharing(copies) == sharing(values)
    values[0].fill_(-5)
    assert copies[0][0] == 2
    copies[11].fill_(9)
    assert copies[0].tolist() == [2, 9, 9, 5, 6, 7] and values[11].tolist() == [-5, -5]


def test_training_graphs_are_compared_too():
    backend = intercepting()
    x = torch.ones(3, requires_grad=True)
    compiled = torch.compile(lambda x: (x * x).cos(), backend=backend)
    compiled(x).sum().backward()
    twin = torch.ones(3, requires_grad=True)
    (twin * twin).cos().sum().backward()
    assert_same(x.grad, twin.grad, bitwise=False)
