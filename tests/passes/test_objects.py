"""Outputs stay the tensor objects they are: of their own, or one that is returned twice."""

import operator

import pytest
import torch

from xpu_graph.passes.rewriter import Rewriter
from xpu_graph.stage import Stage, Unit

aten = torch.ops.aten


@pytest.fixture
def rewriter_of(trace):
    def rewriter_of(build):
        """A rewriter of a graph of which ``build`` makes the calls and says what it returns."""
        unit = trace(lambda x: x.sin(), torch.ones(2, 3))
        graph = torch.fx.Graph()
        x = graph.placeholder("x")
        graph.output(build(lambda target, *args: graph.call_function(target, args), x))
        gm = torch.fx.GraphModule({}, graph)
        values = {}
        mode = unit.fake_inputs[0].fake_mode
        for node in graph.nodes:
            if node.op == "placeholder":
                values[node] = unit.fake_inputs[0]
            elif node.op == "call_function":
                with mode:
                    values[node] = node.target(*torch.fx.map_arg(node.args, values.__getitem__))
            node.meta["val"] = values.get(node)
            node.meta["stack_trace"] = "made by a test"
        unit = Unit(Stage.inference, gm, unit.fake_inputs)
        unit.rewriter = Rewriter(unit)
        unit.rewriter.pass_name = "test"
        return unit.rewriter, {node.name: node for node in graph.nodes}

    return rewriter_of


def refusal(rewriter):
    ((_, reason),) = rewriter.refusals
    return reason


@pytest.mark.parametrize("form", [aten.positive.default, aten.contiguous.default])
def test_an_operator_that_returns_its_operand(rewriter_of, form):
    """The slice is of no use to anyone but what returns it: that is the output's object."""
    rewriter, nodes = rewriter_of(lambda call, x: (call(form, call(aten.alias.default, x)),))
    assert not rewriter.replace(nodes["alias_default"], nodes["x"])
    assert refusal(rewriter) == "an output would be a tensor object that lives on outside"


def test_a_write_returns_what_it_writes_to(rewriter_of):
    def build(call, x):
        y = call(aten.sin.default, x)
        return call(aten.alias.default, y), call(aten.add_.Tensor, y, 1)

    rewriter, nodes = rewriter_of(build)
    assert not rewriter.replace(nodes["alias_default"], nodes["sin_default"])
    assert refusal(rewriter) == "two outputs would be one tensor object"


def test_an_item_returned_twice_stays_one_object(rewriter_of):
    def twice(call, x):
        parts = call(aten.split.Tensor, call(aten.sin.default, x), 1)
        return call(operator.getitem, parts, 0), call(operator.getitem, parts, 0)

    rewriter, nodes = rewriter_of(twice)
    args = (nodes["sin_default"], 0, 0, 1)
    assert rewriter.replace_with_call(nodes["getitem"], aten.slice.Tensor, args) is None
    assert refusal(rewriter) == "two outputs would no longer be one tensor object"


def test_what_is_no_output_may_be_any_object(rewriter_of):
    def build(call, x):
        return (call(aten.cos.default, call(aten.positive.default, call(aten.alias.default, x))),)

    rewriter, nodes = rewriter_of(build)
    assert rewriter.replace(nodes["alias_default"], nodes["x"])
