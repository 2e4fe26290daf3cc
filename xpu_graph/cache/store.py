"""The interface of a cache store, and the store that keeps nothing.

A store moves bytes: a subclass implements ``_read``, ``_write`` and ``_remove`` and, where several
processes share it, ``writer``. What a bad entry means is decided here, once: a logged miss.

One key has a few slots: a vendor may compile a dynamic graph for some sizes only (Inductor adds
guards such as ``rows <= 4096``), and what fits the others is kept beside it.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from xpu_graph.artifact import SerializableArtifact, rebuild
from xpu_graph.cache.key import CacheKey, build_key
from xpu_graph.config import XpuGraphConfig
from xpu_graph.container import unpack
from xpu_graph.errors import CacheError, ConfigError
from xpu_graph.stage import Stage

log = logging.getLogger(__name__)

_CALLS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "cache_key": (("gm", "fake_inputs", "config", "stage"), ("frozen", "identities")),
    "save_artifact": (("key", "value"), ("guards",)),
    "load_artifact": (("key", "accept"), ()),
    "writer": (("key", "wait_s"), ()),
}
"""How the compiler calls a cache: a key that ignored frozen weights would be a wrong artifact."""

SLOTS = 4
"""How many artifacts of one key are kept, each for sizes that the others are not for."""


class XpuGraphCache(ABC):
    """Keeps artifacts by key.

    Args:
        secret: key of the HMAC that entries are sealed with; empty for a plain checksum.

    Raises:
        ConfigError: the secret is not bytes. A subclass whose methods the compiler could not call
            raises it when it is defined.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, (values, keywords) in _CALLS.items():
            try:
                inspect.signature(getattr(cls, name)).bind(cls, *values, **dict.fromkeys(keywords))
            except TypeError as error:
                wanted = inspect.signature(getattr(XpuGraphCache, name))
                raise ConfigError(
                    f"{cls.__qualname__}.{name} cannot be called as the compiler does: {error}; "
                    f"take {wanted}, or implement only _read, _write, _remove and writer"
                ) from error

    def __init__(self, secret: bytes = b"") -> None:
        if not isinstance(secret, bytes):
            raise ConfigError(
                f"secret of {type(self).__name__} is of type {type(secret).__name__}; "
                "bytes are legal, such as b'...'"
            )
        self._secret = secret
        self._warned = False

    def cache_key(
        self,
        gm: fx.GraphModule,
        fake_inputs: Sequence[Any],
        config: XpuGraphConfig,
        stage: Stage,
        *,
        frozen: Mapping[str, torch.Tensor] | None = None,
        identities: Mapping[str, str] | None = None,
    ) -> CacheKey:
        """The key of a graph; see ``key.build_key``."""
        return build_key(gm, fake_inputs, config, stage, frozen=frozen, identities=identities)

    def save_artifact(
        self,
        key: CacheKey | str,
        value: SerializableArtifact,
        expire: float | None = None,
        **facts: Any,
    ) -> SerializableArtifact:
        """Keep an artifact.

        Args:
            key: its key.
            value: the artifact.
            expire: seconds after which the entry counts as absent; None for never.
            facts: plain values that ``load_artifact`` hands to its ``accept``.

        Returns:
            The artifact to use.

        Raises:
            NotCacheable: it has no stored form.
        """
        until = None if expire is None else time.time() + expire
        data = value.convert_to_bytes(self._secret, key=str(key), expires=until, **facts)
        self._ask(self._write, self._slot_for(str(key), facts), data)
        return value

    def load_artifact(
        self,
        key: CacheKey | str,
        accept: Callable[[Mapping[str, Any]], bool] = lambda facts: True,
    ) -> SerializableArtifact | None:
        """The artifact kept under a key, or None. A bad entry is removed and logged, never raised.

        Args:
            key: its key.
            accept: looks at what was stored beside the artifact; False makes it a miss.
        """
        for slot in _slots(str(key)):
            data = self._ask(self._read, slot)
            found = self._open(data, str(key), slot, accept) if data is not None else None
            if found is not None:
                return found
        return None

    def _ask(self, operation: Callable[..., Any], *args: Any) -> Any:
        """Call the store; one that is down costs a warning, not the model."""
        try:
            return operation(*args)
        except CacheError:
            raise
        except Exception as error:  # a store of someone else may raise anything
            log.log(
                logging.DEBUG if self._warned else logging.WARNING,
                "the cache %s cannot be used: %r",
                type(self).__name__,
                error,
            )
            self._warned = True
            return None

    def _open(
        self, data: bytes, key: str, slot: str, accept: Callable[[Mapping[str, Any]], bool]
    ) -> SerializableArtifact | None:
        try:
            manifest, members = unpack(data, self._secret)
            if manifest.get("key") != key:
                raise CacheError("the entry was stored under another key")
            expires = manifest.get("expires")
            if expires is not None and expires < time.time():
                raise CacheError("the entry has expired")
            if not accept(manifest):
                log.info("cache entry %s does not fit this program's shapes", slot)
                return None
            return rebuild(manifest["kind"], members)
        except CacheError as error:
            reason = str(error)
        except Exception as error:  # a plugged-in kind or a vendor's loader may raise anything
            reason = f"loading it failed: {error!r}"
        log.warning("cache entry %s is not used: %s", slot, reason)
        self._ask(self._remove, slot)
        return None

    def _slot_for(self, key: str, facts: Mapping[str, Any]) -> str:
        """The slot that is free or holds an artifact with the same facts; else the first one."""
        for slot in _slots(key) if facts else ():
            data = self._ask(self._read, slot)
            if data is None:
                return slot
            try:
                held, _ = unpack(data, self._secret)
            except CacheError:
                return slot
            if all(held.get(name) == value for name, value in facts.items()):
                return slot
        return key

    def delete_artifact(self, key: CacheKey | str) -> None:
        """Forget what is kept under a key; nothing happens if there is nothing."""
        for slot in _slots(str(key)):
            self._ask(self._remove, slot)

    @contextlib.contextmanager
    def writer(self, key: CacheKey | str, wait_s: float) -> Iterator[bool]:
        """Be the one who compiles a key; gives False where another still is after ``wait_s``."""
        yield True

    @abstractmethod
    def _read(self, digest: str) -> bytes | None:
        """The bytes of an entry, or None."""

    @abstractmethod
    def _write(self, digest: str, data: bytes) -> None:
        """Keep the bytes of an entry, all or nothing."""

    @abstractmethod
    def _remove(self, digest: str) -> None:
        """Forget an entry."""


def _slots(key: str) -> list[str]:
    others = (hashlib.sha256(f"{key} {number}".encode()) for number in range(1, SLOTS))
    return [key, *(digest.hexdigest() for digest in others)]


class XpuGraphNoCache(XpuGraphCache):
    """Keeps nothing."""

    def _read(self, digest: str) -> bytes | None:
        return None

    def _write(self, digest: str, data: bytes) -> None:
        return None

    def _remove(self, digest: str) -> None:
        return None


def no_cache() -> XpuGraphCache:
    """A cache that keeps nothing."""
    return XpuGraphNoCache()
