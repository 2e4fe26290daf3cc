"""What the cache does for one graph: a key, a look, a turn to compile, a place to keep the result.

A step that fails costs one warning a backend and the keeping, never the model.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from xpu_graph.artifact import SerializableArtifact
from xpu_graph.cache import CacheKey, XpuGraphCache
from xpu_graph.debug.report import GraphReport
from xpu_graph.errors import BackendUnavailable, CacheError, NotCacheable, XpuGraphError
from xpu_graph.stage import Unit
from xpu_graph.torch_compat import (
    evaluate_shape_guards,
    no_dispatch_modes,
    shape_facts,
    shape_guards,
)

log = logging.getLogger("xpu_graph.cache")  # the area that people ask about


class Keeper:
    """Talks to a cache about one graph, and tells the report.

    Args:
        cache: the cache.
        unit: the graph, before any pass.
        told: the graph's report; ``cache`` and ``key`` are filled in.
        complain: called with an event, a message and its arguments where a step failed.
    """

    def __init__(
        self,
        cache: XpuGraphCache,
        unit: Unit,
        told: GraphReport,
        complain: Callable[..., None],
    ) -> None:
        self._cache = cache
        self._name = unit.name
        self._inputs = list(unit.fake_inputs)  # compiling changes the unit's own
        self._told = told
        self._complain = complain
        self._key: CacheKey | str = ""
        self._facts: list[str] = []

    def find_key(self, make: Callable[[], CacheKey | str]) -> bool:
        """Ask for the key; False where the graph has none, and the report says why."""
        with self._step("key"):
            self._facts = list(shape_facts(self._inputs))
            self._key = make()
        self._told.key = str(self._key)
        return bool(self._told.key)

    def load(self) -> SerializableArtifact | None:
        """The artifact that is kept for the graph, or None."""
        found = None
        with self._step("load"):
            answer = self._cache.load_artifact(self._key, self._fits)
            if not isinstance(answer, (SerializableArtifact, type(None))):
                raise CacheError(f"{type(self._cache).__name__} gave {answer!r} for an artifact")
            found = answer
        if found is not None:
            self._told.cache = "hit"
        elif self._told.cache == "off":
            self._told.cache = "miss"
        log.debug("%s: cache %s for %s", self._name, "hit" if found else "miss", self._key)
        return found

    @contextmanager
    def turn(self, wait_s: float) -> Iterator[bool]:
        """Be the one who compiles the graph; gives False where the result must not be stored."""
        held = ExitStack()
        may_store = False
        with self._step("wait"):
            may_store = held.enter_context(self._cache.writer(self._key, wait_s))
            if not may_store:
                self._told.notes.append("another process compiles this graph; nothing was stored")
        try:
            yield may_store
        finally:
            outcome = self._told.cache
            with self._step("wait"):
                held.close()
            self._told.cache = outcome  # what is kept stays kept

    def store(self, artifact: SerializableArtifact) -> SerializableArtifact:
        """Keep an artifact, with the guards that compiling added; gives the one to use."""
        kept = artifact
        with self._step("store"):
            guards = shape_guards(self._inputs, self._facts)
            kept = self._cache.save_artifact(self._key, artifact, guards=guards)
        return kept if isinstance(kept, SerializableArtifact) else artifact

    def _fits(self, facts: Mapping[str, Any]) -> bool:
        guards = facts.get("guards")
        return guards is None or evaluate_shape_guards(guards, self._inputs)

    @contextmanager
    def _step(self, step: str) -> Iterator[None]:
        try:
            with self._told.timed(step), no_dispatch_modes():
                yield
        except (NotCacheable, BackendUnavailable) as reason:
            self._told.cache = f"not cacheable: {reason}"
        except Exception as error:  # a store, an artifact or a backend of someone else
            said = str(error) if isinstance(error, XpuGraphError) else repr(error)
            self._told.cache = f"not cacheable: {said}"
            message = "%s: the cache cannot be used, its step %r failed: %s"
            self._complain("cache failure", message, self._name, step, said)
