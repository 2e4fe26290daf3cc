"""Guards of sizes that were stored: they hold or not, and only arithmetic is evaluated."""

import pytest
import torch

from xpu_graph import XpuGraph
from xpu_graph.testing import capture
from xpu_graph.torch_compat import evaluate_shape_guards, shape_facts, shape_guards


def inputs(rows):
    def function(x):
        return x * 2 if x.shape[0] > 5 else x + 1

    (unit,) = capture(function, torch.ones(rows, 7), dynamic=True)
    return unit.fake_inputs


def test_guards_hold_where_they_were_made():
    small, large = inputs(4), inputs(8)
    guards = shape_guards(small)
    assert guards and evaluate_shape_guards(guards, inputs(3))
    assert not evaluate_shape_guards(guards, large)
    assert evaluate_shape_guards(shape_guards(large), inputs(9))


def size_of(values):
    return next(value for value in values if isinstance(value, torch.SymInt))


def test_what_was_known_before_is_left_out():
    values = inputs(8)
    known = shape_facts(values)
    assert shape_guards(values, known) is None
    assert size_of(values) % 2 == 0
    added = shape_guards(values, known)
    assert shape_guards(values) != added
    assert evaluate_shape_guards(added, inputs(10))
    assert evaluate_shape_guards(added, inputs(4)), "the others are not asked"
    assert not evaluate_shape_guards(added, inputs(9))


def test_each_of_several_guards_has_to_hold():
    values = inputs(8)
    size = size_of(values)
    assert (size % 4 == 0) | (size % 6 == 0)
    assert size % 5 == 3
    guards = shape_guards(values)
    assert evaluate_shape_guards(guards, inputs(48))
    assert not evaluate_shape_guards(guards, inputs(12)), "'a or b and c' is another thing"


@pytest.mark.parametrize(
    "text",
    [
        "[].append(1) is None",
        "__import__('os').getpid() > 0",
        "(lambda: True)()",
        "L.__class__ is not None",
        "open('x') is None",
        "torch.load('x') is None",
        "[x for x in (1,)] == [1]",
        "L['t99'] > 2",
        "unknown > 2",
        "1 // 0 > 2",
        "1 +",
        "",
    ],
)
def test_what_is_not_plain_arithmetic_does_not_hold(text):
    assert not evaluate_shape_guards(text, inputs(4))


def test_a_number_that_became_a_symbol_beside_a_symbolic_size():
    compiled = torch.compile(lambda x, scale: (x * scale, scale * 2), backend=XpuGraph())
    for rows in (4, 5, 6, 7):
        x, scale = torch.randn(rows, 3), rows + 0.5
        with torch.no_grad():
            got = compiled(x, scale)
        assert torch.equal(got[0], x * scale) and got[1] == scale * 2
