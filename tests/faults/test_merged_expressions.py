"""Faults of merging equal expressions: keys that forget something, and results that become one."""

import pytest
import torch

from xpu_graph.testing import check_against_eager


def values(*shape, dtype=torch.float32):
    return (torch.arange(torch.Size(shape).numel()).reshape(shape) - 2).to(dtype)


DRAWS = {
    "rand": lambda x: torch.rand(x.shape),
    "randn_like": torch.randn_like,
    "randint": lambda x: torch.randint(0, 100, x.shape),
    "bernoulli": lambda x: torch.bernoulli(x.clamp(0.5, 0.5)),
    "normal": lambda x: torch.normal(x, 1.0),
    "dropout": lambda x: torch.nn.functional.dropout(x + 3, 0.5),
    "exponential": lambda x: torch.empty_like(x).exponential_(),
    "multinomial": lambda x: torch.multinomial(x.abs().view(-1) + 1, 3),
    "randperm": lambda x: torch.randperm(x.numel()),
}


def test_equal_draws_stay_two(backend, dynamic):
    def function(x):
        return [(draw(x), draw(x) * 1) for draw in DRAWS.values()]

    compiled = check_against_eager(function, lambda: [values(4, 5)], backend, dynamic=dynamic)
    with torch.no_grad():
        for first, second in compiled(values(4, 5)):
            assert not torch.equal(first, second)


RESULTS = {
    "pointwise": lambda x: x.square() - 1,
    "reduction": lambda x: x.sum(0),
    "copy": lambda x: x.clone(),
    "made": lambda x: torch.zeros(x.shape),
    "several": lambda x: x.sort(0),
    "view of a result": lambda x: (x + 1).t(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
@pytest.mark.parametrize("name", RESULTS)
def test_equal_results_stay_two_tensors(backend, name, dtype):
    call = RESULTS[name]
    compiled = check_against_eager(
        lambda x: (call(x), call(x)), lambda: [values(3, 4, dtype=dtype)], backend
    )
    with torch.no_grad():
        first, second = compiled(values(3, 4, dtype=dtype))
    one, two = (r if isinstance(r, torch.Tensor) else r[0] for r in (first, second))
    kept = two.clone()
    one.fill_(1 - int(one.reshape(-1)[0]))
    assert torch.equal(two, kept)


LOOKALIKES = {
    "dtype of a scalar": lambda x: (
        torch.full((3,), 1),
        torch.full((3,), 1.0),
        torch.full((3,), True),
    ),
    "type of an operand": lambda x: (x + 1, x + 1.0, x + True),
    "sign of a zero": lambda x: (x / 0.0, x / -0.0, x.clamp(0.0) / 0.0, torch.full((1,), -0.0) / x),
    "keyword": lambda x: (torch.add(x, x), torch.add(x, x, alpha=2), torch.add(x, x, alpha=-1)),
    "dimension": lambda x: (x.sum(0), x.sum(0, keepdim=True), x.sum((0,)), x.sum()),
    "target dtype": lambda x: (x.to(torch.float64), x.to(torch.float32), x.to(torch.int64)),
    "sum dtype": lambda x: (x.sum(dtype=torch.float64), x.sum(dtype=torch.float32)),
    "rounding": lambda x: (
        torch.div(x, 3, rounding_mode="floor"),
        torch.div(x, 3, rounding_mode="trunc"),
    ),
    "order of operands": lambda x: (x - 2, 2 - x, x / 2, 2 / x, x**2, 2**x, x // 2, 2 // x),
    "order of tensors": lambda x: (
        x - x.abs(),
        x.abs() - x,
        torch.atan2(x, x.abs()),
        torch.atan2(x.abs(), x),
    ),
    "layout": lambda x: (
        x.clone(memory_format=torch.contiguous_format),
        x.t().clone(),
        x.t().contiguous(),
    ),
    "not a number": lambda x: (
        x.masked_fill(x > 0, float("nan")),
        x.masked_fill(x > 0, float("inf")),
    ),
    "members of a list": lambda x: (
        torch.cat([x, x + 1]),
        torch.cat([x + 1, x]),
        torch.cat([x, x + 1], 1),
    ),
    "approximation": lambda x: tuple(
        torch.nn.functional.gelu(x.float(), approximate=how) for how in ("none", "tanh")
    ),
    "length of a slice": lambda x: (x[:2] + 1, x[:1] + 1, x[1:] + 1, x[::2] + 1),
}


FLOAT_ONLY = ("order of operands", "not a number")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
def test_expressions_that_look_alike_stay_two(backend, dtype):
    def function(x):
        return {
            name: call(x)
            for name, call in LOOKALIKES.items()
            if x.is_floating_point() or name not in FLOAT_ONLY
        }

    check_against_eager(function, lambda: [values(3, 4, dtype=dtype)], backend)


def add_in_place(x):
    x.add_(1)


def write_through_a_slice(x):
    x[1:].zero_()


def write_through_a_transpose(x):
    x.t()[0].mul_(-1)


def copy_into(x):
    x.copy_(x.clone().flip(0))


def write_by_index(x):
    x[torch.tensor([0, 2])] = 5


WRITES = (add_in_place, write_through_a_slice, write_through_a_transpose, copy_into, write_by_index)


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
def test_a_write_keeps_expressions_apart(backend, dynamic, write):
    def function(x):
        view = x.view(-1)
        before = x.sum(), view.sin().sum()
        write(x)
        return *before, x.sum(), view.sin().sum()

    check_against_eager(function, lambda: [values(3, 4)], backend, dynamic=dynamic)


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
def test_a_write_to_a_local_keeps_expressions_apart(backend, write):
    def function(x):
        local = x * 2
        before = local.sum()
        write(local)
        return before, local.sum(), (x * 2).sum()

    check_against_eager(function, lambda: [values(3, 4)], backend)
