"""The graph of a replacement: recorded, or traced where that does not do, and once for alike."""

import pytest
import torch

from xpu_graph.errors import PassError
from xpu_graph.fx import aten, fake_mode_of, placeholders
from xpu_graph.passes.patterns.replacement import Replacements
from xpu_graph.testing import capture
from xpu_graph.torch_compat import FakeTensorMode
from xpu_graph.torch_compat.recording import NotRecorded, recorded


def graph_of(function, *tensors):
    mode = FakeTensorMode()
    with mode, torch.no_grad():
        return recorded(function, [mode.from_tensor(one) for one in tensors])


def test_what_is_recorded_computes_the_same():
    def function(x, y):
        left, right = torch.split(x * y, 2, dim=1)
        mean, deviation = torch.ops.aten.var_mean(left)
        return left.t() + mean, right * deviation

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    graph = graph_of(function, x, y)
    module = torch.fx.GraphModule({}, graph)
    for got, want in zip(module(x, y), function(x, y), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert all("val" in node.meta for node in graph.nodes if node.op != "output")


def test_composite_operators_are_taken_apart():
    graph = graph_of(lambda x: torch.nn.functional.linear(x, x), torch.randn(3, 3))
    assert aten.linear.default not in {node.target for node in graph.nodes}


@pytest.mark.parametrize("function", [lambda x: x.sin().add_(1), lambda x: torch.zeros(3).copy_(x)])
def test_writes_are_not_recorded(function):
    with pytest.raises(NotRecorded):
        graph_of(function, torch.randn(3))


def nodes(function, *tensors):
    unit = capture(function, *tensors)[0]
    return placeholders(unit.gm.graph), fake_mode_of(unit.gm.graph)


def test_operands_alike_are_traced_once():
    calls = []

    def function(x, factor):
        calls.append(factor)
        return x * factor

    given, mode = nodes(
        lambda a, b, c: a * b * c.sum(), *(torch.ones(2), torch.ones(2), torch.ones(3))
    )
    made = Replacements("p", function)
    first = made.graph([given[0], 2], None, mode)
    assert made.graph([given[1], 2], None, mode) is first
    assert made.graph([given[2], 2], None, mode) is not first
    assert made.graph([given[0], 3], None, mode) is not first
    assert calls == [2, 2, 3]


def test_a_write_to_memory_of_its_own_becomes_a_plain_call():
    given, mode = nodes(lambda a: a * 2, torch.ones(2))
    graph = Replacements("p", lambda x: x.sin().add_(1)).graph([given[0]], None, mode)
    assert not any(node.target == aten.add_.Tensor for node in graph.nodes)


def test_a_tensor_of_its_own_is_an_error_that_names_the_pattern():
    own = torch.ones(2)
    given, mode = nodes(lambda a: a * 2, torch.ones(2))
    with pytest.raises(PassError, match="pattern 'p' failed on what was found"):
        Replacements("p", lambda x: x * own).graph([given[0]], None, mode)
