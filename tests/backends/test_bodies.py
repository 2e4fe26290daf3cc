"""Tensors that bodies hold become operands: none is left, and the graph computes what it did."""

import pytest
import torch
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import flex_attention

from xpu_graph.backends.bodies import without_body_constants
from xpu_graph.testing import assert_same, capture


def vector(*values):
    return torch.tensor(values)


def both_branches(flag, x):
    return torch.cond(flag, lambda x: x * vector(1.0, 2.0), lambda x: x - vector(3.0, 4.0), (x,))


def one_branch(flag, x):
    return torch.cond(flag, lambda x: x * vector(1.0, 2.0), lambda x: x.sin(), (x,))


def no_operands(flag, x):
    return x + torch.cond(flag, lambda: vector(1.0, 2.0), lambda: vector(3.0, 4.0), ())


def a_branch_of_a_branch(flag, x):
    def inner(x):
        return one_branch(x.sum() > torch.tensor(1.0), x)

    return torch.cond(flag, inner, lambda x: x + 1, (x,))


def twice(flag, x):
    return both_branches(flag, both_branches(flag, x))


def condition_and_body(flag, x):
    def more(i, x):
        return i < torch.tensor(3)

    def body(i, x):
        return i + torch.tensor(1), x * vector(0.5, 2.0)

    return while_loop(more, body, (torch.zeros((), dtype=torch.int64), x))


def scanned(flag, x):
    return scan(lambda carry, x: (carry * vector(0.5, 2.0), carry - x), x, torch.stack([x, x + 1]))


def mapped(flag, x):
    return map_over(lambda x, y: x * torch.tensor(0.5) + y, x, x + 1)


@torch.compiler.nested_compile_region
def layer(x):
    return x @ torch.tensor([[1.0, 2.0], [0.5, 1.0]])


def regions(flag, x):
    return layer(layer(x))


def attention(flag, x):
    q = x.expand(1, 1, 16, 2)
    return flex_attention(q, q, q, score_mod=lambda score, *_: score * torch.tensor(0.5))


PROGRAMS = (
    both_branches,
    one_branch,
    no_operands,
    a_branch_of_a_branch,
    twice,
    condition_and_body,
    scanned,
    mapped,
    regions,
    attention,
)


def held(gm, is_body=False):
    """The tensors that the bodies of a graph hold, at any depth."""
    read = [getattr(gm, node.target) for node in gm.graph.find_nodes(op="get_attr")]
    own = [value for value in read if isinstance(value, torch.Tensor)] if is_body else []
    bodies = [value for value in read if isinstance(value, torch.fx.GraphModule)]
    return own + [tensor for body in bodies for tensor in held(body, is_body=True)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_bodies_hold_becomes_operands(program):
    (unit,) = capture(program, torch.tensor(True), vector(0.25, 1.5))
    before, count = unit.gm.print_readable(print_output=False), len(held(unit.gm))
    lifted = without_body_constants(unit.gm)
    assert count > 0
    assert held(lifted) == []
    lifted.graph.lint()
    assert unit.gm.print_readable(print_output=False) == before
    assert len(held(unit.gm)) == count
    takes_flag = len(unit.fake_inputs) == 2
    for flag in (True, False):
        inputs = [*([torch.tensor(flag)] if takes_flag else []), vector(0.25, 1.5)]
        assert_same(lifted(*inputs), unit.gm(*inputs))


@pytest.mark.parametrize("program", [lambda x: x.sin(), lambda x: x * vector(1.0, 2.0)])
def test_a_graph_without_bodies_is_left_alone(program):
    (unit,) = capture(program, vector(0.25, 1.5))
    assert without_body_constants(unit.gm) is unit.gm
