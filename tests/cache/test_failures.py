"""A cache, an artifact or a fingerprint that fails: the model is compiled all the same."""

import contextlib

import pytest
import torch

from xpu_graph.artifact import SerializableGraphModule
from xpu_graph.cache import XpuGraphMemoryCache
from xpu_graph.compiler import XpuGraph
from xpu_graph.config import XpuGraphConfig
from xpu_graph.errors import CacheError, ConfigError


def compile_twice(cache, **config):
    """Two graphs through one backend; what the reports say of the cache, and the backend."""
    backend = XpuGraph(XpuGraphConfig(**config), cache=cache)
    with torch.no_grad():
        for number in (1, 2):
            compiled = torch.compile(lambda x, by=number: x.sin() + by, backend=backend)
            assert torch.equal(compiled(torch.zeros(3)), torch.full((3,), float(number)))
    return [graph.cache for report in backend.reports for graph in report.graphs], backend


def failing(error):
    def fail(*args, **kwargs):
        raise error

    return fail


ERRORS = [OSError(5, "no"), CacheError("no"), AttributeError("no"), KeyError("no")]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
@pytest.mark.parametrize("step", ["cache_key", "load_artifact", "save_artifact", "writer"])
def test_a_cache_that_fails(step, error, monkeypatch):
    cache = XpuGraphMemoryCache()
    monkeypatch.setattr(cache, step, failing(error))
    told, backend = compile_twice(cache)
    assert all(cache.startswith("not cacheable: ") for cache in told)
    assert backend.counts["cache failure"] >= 2


@pytest.mark.parametrize("step", ["_read", "_write"])
def test_a_store_that_raises_a_cache_error(step, monkeypatch):
    cache = XpuGraphMemoryCache()
    monkeypatch.setattr(cache, step, failing(CacheError("no")))
    told, _ = compile_twice(cache)
    assert all(cache.startswith("not cacheable: ") for cache in told)


def test_a_writer_that_fails_at_the_end():
    class Late(XpuGraphMemoryCache):
        @contextlib.contextmanager
        def writer(self, key, wait_s):
            yield True
            raise OSError(5, "no")

    cache = Late()
    told, backend = compile_twice(cache)
    assert told == ["miss", "miss"]
    assert backend.counts["cache failure"] == 2
    assert len(cache.entries) == 2


def test_a_compiler_that_fails_lets_the_next_one_go_on(monkeypatch):
    class Held(XpuGraphMemoryCache):
        held = 0

        @contextlib.contextmanager
        def writer(self, key, wait_s):
            self.held += 1
            try:
                yield True
            finally:
                self.held -= 1

    cache = Held()
    monkeypatch.setattr(XpuGraph, "_make", failing(ZeroDivisionError("no")))
    with pytest.raises(Exception, match="no"):
        compile_twice(cache)
    assert cache.held == 0


@pytest.mark.parametrize("members", [failing(AttributeError("no")), lambda self: "text"])
def test_an_artifact_that_cannot_be_written(members, monkeypatch):
    monkeypatch.setattr(SerializableGraphModule, "members", members)
    cache = XpuGraphMemoryCache()
    told, _ = compile_twice(cache)
    assert all(cache.startswith("not cacheable: ") for cache in told)
    assert not cache.entries


def test_a_fingerprint_that_fails_names_its_target(monkeypatch):
    def compiled(gm, *args, **kwargs):
        return SerializableGraphModule(gm)

    monkeypatch.setattr("xpu_graph.backends.cpu.fingerprint", failing(OSError(5, "no")))
    monkeypatch.setattr("xpu_graph.backends.vendor_compiler", compiled)
    cache = XpuGraphMemoryCache()
    told, backend = compile_twice(cache, target="cpu", vendor_compiler_config={})
    assert all("cpu" in cache and cache.startswith("not cacheable: ") for cache in told)
    assert backend.counts["cache failure"] == 2
    assert not cache.entries


def test_an_interrupt_is_not_a_failure_of_the_cache(monkeypatch):
    cache = XpuGraphMemoryCache()
    monkeypatch.setattr(cache, "load_artifact", failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        compile_twice(cache)


def test_the_artifact_to_use_is_the_one_that_saving_gives():
    class Other(SerializableGraphModule):
        kind = ""
        calls = 0

        def entry(self):
            Other.calls += 1
            return super().entry()

    class Gives(XpuGraphMemoryCache):
        def save_artifact(self, key, value, expire=None, **facts):
            return Other(super().save_artifact(key, value, expire, **facts).gm)

    assert compile_twice(Gives())[0] == ["miss", "miss"]
    assert Other.calls == 2


# --- stores of others -------------------------------------------------------------------------


def test_a_store_with_keys_of_its_own():
    class Prefixed(XpuGraphMemoryCache):
        def cache_key(self, *args, **kwargs):
            return "mine " + super().cache_key(*args, **kwargs).digest

    cache = Prefixed()
    assert compile_twice(cache)[0] == ["miss", "miss"]
    torch._dynamo.reset()
    told, backend = compile_twice(cache)
    assert told == ["hit", "hit"]
    assert all(report.graphs[0].key.startswith("mine ") for report in backend.reports)


def keyless(self, gm, fake_inputs, config, stage):
    return "key"


def load(self, key):
    return None


def save(self, key, value, expire=None):
    return value


@pytest.mark.parametrize(
    ("name", "method"), [("cache_key", keyless), ("load_artifact", load), ("save_artifact", save)]
)
def test_a_store_that_cannot_see_all_is_refused(name, method):
    with pytest.raises(ConfigError, match=f"Blind.{name}"):
        type("Blind", (XpuGraphMemoryCache,), {name: method})


@pytest.mark.parametrize("found", ["text", object()], ids=["text", "object"])
def test_a_store_that_gives_no_artifact(found, monkeypatch):
    cache = XpuGraphMemoryCache()
    monkeypatch.setattr(cache, "load_artifact", lambda key, accept: found)
    _, backend = compile_twice(cache)
    assert backend.counts["cache failure"]


def test_a_secret_is_bytes():
    with pytest.raises(ConfigError, match="secret"):
        XpuGraphMemoryCache("text")
