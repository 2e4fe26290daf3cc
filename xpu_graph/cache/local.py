"""The cache in a directory of this machine, shared by the processes of one user.

    <directory>/<first two digits>/<digest>.xpug     an entry
    <directory>/locks/<digest>                       held by the process that compiles the key

The directory is private (0700), and so are the files (0600). A directory or file that belongs to
someone else, or that others may write, is not used: whoever writes an entry decides what runs here.
Files are written under another name and renamed, so a reader sees a whole entry or none. The lock
is the operating system's (``flock``), which drops it when its holder dies.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import pathlib
import re
import stat
import tempfile
import time
from collections.abc import Iterator

from typing_extensions import override

from xpu_graph.cache.key import CacheKey
from xpu_graph.cache.store import XpuGraphCache
from xpu_graph.errors import CacheError

log = logging.getLogger(__name__)

DEFAULT_SIZE_LIMIT = 4 * 1024**3
"""Bytes the entries of a directory may take before the least recently used ones go."""

_POLL_S = 0.05
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class XpuGraphLocalCache(XpuGraphCache):
    """Keeps entries in a directory.

    Args:
        path: the directory; made when the first entry is written.
        size_limit: bytes that all entries may take; the least recently used go first.
        secret: key of the HMAC that seals entries; by default ``$XPUGRAPH_CACHE_HMAC_KEY``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        size_limit: int = DEFAULT_SIZE_LIMIT,
        secret: bytes | None = None,
    ) -> None:
        if secret is None:
            secret = os.environb.get(b"XPUGRAPH_CACHE_HMAC_KEY", b"")
        super().__init__(secret)
        self.path = pathlib.Path(path).expanduser()
        self._size_limit = size_limit
        self._complained: set[str] = set()

    @override
    @contextlib.contextmanager
    def writer(self, key: CacheKey | str, wait_s: float) -> Iterator[bool]:
        handle = self._lock_file(str(key))
        if handle is None:
            yield True  # nothing can be stored here, so there is nobody to wait for
            return
        try:
            yield _lock(handle, wait_s)
        finally:
            os.close(handle)

    def _read(self, digest: str) -> bytes | None:
        path = self._entry(digest)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._complain(f"cache entry {path} cannot be opened: {error}")
            return None
        with os.fdopen(handle, "rb") as file:
            facts = os.fstat(file.fileno())
            if facts.st_uid != os.getuid() or facts.st_mode & _OTHERS_WRITE:
                self._complain(f"cache entry {path} is not used: others may have written it")
                return None
            if self._why_not_private(self.path):
                return None
            data = file.read()
            with contextlib.suppress(OSError):  # a read-only cache is served all the same
                os.utime(file.fileno())
        return data

    def _write(self, digest: str, data: bytes) -> None:
        path = self._entry(digest)
        if not self._make_directory(path.parent):
            return
        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            pathlib.Path(temporary).replace(path)
        except OSError as error:
            self._complain(f"cache entry {path} cannot be written: {error}")
            if temporary is not None:
                with contextlib.suppress(OSError):
                    pathlib.Path(temporary).unlink()
            return
        self._evict()

    def _remove(self, digest: str) -> None:
        with contextlib.suppress(OSError):
            self._entry(digest).unlink(missing_ok=True)

    def _entry(self, digest: str) -> pathlib.Path:
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise CacheError(f"{digest!r} is not a cache key: 64 hexadecimal digits are")
        return self.path / digest[:2] / f"{digest}.xpug"

    def _make_directory(self, directory: pathlib.Path) -> bool:
        try:
            for step in (self.path, directory):
                step.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            self._complain(f"the cache directory {directory} cannot be made: {error}")
            return False
        return not any(self._why_not_private(step) for step in (self.path, directory))

    def _why_not_private(self, directory: pathlib.Path) -> str | None:
        facts = directory.stat()
        reason = None
        if facts.st_uid != os.getuid():
            reason = f"it belongs to user {facts.st_uid}"
        elif facts.st_mode & _OTHERS_WRITE:
            reason = f"others may write it (mode {stat.S_IMODE(facts.st_mode):04o})"
        if reason:
            self._complain(f"the cache directory {directory} is not used: {reason}")
        return reason

    def _lock_file(self, digest: str) -> int | None:
        locks = self.path / "locks"
        if not self._make_directory(locks):
            return None
        try:
            return os.open(locks / digest, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._complain(f"the cache lock {locks / digest} cannot be opened: {error}")
            return None

    def _evict(self) -> None:
        """Remove the least recently used entries until the rest fits the limit."""
        entries = []
        for path in self.path.glob("[0-9a-f][0-9a-f]/*.xpug"):
            with contextlib.suppress(OSError):
                facts = path.stat()
                entries.append((facts.st_mtime, facts.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries, key=lambda entry: entry[0])[:-1]:
            if total <= self._size_limit:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size

    def _complain(self, message: str) -> None:
        if message not in self._complained:
            self._complained.add(message)
            log.warning("%s", message)


def _lock(handle: int, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                log.warning("the cache cannot lock: %s; going on without", error)
                return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)


def default_cache_path() -> pathlib.Path:
    """``$XPUGRAPH_CACHE_DIR``, else ``$XDG_CACHE_HOME/xpu_graph``, else ``~/.cache/xpu_graph``."""
    chosen = os.environ.get("XPUGRAPH_CACHE_DIR")
    if chosen:
        return pathlib.Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(base) if base else pathlib.Path("~/.cache").expanduser()) / "xpu_graph"


def default_cache() -> XpuGraphCache:
    """The cache in the default place."""
    return XpuGraphLocalCache(default_cache_path())
