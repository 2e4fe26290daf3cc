"""Faults of dropping an operand that seems to do nothing: x + 0, x - 0, x * 1, x / 1."""

import pytest
import torch

from xpu_graph.testing import check_against_eager

DTYPES = (
    *(torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64),
    *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64),
)
ODD = [0.0, -0.0, 1.0, float("nan"), float("inf"), -float("inf")]


def values(dtype, shape=(2, 3)):
    count = torch.Size(shape).numel()
    if dtype.is_complex:
        real = torch.tensor((ODD * count)[:count])
        return torch.complex(real, real.flip(0)).reshape(shape).to(dtype)
    if dtype.is_floating_point:
        return torch.tensor((ODD * count)[:count]).reshape(shape).to(dtype)
    return (torch.arange(count) * 50 % 120).reshape(shape).to(dtype)


SCALARS = {
    f"{symbol}{neutral!r}": (lambda x, apply=apply, neutral=neutral: apply(x, neutral))
    for symbol, apply, neutrals in (
        ("+", lambda x, n: x + n, (0, 0.0, -0.0, False)),
        ("*", lambda x, n: x * n, (1, 1.0, True)),
        ("/", lambda x, n: x / n, (1, 1.0)),
    )
    for neutral in neutrals
} | {
    "-0": lambda x: x.sub(0) if x.dtype != torch.bool else x ^ False,
    "-0.0": lambda x: x.sub(0.0) if x.dtype != torch.bool else x | False,
    "+0j": lambda x: x + 0j,
    "*(1+0j)": lambda x: x * (1 + 0j),
    "0+": lambda x: 0 + x,
    "1*": lambda x: 1 * x,
    "0-": lambda x: 0 - x if x.dtype != torch.bool else ~x,
    "1/": lambda x: 1 / x,
    "rsub": lambda x: torch.rsub(x, 0) if x.dtype != torch.bool else x,
    "*0": lambda x: x * 0,
    "*0.0": lambda x: x * 0.0,
    "**1": lambda x: x**1,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scalars(backend, dtype):
    """All in one program: inside it, as its result, and seen through a division that shows -0.0."""

    def function(x):
        results = [call(x) for call in SCALARS.values()]
        return results, [(r + r) if r.dtype != torch.bool else ~r for r in results]

    check_against_eager(function, lambda: [values(dtype)], backend)


OTHERS = (torch.int64, torch.float32, torch.float64)
SHAPES = ((), (1,), (3,), (2, 1, 3))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_that_promote_or_broadcast(dtype):
    def function(x):
        results = []
        for other in OTHERS:
            for shape in SHAPES:
                zero, one = torch.zeros(shape, dtype=other), torch.ones(shape, dtype=other)
                results += [x + zero, zero + x, x * one, one * x, x / one, one / x]
                if x.dtype != torch.bool:
                    results += [x - zero, zero - x]
        return results

    check_against_eager(function, lambda: [values(dtype)], calls=1)


def test_alpha_is_not_lost(backend):
    def function(x):
        zero, results = torch.zeros(2, 3), []
        for alpha in (0, 1, 2, -1):
            results += [
                torch.add(zero, x, alpha=alpha) * 2,
                torch.add(x, zero, alpha=alpha) * 2,
                torch.sub(zero, x, alpha=alpha) * 2,
                torch.sub(x, 0, alpha=alpha) * 2,
                torch.rsub(x, zero, alpha=alpha) * 2,
            ]
        return results

    check_against_eager(function, lambda: [torch.arange(6.0).view(2, 3)], backend)


def scale(x):
    return x * 1


def shift(x):
    return x - 0


def copied(x):
    return x.clone()


def same_dtype(x):
    return x.to(x.dtype, copy=True)


VIEWS = {
    "itself": lambda y: y,
    "flat": lambda y: y.view(-1),
    "transposed": lambda y: y.t(),
    "row": lambda y: y[0],
    "split": lambda y: y.split(1),
    "expanded": lambda y: y.unsqueeze(0).expand(2, 2, 3),
    "detached": lambda y: y.detach(),
}


@pytest.mark.parametrize("nothing", [scale, shift, copied, same_dtype], ids=lambda f: f.__name__)
def test_a_result_is_never_the_input(backend, dynamic, nothing):
    def function(x):
        return [view(nothing(x)) for view in VIEWS.values()]

    make = lambda: [torch.arange(6.0).view(2, 3)]  # noqa: E731
    check_against_eager(function, make, backend, dynamic=dynamic)


@pytest.mark.parametrize("nothing", [scale, shift, copied], ids=lambda f: f.__name__)
def test_a_value_outlives_a_write_to_its_source(backend, dynamic, nothing):
    def function(x, y):
        kept = nothing(x)
        part = nothing(y[:, 1:])
        x.fill_(7)
        y.t()[1].neg_()
        return kept + 1, part.sum(0), kept

    make = lambda: [torch.arange(6.0).view(2, 3), torch.ones(2, 3)]  # noqa: E731
    check_against_eager(function, make, backend, dynamic=dynamic)
