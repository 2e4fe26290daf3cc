"""A cache in this process's memory: for tests, and for programs that may not write files."""

from __future__ import annotations

from xpu_graph.cache.store import XpuGraphCache


class XpuGraphMemoryCache(XpuGraphCache):
    """Keeps entries, in their stored form, as long as the object lives."""

    def __init__(self, secret: bytes = b"") -> None:
        super().__init__(secret)
        self.entries: dict[str, bytes] = {}

    def _read(self, digest: str) -> bytes | None:
        return self.entries.get(digest)

    def _write(self, digest: str, data: bytes) -> None:
        self.entries[digest] = data

    def _remove(self, digest: str) -> None:
        self.entries.pop(digest, None)
