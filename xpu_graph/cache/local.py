"""The cache in a directory of this machine, shared by the processes of one user.

    <directory>/<first two digits>/<digest>.xpug          an entry
    <directory>/<first two digits>/<digest>-<mark>.xpug   one sealed with a key that has this mark
    <directory>/locks/<digest>                            held by the process that compiles it

The directory is private (0700), and so are the files (0600). A directory or file that belongs to
someone else, or that others may write, is not used: whoever writes an entry decides what runs here.
Files are written under another name and renamed, so a reader sees a whole entry or none. The lock
is the operating system's (``flock``), which drops it when its holder dies. What a killed writer
left goes with a later eviction.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hmac
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
from xpu_graph.errors import CacheError, ConfigError

log = logging.getLogger(__name__)

DEFAULT_SIZE_LIMIT = 4 * 1024**3
"""Bytes the entries of a directory may take before the least recently used ones go."""

_POLL_S = 0.05
_ABANDONED_S = 3600.0
"""Age after which a file that was never renamed belongs to a writer that died."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_UNUSED_ENTRY = "does not use the cache entry"
_UNUSED_DIRECTORY = "does not use the cache directory"
_COMPLAINTS = 256
_complained: set[tuple[str, str, str]] = set()
"""What was warned of; at most ``_COMPLAINTS`` kinds are remembered."""


