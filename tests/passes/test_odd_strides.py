"""Strides that fake tensors do not show reach no output, however far they come from."""

import pytest
import torch

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.passes.odd_strides import OddStrides, doubt_from
from xpu_graph.passes.rewriter import Rewriter
from xpu_graph.testing import check_against_eager


def odd():
    """Four by one, as a column of a matrix of two columns."""
    return torch.arange(8.0).as_strided((4, 1), (1, 2))


CHAINS = {
    "one operator": lambda x: (x * 3).clone(memory_format=torch.contiguous_format),
    "two": lambda x: (x * 3).sin().clone(memory_format=torch.contiguous_format),
    "four": lambda x: x.sin().cos().exp().neg().clone(memory_format=torch.contiguous_format),
    "a view in between": lambda x: x.sin().t().cos().t().clone(),
    "two operands": lambda x: torch.where(x > 1, x.sin(), x.cos()).add(0.0).clone(),
    "a cast that is read": lambda x: (x > 0).unsqueeze(0).sum(0, True) * 2.0,
    "a fill": lambda x: (torch.ones_like(x), torch.zeros_like(x)[:1], torch.zeros_like(x) + 1),
    "a part of a fill": lambda x: torch.full_like(x, 3.0).chunk(2)[0],
    "a scan": lambda x: (x > 0).unsqueeze(0).cumsum(0).exp().float(),
    "a sum that keeps the dimension": lambda x: (x.sin().cumsum(0) + 0).clone(),
    "a read of what was replaced": lambda x: x.sin().clone().clone().cos().clone(),
}


@pytest.mark.parametrize("function", CHAINS.values(), ids=CHAINS)
@pytest.mark.parametrize("opt_level", ["level1", "level2"])
def test_outputs_keep_their_strides(function, opt_level):
    config = XpuGraphConfig(target="none", opt_level=opt_level, verify="each", enable_cache=False)
    backend = XpuGraph(config)
    check_against_eager(function, lambda: [odd()], backend)
    check_against_eager(function, lambda: [odd().t()], backend)


def test_doubt_spreads_to_what_reads_a_new_node(trace):
    unit = trace(lambda x, y: (y.sin().cos(), x.neg()), odd(), torch.ones(4, 1))
    x, y, sin, cos, neg = list(unit.gm.graph.nodes)[:5]
    odd_strides = OddStrides()
    assert odd_strides.may_differ(neg.meta["val"], [x])
    assert not odd_strides.may_differ(cos.meta["val"], [sin])
    sin.replace_input_with(y, x)
    odd_strides.follow([x])
    assert odd_strides.may_differ(cos.meta["val"], [sin])


def test_products_are_laid_out_plainly_whatever_is_multiplied(trace):
    def program(x, weight, bias):
        return torch.addmm(bias, x, weight.t()).sigmoid(), torch.bmm(x[None], weight.t()[None])

    x, weight, bias = torch.randn(4, 6)[:, ::2], torch.randn(1, 3), torch.randn(1)
    assert [one.stride() for one in program(x, weight, bias)] == [(1, 1), (4, 1, 1)]
    unit = trace(program, x, weight, bias)
    addmm, sigmoid = (
        next(node for node in unit.gm.graph.nodes if node.target is target)
        for target in (torch.ops.aten.addmm.default, torch.ops.aten.sigmoid.default)
    )
    odd_strides = OddStrides()
    column = addmm.args[2]
    assert odd_strides.may_differ(column.meta["val"], [column])
    assert not odd_strides.may_differ(sigmoid.meta["val"], [addmm])
    assert not odd_strides.may_differ(addmm.meta["val"], doubt_from(addmm))
    odd_strides.follow([column])
    assert not odd_strides.may_differ(sigmoid.meta["val"], [addmm])
    assert not odd_strides.reach(column, lambda node: node is sigmoid)


def test_other_sizes_are_not_in_doubt(trace):
    unit = trace(lambda x: (x.sin().sum(1), x.sin()), torch.ones(4, 3).t())
    odd_strides = OddStrides()
    for node in unit.gm.graph.nodes:
        if node.op == "call_function":
            assert not odd_strides.may_differ(node.meta["val"], node.all_input_nodes)


def test_a_long_chain_is_followed_once(trace):
    unit = trace(lambda x: [x := x.sin() for _ in range(2000)][-1], odd())
    rewriter = Rewriter(unit)
    *_, last, output = unit.gm.graph.nodes
    assert output.op == "output"
    assert not rewriter.replace(last, last.args[0].args[0])
    assert any("size 1 of an output" in reason for _, reason in rewriter.refusals)
