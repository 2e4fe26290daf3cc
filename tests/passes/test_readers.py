"""A value is replaced by one that is laid out in another way: what reads it follows."""

import pytest
import torch

from xpu_graph import fx as graph_facts
from xpu_graph.fakes import run_fake
from xpu_graph.passes.rewriter import Rewriter
from xpu_graph.testing import assert_same, check_against_eager

aten = torch.ops.aten


def swap(trace, function, *, old="clone", new="t"):
    """Let the readers of a contiguous copy read what was copied; returns (done, rewriter, unit)."""
    unit = trace(function, torch.randn(3, 4))
    unit.rewriter = Rewriter(unit)
    unit.rewriter.pass_name = "test"
    nodes = {node.name: node for node in unit.gm.graph.nodes}
    done = unit.rewriter.replace(nodes[old], nodes[new], relayout=True)
    unit.gm.recompile()
    return done, unit


def copy(x):
    return x.t().clone(memory_format=torch.contiguous_format)


FINE = {
    "a reduction": lambda x: copy(x).sum(0),
    "a product": lambda x: copy(x) @ torch.ones(3, 2),
    "a pointwise chain to a product": lambda x: copy(x).sin().cos() @ torch.ones(3, 2),
    "a view of it": lambda x: copy(x).unsqueeze(0).sum((0, 1)),
    "a contiguous copy": lambda x: copy(x).sin().clone(memory_format=torch.contiguous_format),
}


@pytest.mark.parametrize("function", FINE.values(), ids=FINE)
def test_readers_follow(trace, function):
    done, unit = swap(trace, function)
    assert done
    for node in unit.gm.graph.nodes:
        if node.op == "call_function":
            fresh = run_fake(node, graph_facts.fake_mode_of(unit.gm.graph))
            assert graph_facts.value_difference(node.meta["val"], fresh) is None
    x = torch.randn(3, 4)
    assert_same(unit.gm(x), function(x), bitwise=False, rtol=1e-6, atol=1e-6)


REFUSED = {
    "an output": (copy, "two outputs would be|laid out|share"),
    "a pointwise output": (lambda x: copy(x).sin(), "an output would be laid out in another way"),
    "a view that is an output": (
        lambda x: copy(x).unsqueeze(0),
        "an output would be laid out in another way",
    ),
    "a flat view": (lambda x: copy(x).view(12).sum(), "could be refused on real tensors"),
    "a write": (lambda x: copy(x).add_(1).sum(), "would read a tensor|is written to"),
    "whole storage": (lambda x: copy(x).as_strided((3,), (1,)).sum(), "beyond the tensor"),
    "a random operator": (lambda x: torch.bernoulli(copy(x).sigmoid()).sum(), "laid out"),
}


@pytest.mark.parametrize(("function", "why"), REFUSED.values(), ids=REFUSED)
def test_refused(trace, function, why):
    done, unit = swap(trace, function)
    assert not done
    ((_, reason),) = unit.rewriter.refusals
    assert any(part in reason for part in why.split("|"))


def test_a_long_chain_is_refused(trace):
    def function(x):
        y = copy(x)
        for _ in range(50):
            y = y.sin()
        return y.sum(0)

    done, unit = swap(trace, function)
    assert not done
    ((_, reason),) = unit.rewriter.refusals
    assert reason == "too many tensors would be laid out in another way"


def test_strides_matter_unless_relayout_is_asked_for(trace):
    unit = trace(lambda x: copy(x).sum(0), torch.randn(3, 4))
    unit.rewriter = Rewriter(unit)
    nodes = {node.name: node for node in unit.gm.graph.nodes}
    assert not unit.rewriter.replace(nodes["clone"], nodes["t"])


def test_odd_strides_of_size_1_are_refused(trace):
    """Real operators and fake ones lay out their results in different ways then."""

    def function(x):
        odd = x.as_strided((1, 4), (7, 1))
        return odd.clone(memory_format=torch.contiguous_format).sum(0)

    done, unit = swap(trace, function, new="as_strided")
    assert not done
    ((_, reason),) = unit.rewriter.refusals
    assert reason == "a dimension of size 1 has an unusual stride"


def test_a_view_that_only_fake_tensors_allow():
    x = torch.arange(27.0).view(3, 9)
    check_against_eager(lambda x: torch.cat([x[:, :6:2].unsqueeze(1)]).view(9).sum(), lambda: [x])
