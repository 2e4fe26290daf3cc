import math

import pytest
import torch

from tests.passes.folding import DTYPES, INF, NAN
from xpu_graph.passes import uniform
from xpu_graph.passes.rewriter import Rewriter
from xpu_graph.passes.uniform import as_dtype, known_scalar, same_number, unwritten

aten = torch.ops.aten


@pytest.fixture
def number_of(trace):
    """What is known of the result of a function."""

    def number_of(function, *inputs):
        unit = trace(function, *inputs)
        unit.rewriter = Rewriter(unit)
        return known_scalar(unit.gm.graph.output_node().args[0], unit)

    return number_of


X = torch.ones(2, 3)
KNOWN = {
    "zeros": (lambda x: torch.zeros(2), 0.0),
    "ones_like": (torch.ones_like, 1.0),
    "full": (lambda x: torch.full((2,), -0.0), -0.0),
    "full by dtype": (lambda x: torch.full((2,), 2.7, dtype=torch.int64), 2),
    "half": (lambda x: torch.full((2,), 0.1, dtype=torch.float16), 0.0999755859375),
    "new_full": (lambda x: x.new_full((2,), NAN), NAN),
    "fill": (lambda x: aten.fill.Scalar(x, 3), 3.0),
    "bool": (lambda x: torch.ones(2, dtype=torch.bool), True),
    "complex": (lambda x: torch.full((2,), 1j), 1j),
    "scalar_tensor": (lambda x: aten.scalar_tensor(INF), INF),
    "views": (lambda x: torch.ones(4).view(2, 2).t()[0].expand(3, 2), 1.0),
    "casts": (lambda x: torch.full((2,), 2.5).to(torch.int32).to(torch.float64), 2.0),
    "a constant": (
        lambda x: torch.tensor([2.0, 2.0]) + 0 * x[0, 0] if False else torch.tensor(2.0),
        2.0,
    ),
}
UNKNOWN = {
    "an input": lambda x: x,
    "arange": lambda x: torch.arange(2),
    "arithmetic": lambda x: torch.ones(2) + 1,
    "empty": lambda x: torch.empty(2),
    "a cast out of range": lambda x: torch.full((2,), 300).to(torch.uint8),
    "a cast of NaN": lambda x: torch.full((2,), NAN).to(torch.int64),
    "a constant of two numbers": lambda x: torch.tensor([1.0, 2.0]),
    "a constant of two zeros": lambda x: torch.tensor([0.0, -0.0]),
    "an empty constant": lambda x: torch.tensor([]),
    "read beyond": lambda x: torch.ones(4)[:2].as_strided((2,), (1,), 0),
    "sparse": lambda x: torch.zeros(3, layout=torch.sparse_coo),
    "tensor fill": lambda x: aten.fill.Tensor(x, torch.ones(())),
}


@pytest.mark.parametrize(("function", "number"), KNOWN.values(), ids=KNOWN)
def test_known(number_of, function, number):
    assert same_number(number_of(function, X), number)


@pytest.mark.parametrize("function", UNKNOWN.values(), ids=UNKNOWN)
def test_unknown(number_of, function):
    assert number_of(function, X) is None


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_constants(number_of, dtype):
    assert number_of(lambda x: torch.tensor([1, 1], dtype=dtype), X) == 1
    assert number_of(lambda x: torch.tensor([1, 0], dtype=dtype), X) is None


def test_equal_nans_of_a_constant_are_one_number(number_of):
    assert math.isnan(number_of(lambda x: torch.tensor([NAN, NAN]), X))


def test_a_constant_of_odd_layout(number_of):
    assert number_of(lambda x: torch.ones(6, dtype=torch.bfloat16)[::3][1:], X) == 1.0
    columns = torch.full((4, 2), 3.0)[:, 1:]
    assert uniform._only_element(columns) == 3.0
    assert uniform._only_element(torch.ones(6, dtype=torch.bfloat16)[5::3]) == 1.0
    assert uniform._only_element(torch.full((2,), 1j).conj()) == -1j


def test_the_cap(monkeypatch):
    assert uniform._only_element(torch.ones(100)) == 1.0
    monkeypatch.setattr(uniform, "MAX_CONSTANT_BYTES", 399)
    assert uniform._only_element(torch.ones(100)) is None


def test_a_constant_is_looked_at_once(trace, monkeypatch):
    looked = []
    real = uniform._only_element
    monkeypatch.setattr(uniform, "_only_element", lambda t: looked.append(t) or real(t))
    unit = trace(lambda x: x + torch.tensor([1.0]), X)
    unit.rewriter = Rewriter(unit)
    (constant,) = unit.gm.graph.find_nodes(op="get_attr")
    assert known_scalar(constant, unit) == known_scalar(constant, unit) == 1.0
    assert len(looked) == 1


def test_chains_are_followed_so_far(number_of):
    def function(x, links):
        f = torch.ones(3)
        for _ in range(links):
            f = f.view(3)
        return f

    assert number_of(lambda x: function(x, uniform.MAX_LINKS), X) == 1.0
    assert number_of(lambda x: function(x, uniform.MAX_LINKS + 1), X) is None


def test_what_is_written_to_is_unknown(trace):
    def function(x):
        f = torch.ones(3)
        g = f.view(3, 1)
        f.add_(1)
        return g

    unit = trace(function, X)
    unit.rewriter = Rewriter(unit)
    result = unit.gm.graph.output_node().args[0]
    assert known_scalar(result, unit) is None
    assert unwritten(result, unit) is None


def test_literals(number_of):
    assert known_scalar(2, None) == 2
    assert known_scalar("2", None) is None
    assert known_scalar(None, None) is None


@pytest.mark.parametrize(
    ("number", "dtype", "held"),
    [
        (0.5, torch.int64, 0),
        (-2.7, torch.int32, -2),
        (-1, torch.uint8, 255),
        (300, torch.uint8, None),
        (NAN, torch.int64, None),
        (1e300, torch.float32, None),
        (70000.0, torch.float16, None),
        (1j, torch.float32, None),
        (0.5, torch.bool, True),
        (2**63, torch.uint64, 2**63),
        (1, torch.complex64, 1 + 0j),
        (INF, torch.float16, INF),
    ],
)
def test_as_dtype(number, dtype, held):
    got = as_dtype(number, dtype)
    assert got == held
    assert type(got) is type(held)


def test_same_number():
    assert same_number(NAN, NAN)
    assert same_number(0.0, 0.0)
    assert not same_number(0.0, -0.0)
    assert not same_number(1, 1.0)
    assert not same_number(1, True)
