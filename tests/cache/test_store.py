"""What every store shares: a bad entry is a miss, whatever is wrong with it; memory; no store."""

import json
from collections.abc import Mapping

import pytest
import torch
from torch import fx

from xpu_graph.artifact import SerializableArtifact, SerializableGraphModule
from xpu_graph.cache import XpuGraphCache, XpuGraphMemoryCache, no_cache
from xpu_graph.cache.store import SLOTS
from xpu_graph.container import pack
from xpu_graph.errors import CacheError, NotCacheable

KEY = "ab" + 62 * "0"


class Fragile(SerializableArtifact):
    kind = "test.fragile"
    error: Exception = CacheError("no")

    def boxed(self, args):
        return [self]

    def members(self) -> dict[str, bytes]:
        return {"part": b"content"}

    @classmethod
    def from_members(cls, members: Mapping[str, bytes]) -> "Fragile":
        raise cls.error


class Unnamed(Fragile):
    kind = ""


def artifact():
    graph = fx.Graph()
    graph.output([graph.placeholder("x")])
    return SerializableGraphModule(fx.GraphModule(torch.nn.Module(), graph))


def test_memory_keeps_stored_forms():
    cache = XpuGraphMemoryCache()
    one = artifact()
    assert cache.save_artifact(KEY, one) is one
    found = cache.load_artifact(KEY)
    assert isinstance(found, SerializableGraphModule)
    assert found is not one
    assert XpuGraphMemoryCache().load_artifact(KEY) is None
    cache.delete_artifact(KEY)
    cache.delete_artifact(KEY)
    assert cache.load_artifact(KEY) is None


def test_no_cache_keeps_nothing():
    cache = no_cache()
    one = artifact()
    assert cache.save_artifact(KEY, one) is one
    assert cache.load_artifact(KEY) is None
    cache.delete_artifact(KEY)
    with cache.writer(KEY, 0.0) as mine:
        assert mine


def test_expiry():
    cache = XpuGraphMemoryCache()
    cache.save_artifact(KEY, artifact(), expire=-1.0)
    assert cache.load_artifact(KEY) is None
    assert not cache.entries


def test_what_accept_sees_and_decides():
    cache = XpuGraphMemoryCache()
    cache.save_artifact(KEY, artifact(), guards="L['t0'] <= 8")
    seen = []
    assert cache.load_artifact(KEY, lambda facts: bool(seen.append(facts["guards"]))) is None
    assert seen == ["L['t0'] <= 8"]
    assert cache.load_artifact(KEY) is not None, "an entry for other shapes is not a bad one"


def with_guards(wanted):
    return lambda facts: facts["guards"] == wanted


def test_artifacts_for_other_sizes_live_side_by_side():
    cache = XpuGraphMemoryCache()
    for guards in ("small", "large", "small"):
        cache.save_artifact(KEY, artifact(), guards=guards)
    assert len(cache.entries) == 2
    for guards in ("small", "large"):
        assert cache.load_artifact(KEY, with_guards(guards)) is not None
    assert cache.load_artifact(KEY, with_guards("huge")) is None
    cache.delete_artifact(KEY)
    assert not cache.entries


def test_how_many_of_them_is_bounded():
    cache = XpuGraphMemoryCache()
    for number in range(3 * SLOTS):
        cache.save_artifact(KEY, artifact(), guards=number)
        assert cache.load_artifact(KEY, with_guards(number)) is not None
    assert len(cache.entries) == SLOTS


def test_a_slot_is_not_the_key_of_another():
    cache = XpuGraphMemoryCache()
    for guards in ("small", "large"):
        cache.save_artifact(KEY, artifact(), guards=guards)
    (slot,) = set(cache.entries) - {KEY}
    assert cache.load_artifact(slot) is None


@pytest.mark.parametrize(
    "error", [CacheError("no"), RuntimeError("no"), ImportError("no"), OSError("no"), KeyError(1)]
)
def test_a_loader_that_raises_is_a_miss(error, monkeypatch):
    monkeypatch.setattr(Fragile, "error", error)
    cache = XpuGraphMemoryCache()
    cache.save_artifact(KEY, Fragile())
    assert cache.load_artifact(KEY) is None
    assert not cache.entries


def test_an_accept_that_raises_is_a_miss():
    def accept(facts):
        raise SyntaxError("no")

    cache = XpuGraphMemoryCache()
    cache.save_artifact(KEY, artifact())
    assert cache.load_artifact(KEY, accept) is None


def test_an_interrupt_is_not_a_miss(monkeypatch):
    monkeypatch.setattr(Fragile, "error", KeyboardInterrupt())
    cache = XpuGraphMemoryCache()
    cache.save_artifact(KEY, Fragile())
    with pytest.raises(KeyboardInterrupt):
        cache.load_artifact(KEY)
    assert cache.entries


@pytest.mark.parametrize(
    "data",
    [
        b"",
        pack("nobody's", {"part": b""}, key=KEY),
        pack("graph", {}, key=KEY),
        pack("graph", {"graph.json": b"{}", "constants.safetensors": b""}, key=KEY),
        pack("graph", {"graph.json": b"[]", "constants.safetensors": b""}, key=KEY),
        pack("folded", {"split.json": b"{}"}, key=KEY),
        pack("inductor", {}, key=KEY),
        pack("graph", {}, key=KEY, expires="soon"),
        pack("graph", {}),
    ],
)
def test_an_entry_without_sense_is_a_miss(data):
    cache = XpuGraphMemoryCache()
    cache.entries[KEY] = data
    assert cache.load_artifact(KEY) is None
    assert not cache.entries


def test_what_has_no_kind_is_not_kept():
    cache = XpuGraphMemoryCache()
    with pytest.raises(NotCacheable, match="Unnamed"):
        cache.save_artifact(KEY, Unnamed())
    assert not cache.entries


def test_a_secret_seals():
    cache = XpuGraphMemoryCache(b"secret")
    cache.save_artifact(KEY, artifact())
    assert cache.load_artifact(KEY) is not None
    thief = XpuGraphMemoryCache()
    thief.entries = dict(cache.entries)
    assert thief.load_artifact(KEY) is None


def test_facts_are_plain_values():
    with pytest.raises(TypeError):
        XpuGraphMemoryCache().save_artifact(KEY, artifact(), guards=object())


def test_a_store_of_ones_own_moves_bytes():
    class Dictionary(XpuGraphCache):
        def __init__(self):
            super().__init__()
            self.held = {}

        def _read(self, digest):
            return self.held.get(digest)

        def _write(self, digest, data):
            self.held[digest] = data

        def _remove(self, digest):
            self.held.pop(digest, None)

    cache = Dictionary()
    cache.save_artifact(KEY, artifact())
    assert isinstance(cache.held[KEY], bytes)
    assert cache.load_artifact(KEY) is not None
    assert json.dumps(list(cache.held)) == json.dumps([KEY])


def test_a_store_that_is_down_costs_no_model():
    class Down(XpuGraphMemoryCache):
        def _read(self, digest):
            raise ConnectionError("refused")

        _remove = _read

        def _write(self, digest, data):
            raise TimeoutError("no answer")

    cache = Down()
    one = artifact()
    assert cache.save_artifact(KEY, one, guards="a") is one
    assert cache.load_artifact(KEY) is None
    cache.delete_artifact(KEY)
