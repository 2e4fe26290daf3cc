"""Sums of three tensors or more."""

import pytest
import torch

from tests.passes.patterns.structure.finding import find

A, B, C, D = (torch.randn(3, 4) for _ in range(4))

FOUND = {
    "one after the other": lambda a, b, c, d: a + b + c + d,
    "the other way round": lambda a, b, c, d: a + (b + (c + d)),
    "two and two": lambda a, b, c, d: (a + b) + (c + d),
    "of Python's sum": lambda a, b, c, d: sum([b, c, d], a),
    "one of them twice": lambda a, b, c, d: a + b + a,
    "of views": lambda a, b, c, d: a.t() + b.t() + c.t(),
}


@pytest.mark.parametrize("function", FOUND.values(), ids=FOUND)
@pytest.mark.parametrize("dynamic", [None, True])
def test_it_is_found(function, dynamic):
    applied, _ = find("AddN", function, A, B, C, D, dynamic=dynamic)
    assert applied == 1


@pytest.mark.parametrize("dtype", [torch.int32, torch.bfloat16, torch.float64, torch.complex64])
def test_dtypes(dtype):
    given = [(one * 4).to(dtype) for one in (A, B, C, D)]
    assert find("AddN", FOUND["two and two"], *given)[0] == 1


def test_what_is_read_elsewhere_is_an_operand():
    def function(a, b, c, d):
        first = a + b
        return first + c + d, first.sin()

    assert find("AddN", function, A, B, C, D)[0] == 1


def test_two_trees_with_a_part_in_common():
    def function(a, b, c, d):
        shared = a + b + c
        return shared + d + a, shared * 2

    assert find("AddN", function, A, B, C, D)[0] == 2


LEFT = {
    "two alone": lambda a, b, c, d: a + b,
    "a scaled sum": lambda a, b, c, d: torch.add(torch.add(a, b, alpha=2), c, alpha=2),
    "a number": lambda a, b, c, d: a + b + 3,
    "broadcasting": lambda a, b, c, d: a + b[:1] + c[:, :1],
    "promotion": lambda a, b, c, d: a.double() + b + c,
    "a product": lambda a, b, c, d: a * b * c,
}


@pytest.mark.parametrize("function", LEFT.values(), ids=LEFT)
def test_left_alone(function):
    assert find("AddN", function, A, B, C, D)[0] == 0


def test_an_operand_that_is_written_to_afterwards():
    def function(a, b, c, d):
        total = a + b + c
        a.add_(1)
        return total

    applied, refused = find("AddN", function, A, B, C, D)
    assert applied == 0
    assert "a read would move across a write" in refused


def test_no_elements_keep_the_strides_that_eager_gives():
    empty = [torch.randn(0, 4) for _ in range(4)]
    applied, refused = find("AddN", FOUND["two and two"], *empty)
    assert applied == 0
    assert "an empty tensor may have other strides than its fake value" in refused
