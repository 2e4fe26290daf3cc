"""Calls that make a size from data do not share an operand where they are traced again."""

import pytest
import torch

from xpu_graph.backends.sizes import with_own_operands
from xpu_graph.passes.cse import CommonSubexpressions
from xpu_graph.testing import assert_same, capture, run_passes


@pytest.fixture
def merged():
    """Two sizes from one mask, which was computed twice."""

    def program(x):
        return (x > 0.3).nonzero(), x[x > 0.3]

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        (unit,) = capture(program, torch.tensor([0.1, 0.5, 0.7]))
    run_passes([CommonSubexpressions], unit)
    return unit.gm


def masks(gm):
    return [node for node in gm.graph.nodes if node.target == torch.ops.aten.gt.Scalar]


def test_each_has_a_mask_of_its_own(merged):
    assert len(masks(merged)) == 1
    apart = with_own_operands(merged)
    assert [len(mask.users) for mask in masks(apart)] == [1, 1]
    assert len(masks(merged)) == 1
    x = torch.tensor([0.4, 0.1, 0.6])
    assert_same(apart(x), merged(x))
    assert with_own_operands(apart) is apart


def test_other_graphs_are_left_alone():
    (unit,) = capture(lambda x: (x > 0.3).sum() + (x > 0.3).any(), torch.tensor([0.1, 0.5]))
    assert with_own_operands(unit.gm) is unit.gm
