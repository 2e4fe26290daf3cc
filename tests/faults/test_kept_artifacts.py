"""Faults of a cache: keys that leave something out, entries that are damaged, changed arguments."""

import copy
import pathlib

import pytest
import torch

from xpu_graph import XpuGraph, XpuGraphConfig, XpuGraphLocalCache
from xpu_graph.testing import assert_same


def run(function, *inputs, cache, **fields):
    """Compile in a fresh state, compare with eager, and say what the cache did."""
    torch._dynamo.reset()
    backend = XpuGraph(XpuGraphConfig(**fields), cache=cache)
    with torch.no_grad():
        twins = copy.deepcopy(inputs)
        got, want = torch.compile(function, backend=backend)(*inputs), function(*twins)
    exact = backend.config.opt_level < 2 or not backend.config.freeze  # batch norm is folded in
    limits = {} if exact else {"rtol": 1e-5, "atol": 1e-6}
    assert_same(got, want, bitwise=exact, **limits)
    assert_same(inputs, twins)
    return backend.reports[-1].graphs[0].cache


def with_scalar(value):
    return lambda x: x * value + 1


def with_tensor(value):
    return lambda x: x * torch.tensor(value)


def with_fill(value):
    return lambda x: x + torch.full((2,), value)


CONSTANTS = (1.0, 2.0, -0.0, 0.0, float("inf"), float("nan"), True, 1, 3)


@pytest.mark.parametrize("make", [with_scalar, with_tensor, with_fill], ids=lambda f: f.__name__)
def test_programs_that_differ_in_a_constant(tmp_path, make):
    cache = XpuGraphLocalCache(str(tmp_path))
    found = [run(make(value), torch.ones(2), cache=cache) for value in CONSTANTS]
    assert found[0] == "miss"
    assert [run(make(value), torch.ones(2), cache=cache) for value in CONSTANTS] == [
        "hit" for _ in CONSTANTS
    ]


@pytest.mark.parametrize("level", ["level1", "level2"])
def test_frozen_models_that_differ_in_their_weights(tmp_path, level):
    cache = XpuGraphLocalCache(str(tmp_path))
    for seed in (0, 1, 0):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)).eval()
        run(model, torch.ones(2, 3), cache=cache, freeze=True, opt_level=level)


INPUTS = {
    "float": lambda: torch.ones(4, 4),
    "double": lambda: torch.ones(4, 4, dtype=torch.float64),
    "int": lambda: torch.ones(4, 4, dtype=torch.int64),
    "transposed": lambda: torch.arange(16.0).view(4, 4).t(),
    "larger": lambda: torch.ones(5, 4),
    "flat": lambda: torch.ones(16),
    "sliced": lambda: torch.ones(4, 8)[:, ::2],
}


def test_inputs_that_differ(tmp_path):
    cache = XpuGraphLocalCache(str(tmp_path))
    found = [run(lambda x: (x * 1, x.sum(0)), make(), cache=cache) for make in INPUTS.values()]
    assert found == ["miss"] * len(INPUTS)


def test_settings_that_differ(tmp_path):
    cache = XpuGraphLocalCache(str(tmp_path))
    settings = (
        {},
        {"opt_level": "level2"},
        {"constant_folding": False},
        {"skip_patterns": ("cse",)},
    )
    for expected in ("miss", "hit"):
        for fields in settings:
            found = run(lambda x: x.sin() + x.sin(), torch.ones(2), cache=cache, **fields)
            assert found == expected


def cut(data):
    return data[: len(data) // 2]


def emptied(data):
    return b""


def flipped(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def foreign(data):
    return b"something else entirely"


def longer(data):
    return data + b"x"


@pytest.mark.parametrize(
    "damage", [cut, emptied, flipped, foreign, longer], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("freeze", [False, True])
def test_a_damaged_entry_is_a_miss(tmp_path, damage, freeze):
    model = torch.nn.Linear(3, 3).eval()
    cache = XpuGraphLocalCache(str(tmp_path))
    assert run(model, torch.ones(2, 3), cache=cache, freeze=freeze) == "miss"
    files = [path for path in pathlib.Path(tmp_path).rglob("*") if path.is_file()]
    for path in files:
        path.write_bytes(damage(path.read_bytes()))
    assert files
    assert run(model, torch.ones(2, 3), cache=cache, freeze=freeze) == "miss"
    assert run(model, torch.ones(2, 3), cache=cache, freeze=freeze) == "hit"


def many_arguments(x, c):
    return (
        x.clamp(-float("inf"), 1.5).masked_fill(x > 2, float("nan")),
        c * (1 - 2j),
        x.to(torch.bfloat16, memory_format=torch.channels_last),
        torch.nn.functional.gelu(x, approximate="tanh"),
        torch.zeros(2, dtype=torch.int8, device=x.device),
        x[..., 1:3].sum(dim=[0, -1], dtype=torch.float64),
        torch.full((1,), -0.0) * 1,
        torch.div(x, 3, rounding_mode="floor"),
        x.contiguous(memory_format=torch.channels_last),
        torch.arange(0, 10, 3),
        x.max(1),
        torch.tensor([[1, 2], [3, 4]]).t() * 2,
    )


@pytest.mark.parametrize("level", ["level1", "level2"])
def test_arguments_of_every_kind_survive(tmp_path, level):
    cache = XpuGraphLocalCache(str(tmp_path))
    inputs = torch.arange(48.0).view(1, 3, 4, 4), torch.tensor([1j, 2.0])
    found = [run(many_arguments, *inputs, cache=cache, opt_level=level) for _ in range(2)]
    assert found == ["miss", "hit"]


def test_writes_survive(tmp_path):
    def function(x, y):
        x.add_(1)
        y.t()[0].zero_()
        return x.view(-1), y * 1

    cache = XpuGraphLocalCache(str(tmp_path))
    found = [run(function, torch.ones(2, 3), torch.ones(2, 3), cache=cache) for _ in range(2)]
    assert found == ["miss", "hit"]