class XpuGraphLocalCache(XpuGraphCache):
    """Keeps entries in a directory.

    Args:
        path: the directory; made when the first entry is written.
        size_limit: bytes that all entries may take; the least recently used go first.
        secret: key of the HMAC that seals entries; by default ``$XPUGRAPH_CACHE_HMAC_KEY``.

    Raises:
        ConfigError: an argument is not legal.
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
        if type(size_limit) is not int or size_limit < 0:
            raise ConfigError(
                f"size_limit={size_limit!r} of XpuGraphLocalCache; a number of bytes is legal, "
                "such as 4 * 1024**3"
            )
        self.path = _expanded(path, "path of XpuGraphLocalCache").absolute()
        self._size_limit = size_limit
        self._room: int | None = None  # what may be written before the entries are listed again
        # Programs with different keys may share the directory without throwing out each other's.
        self._seal = f"-{hmac.digest(secret, b'seal', 'sha256').hex()[:8]}" if secret else ""

    @override
    @contextlib.contextmanager
    def writer(self, key: CacheKey | str, wait_s: float) -> Iterator[bool]:
        path = self.path / "locks" / self._checked(str(key))
        deadline = time.monotonic() + wait_s
        while True:
            handle = self._open_lock(path)
            if handle is None:
                yield True  # nothing can be stored here, so there is nobody to wait for
                return
            held = _lock(handle, deadline)
            if not held or _is_at(handle, path):
                break
            os.close(handle)  # its last holder removed it: the lock is another file by now
        try:
            yield held
        finally:
            if held:
                with contextlib.suppress(OSError):
                    path.unlink()
            os.close(handle)

    def _read(self, digest: str) -> bytes | None:
        path = self._entry(digest)
        try:
            # Without O_NONBLOCK a pipe in the place of an entry would be waited for.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            handle = os.open(path, flags)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._complain("cannot open the cache entry", path, error)
            return None
        try:
            facts = os.fstat(handle)
            if not stat.S_ISREG(facts.st_mode):
                self._complain(_UNUSED_ENTRY, path, "it is not a file")
                return None
            if facts.st_uid != os.getuid() or facts.st_mode & _OTHERS_WRITE:
                self._complain(_UNUSED_ENTRY, path, "others may have written it")
                return None
            if not self._is_private(self.path) or not self._is_private(path.parent):
                return None
            with os.fdopen(handle, "rb", closefd=False) as file:
                data = file.read()
            with contextlib.suppress(OSError):  # a read-only cache is served all the same
                os.utime(handle)
        except OSError as error:
            self._complain("cannot read the cache entry", path, error)
            return None
        finally:
            os.close(handle)
        return data

    def _write(self, digest: str, data: bytes) -> None:
        path = self._entry(digest)
        if len(data) > self._size_limit:
            self._complain(
                "does not keep the cache entry", path, "it alone is larger than size_limit"
            )
            return
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
            self._complain("cannot write the cache entry", path, error)
            if temporary is not None:
                with contextlib.suppress(OSError):
                    pathlib.Path(temporary).unlink()
            return
        if self._room is None or len(data) > self._room:
            self._evict(keep=path)
        else:
            self._room -= len(data)

    def _remove(self, digest: str) -> None:
        with contextlib.suppress(OSError):
            self._entry(digest).unlink(missing_ok=True)

    def _checked(self, digest: str) -> str:
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            raise CacheError(f"{digest!r} is not a cache key: 64 hexadecimal digits are")
        return digest

    def _entry(self, digest: str) -> pathlib.Path:
        return self.path / self._checked(digest)[:2] / f"{digest}{self._seal}.xpug"

    def _make_directory(self, directory: pathlib.Path) -> bool:
        try:
            for step in (self.path, directory):
                step.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            self._complain("cannot make the cache directory", directory, error)
            return False
        return self._is_private(self.path) and self._is_private(directory)

    def _is_private(self, directory: pathlib.Path) -> bool:
        try:
            facts = directory.stat()
        except OSError as error:
            self._complain(_UNUSED_DIRECTORY, directory, error)
            return False
        if facts.st_uid != os.getuid():
            reason = f"it belongs to user {facts.st_uid}"
        elif facts.st_mode & _OTHERS_WRITE:
            reason = f"others may write it (mode {stat.S_IMODE(facts.st_mode):04o})"
        else:
            return True
        self._complain(_UNUSED_DIRECTORY, directory, reason)
        return False

    def _open_lock(self, path: pathlib.Path) -> int | None:
        if not self._make_directory(path.parent):
            return None
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(path, flags, 0o600)
        except OSError as error:
            self._complain("cannot open the cache lock", path, error)
            return None

    def _evict(self, keep: pathlib.Path) -> None:
        """Remove the least recently used entries until the rest fits the limit."""
        entries = []
        for path in self.path.glob("[0-9a-f][0-9a-f]/*"):
            with contextlib.suppress(OSError):
                facts = path.stat(follow_symlinks=False)
                if path.name.startswith(".new-"):
                    if facts.st_mtime < time.time() - _ABANDONED_S:
                        path.unlink()
                elif path.suffix == ".xpug":
                    entries.append((path == keep, facts.st_mtime_ns, facts.st_size, path))
        total = sum(size for _, _, size, _ in entries)
        for _, _, size, path in sorted(entries):
            if total <= self._size_limit:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
        # Listing takes long where there are many. Other processes write too, so not all is ours.
        self._room = max(0, self._size_limit - total) // 8

    def _complain(self, what: str, path: pathlib.Path, reason: OSError | str) -> None:
        """Warn, once in a process for each directory, kind of trouble and reason."""
        number = reason.errno if isinstance(reason, OSError) else reason
        kind = (str(self.path), what, str(number))
        if kind in _complained:
            log.debug("%s %s: %s", what, path, reason)
            return
        if len(_complained) >= _COMPLAINTS:
            _complained.clear()
        _complained.add(kind)
        log.warning("%s %s: %s", what, path, reason)


def _lock(handle: int, deadline: float) -> bool:
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


def _is_at(handle: int, path: pathlib.Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat(follow_symlinks=False))
    except OSError:
        return False


def _expanded(path: str | os.PathLike[str], where: str) -> pathlib.Path:
    try:
        return pathlib.Path(path).expanduser()
    except (RuntimeError, TypeError) as error:
        raise ConfigError(f"{where} is {path!r}, which cannot be used: {error}") from error


def default_cache_path() -> pathlib.Path:
    """``$XPUGRAPH_CACHE_DIR``, else ``$XDG_CACHE_HOME/xpu_graph``, else ``~/.cache/xpu_graph``.

    A user without a home directory gets one of the directory for temporary files.

    Raises:
        ConfigError: a variable names the home of a user that does not exist.
    """
    chosen = os.environ.get("XPUGRAPH_CACHE_DIR")
    if chosen:
        return _expanded(chosen, "XPUGRAPH_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return _expanded(base, "XDG_CACHE_HOME") / "xpu_graph"
    try:
        return pathlib.Path.home() / ".cache" / "xpu_graph"
    except RuntimeError:
        return pathlib.Path(tempfile.gettempdir()) / f"xpu_graph-{os.getuid()}"


def default_cache() -> XpuGraphCache:
    """The cache in the default place."""
    return XpuGraphLocalCache(default_cache_path())
