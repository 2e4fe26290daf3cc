"""A hit adds the guards that compiling added, and none of the program that filled the cache."""

import pytest
import torch

from xpu_graph.artifact import SerializableGraphModule
from xpu_graph.cache import XpuGraphMemoryCache
from xpu_graph.compiler import XpuGraph
from xpu_graph.config import XpuGraphConfig
from xpu_graph.container import unpack
from xpu_graph.testing import assert_same


def asks(x):
    return x + 1 if x.shape[0] % 2 == 0 else x * 2


def plain(x):
    return x + 1


def compilations(function, cache, *rows, **config):
    """What the cache said each time that Dynamo compiled the function for these sizes."""
    torch._dynamo.reset()
    backend = XpuGraph(XpuGraphConfig(**config), cache=cache)
    compiled = torch.compile(function, backend=backend, dynamic=True)
    with torch.no_grad():
        for count in rows:
            assert_same(compiled(torch.ones(count)), function(torch.ones(count)))
    graphs = [graph for report in backend.reports for graph in report.graphs]
    return [graph.cache for graph in graphs], [graph.key for graph in graphs]


def test_no_guards_of_another_program():
    cache = XpuGraphMemoryCache()
    assert compilations(asks, cache, 6)[0] == ["miss"]
    assert compilations(plain, cache, 6, 7, 9)[0] == ["miss"]
    assert compilations(plain, cache, 7, 6, 10)[0] == ["hit"]
    assert compilations(asks, cache, 8, 7)[0] == ["hit", "miss"]


def test_only_guards_that_compiling_added_are_stored():
    cache = XpuGraphMemoryCache()
    compilations(asks, cache, 6)
    (entry,) = cache.entries.values()
    assert unpack(entry)[0]["guards"] is None


def test_guards_are_a_factor_of_the_key():
    keys = [compilations(function, XpuGraphMemoryCache(), 6)[1] for function in (asks, plain)]
    assert keys[0] != keys[1]
    assert keys[0] == compilations(asks, XpuGraphMemoryCache(), 8)[1]


def test_guards_that_compiling_added_are_checked_and_added(monkeypatch):
    made = []

    def compile_for_few(gm, inputs, *args, **kwargs):
        made.append(1)
        size = next(value for value in inputs if isinstance(value, torch.SymInt))
        assert bool(size <= 8) or bool(size > 8)  # it asks, and gets a guard
        return SerializableGraphModule(gm)

    monkeypatch.setattr("xpu_graph.backends.vendor_compiler", compile_for_few)
    monkeypatch.setattr("xpu_graph.backends.fingerprint", lambda *args: "few")
    cache = XpuGraphMemoryCache()
    config = {"target": "cpu", "vendor_compiler_config": {}}
    assert compilations(plain, cache, 6, 7, 9, **config)[0] == ["miss", "miss"]
    assert compilations(plain, cache, 5, 8, 20, **config)[0] == ["hit", "hit"]
    assert compilations(plain, cache, 20, 8, **config)[0] == ["hit", "hit"]
    assert len(made) == 2


def less(x, number):
    return x + 1 if x.shape[0] > number else x


def derived(x, number):
    return x + 1 if 2 * x.shape[0] == 3 * number else x


def replaced(x, other):
    return x + 1 if x.shape[0] == 2 * other.shape[0] else x


@pytest.mark.parametrize(
    ("function", "others"),
    [(less, (4, 5)), (derived, (4, 8)), (replaced, (torch.ones(3), torch.ones(6)))],
)
def test_guards_on_a_size_that_the_graph_does_not_take(function, others):
    cache = XpuGraphMemoryCache()
    for x, other, expected in zip(
        (torch.ones(6), torch.ones(12)), others, ("miss", "hit"), strict=True
    ):
        torch._dynamo.reset()
        backend = XpuGraph(XpuGraphConfig(), cache=cache)
        with torch.no_grad():
            got = torch.compile(function, backend=backend, dynamic=True)(x, other)
        assert_same(got, function(x, other))
        assert [report.graphs[0].cache for report in backend.reports] == [expected]
