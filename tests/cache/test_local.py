"""The cache in a directory: what is on disk, who may write it, and what goes wrong with disks."""

import errno
import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time

import pytest
import torch
from torch import fx

from xpu_graph.artifact import SerializableGraphModule
from xpu_graph.cache import XpuGraphLocalCache, default_cache
from xpu_graph.cache import local as local_module
from xpu_graph.errors import CacheError, ConfigError

KEY = "ab" + 62 * "0"
OTHER = "cd" + 62 * "0"
KEYS = [f"{number:02x}" + 62 * "0" for number in range(8)]


def artifact(number=1):
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output([graph.call_function(torch.ops.aten.add.Tensor, (x, number))])
    return SerializableGraphModule(fx.GraphModule(torch.nn.Module(), graph))


def value_of(found):
    return float(found(torch.zeros(()))[0])


@pytest.fixture
def cache(tmp_path):
    return XpuGraphLocalCache(tmp_path / "cache")


def entry(cache, key=KEY):
    return cache.path / key[:2] / f"{key}.xpug"


def files(cache):
    return sorted(p.name for p in cache.path.rglob("*") if p.is_file())


def test_save_and_load(cache):
    one = artifact()
    assert cache.load_artifact(KEY) is None
    assert cache.save_artifact(KEY, one) is one
    assert value_of(cache.load_artifact(KEY)) == 1.0
    assert cache.load_artifact(OTHER) is None


def test_a_later_artifact_replaces_an_earlier(cache):
    cache.save_artifact(KEY, artifact(1))
    cache.save_artifact(KEY, artifact(2))
    assert value_of(cache.load_artifact(KEY)) == 2.0
    assert files(cache) == [f"{KEY}.xpug"]


def test_delete(cache):
    cache.save_artifact(KEY, artifact())
    cache.delete_artifact(KEY)
    cache.delete_artifact(KEY)
    assert cache.load_artifact(KEY) is None
    assert files(cache) == []


def test_modes_whatever_the_umask(cache):
    before = os.umask(0)
    try:
        with cache.writer(KEY, 0.0) as mine:
            assert mine
            lock = cache.path / "locks" / KEY
            assert stat.S_IMODE(lock.stat().st_mode) == 0o600
            cache.save_artifact(KEY, artifact())
    finally:
        os.umask(before)
    for directory in (cache.path, cache.path / "ab", cache.path / "locks"):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(cache).stat().st_mode) == 0o600


def test_nothing_is_made_before_something_is_kept(cache):
    cache.load_artifact(KEY)
    cache.delete_artifact(KEY)
    assert not cache.path.exists()


@pytest.mark.parametrize("key", ["", "../x", "AB" + 62 * "0", 63 * "0", 64 * "0" + "\n", "/etc"])
def test_a_key_is_no_path(cache, key):
    for use in (cache.load_artifact, cache.delete_artifact):
        with pytest.raises(CacheError):
            use(key)
    with pytest.raises(CacheError):
        cache.save_artifact(key, artifact())
    with pytest.raises(CacheError), cache.writer(key, 0.0):
        pass


# --- who may write ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_directory_that_others_write_is_not_used(cache, mode):
    cache.save_artifact(KEY, artifact())
    for directory in (cache.path, cache.path / "ab"):
        directory.chmod(mode)
        assert cache.load_artifact(KEY) is None
        cache.save_artifact(KEY, artifact(2))
        directory.chmod(0o700)
        assert value_of(cache.load_artifact(KEY)) == 1.0


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_entry_that_others_write_is_not_used(cache, mode):
    cache.save_artifact(KEY, artifact())
    entry(cache).chmod(mode)
    assert cache.load_artifact(KEY) is None


def test_another_owner_is_refused(cache, monkeypatch):
    cache.save_artifact(KEY, artifact())
    someone = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: someone)
    assert cache.load_artifact(KEY) is None
    before = entry(cache).read_bytes()
    cache.save_artifact(KEY, artifact(2))
    assert entry(cache).read_bytes() == before


def test_a_symlinked_entry_is_refused(cache, tmp_path):
    cache.save_artifact(KEY, artifact())
    elsewhere = tmp_path / "elsewhere"
    entry(cache).rename(elsewhere)
    entry(cache).symlink_to(elsewhere)
    assert cache.load_artifact(KEY) is None
    cache.save_artifact(KEY, artifact(2))  # replaces the link, not what it points to
    assert value_of(cache.load_artifact(KEY)) == 2.0
    assert not entry(cache).is_symlink()
    assert elsewhere.exists()


def test_a_symlinked_lock_is_not_followed(cache, tmp_path):
    (cache.path / "locks").mkdir(parents=True, mode=0o700)
    (cache.path / "locks" / KEY).symlink_to(tmp_path / "victim")
    with cache.writer(KEY, 0.0) as mine:
        assert mine
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_what_is_no_file_is_a_miss(cache, kind):
    entry(cache).parent.mkdir(parents=True, mode=0o700)
    entry(cache).mkdir() if kind == "directory" else os.mkfifo(entry(cache), 0o600)
    assert cache.load_artifact(KEY) is None
    cache.save_artifact(KEY, artifact())
    cache.load_artifact(KEY)


def warnings(caplog):
    return sum(record.levelname == "WARNING" for record in caplog.records)


def test_one_warning_for_one_kind_of_trouble(tmp_path, caplog):
    path = tmp_path / "file"
    path.write_text("mine")
    counts = []
    for key in KEYS:
        cache = XpuGraphLocalCache(path)
        cache.load_artifact(key)
        cache.save_artifact(key, artifact())
        with cache.writer(key, 0.0):
            pass
        counts.append(warnings(caplog))
    assert counts[0] > 0
    assert counts[-1] == counts[0]
    XpuGraphLocalCache(path / "below").save_artifact(KEY, artifact())
    assert warnings(caplog) > counts[0]


def test_how_many_kinds_are_remembered_is_bounded(cache):
    for number in range(3 * local_module._COMPLAINTS):
        cache._complain("cannot", cache.path, str(number))
    assert len(local_module._complained) <= local_module._COMPLAINTS


# --- damaged entries --------------------------------------------------------------------------


def damage(data, how):
    length = len(data)
    if how.startswith("cut"):
        return data[: length * int(how[3:]) // 8]
    return {
        "longer": data + b"\0",
        "foreign": b"#!/bin/sh\necho hello\n",
        "older": data[:7] + b"0" + data[8:],
        "bit": data[: length // 2] + bytes([data[length // 2] ^ 1]) + data[length // 2 + 1 :],
        "pickle": b"\x80\x04\x95" + data,
    }[how]


@pytest.mark.parametrize(
    "how", [*(f"cut{n}" for n in range(8)), "longer", "foreign", "older", "bit", "pickle"]
)
def test_a_damaged_entry_is_a_miss_and_goes(cache, how):
    cache.save_artifact(KEY, artifact())
    entry(cache).write_bytes(damage(entry(cache).read_bytes(), how))
    assert cache.load_artifact(KEY) is None
    assert not entry(cache).exists()
    cache.save_artifact(KEY, artifact(2))
    assert value_of(cache.load_artifact(KEY)) == 2.0


def test_an_entry_of_another_key_is_a_miss(cache):
    cache.save_artifact(KEY, artifact())
    entry(cache, OTHER).parent.mkdir(mode=0o700)
    entry(cache).rename(entry(cache, OTHER))
    assert cache.load_artifact(OTHER) is None
    assert not entry(cache, OTHER).exists()


def test_an_expired_entry_is_a_miss(cache):
    cache.save_artifact(KEY, artifact(), expire=3600.0)
    assert value_of(cache.load_artifact(KEY)) == 1.0
    cache.save_artifact(KEY, artifact(), expire=-1.0)
    assert cache.load_artifact(KEY) is None
    assert not entry(cache).exists()


@pytest.mark.parametrize(
    ("writes", "reads"), [(b"one", b"two"), (b"one", b""), (b"", b"two")], ids=str
)
def test_an_entry_sealed_with_another_key_is_a_miss(tmp_path, writes, reads):
    writer = XpuGraphLocalCache(tmp_path / "cache", secret=writes)
    writer.save_artifact(KEY, artifact())
    assert value_of(writer.load_artifact(KEY)) == 1.0
    reader = XpuGraphLocalCache(tmp_path / "cache", secret=reads)
    assert reader.load_artifact(KEY) is None
    (sealed,) = (tmp_path / "cache" / KEY[:2]).iterdir()
    assert sealed != reader._entry(KEY)
    sealed.rename(reader._entry(KEY))  # the name alone opens nothing
    assert reader.load_artifact(KEY) is None
    assert not reader._entry(KEY).exists()


def test_two_secrets_in_one_directory_keep_their_own(tmp_path):
    caches = [XpuGraphLocalCache(tmp_path / "cache", secret=s) for s in (b"one", b"two", b"")]
    for number, cache in enumerate(caches):
        cache.save_artifact(KEY, artifact(number))
    for _ in range(2):
        found = [value_of(cache.load_artifact(KEY)) for cache in caches]
        assert found == [0.0, 1.0, 2.0]
    caches[0].delete_artifact(KEY)
    assert caches[0].load_artifact(KEY) is None
    assert value_of(caches[1].load_artifact(KEY)) == 1.0


def test_the_secret_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("XPUGRAPH_CACHE_HMAC_KEY", "secret")
    XpuGraphLocalCache(tmp_path / "cache").save_artifact(KEY, artifact())
    monkeypatch.delenv("XPUGRAPH_CACHE_HMAC_KEY")
    known = XpuGraphLocalCache(tmp_path / "cache", secret=b"secret")
    assert value_of(known.load_artifact(KEY)) == 1.0
    assert XpuGraphLocalCache(tmp_path / "cache").load_artifact(KEY) is None


# --- disks ------------------------------------------------------------------------------------


def test_a_path_that_is_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    cache = XpuGraphLocalCache(path)
    assert cache.load_artifact(KEY) is None
    one = artifact()
    assert cache.save_artifact(KEY, one) is one
    cache.delete_artifact(KEY)
    with cache.writer(KEY, 0.0) as mine:
        assert mine
    assert path.read_text() == "mine"


@pytest.mark.parametrize("error", [errno.EACCES, errno.EROFS, errno.ENOSPC])
def test_a_directory_that_cannot_be_made(cache, monkeypatch, error):
    def fail(self, *args, **kwargs):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(pathlib.Path, "mkdir", fail)
    one = artifact()
    assert cache.save_artifact(KEY, one) is one
    with cache.writer(KEY, 0.0) as mine:
        assert mine
    assert cache.load_artifact(KEY) is None


@pytest.mark.parametrize("step", ["mkstemp", "fsync", "replace"])
def test_a_full_disk_keeps_what_was_there(cache, monkeypatch, step):
    def fail(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    cache.save_artifact(KEY, artifact())
    where = {"mkstemp": tempfile, "fsync": os, "replace": pathlib.Path}[step]
    with monkeypatch.context() as patch:
        patch.setattr(where, step, fail)
        two = artifact(2)
        assert cache.save_artifact(KEY, two) is two
    assert value_of(cache.load_artifact(KEY)) == 1.0
    assert files(cache) == [f"{KEY}.xpug"]


def test_a_disk_that_fails_to_read(cache, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(errno.EIO, "Input/output error")

    cache.save_artifact(KEY, artifact())
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", fail)
        assert cache.load_artifact(KEY) is None


def test_a_directory_that_may_only_be_read_is_served(cache, monkeypatch):
    def fail(*args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied")

    cache.save_artifact(KEY, artifact())
    monkeypatch.setattr(os, "utime", fail)
    monkeypatch.setattr(tempfile, "mkstemp", fail)
    assert value_of(cache.load_artifact(KEY)) == 1.0
    cache.save_artifact(OTHER, artifact())
    assert cache.load_artifact(OTHER) is None


def test_a_file_system_without_locks(cache, monkeypatch):
    def fail(*args, **kwargs):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(local_module.fcntl, "flock", fail)
    with cache.writer(KEY, 0.0) as mine:
        assert mine


# --- size -------------------------------------------------------------------------------------


def test_the_least_recently_used_go_first(tmp_path):
    one = len(artifact().convert_to_bytes(key=KEY, expires=None))
    cache = XpuGraphLocalCache(tmp_path / "cache", size_limit=3 * one)
    for age, key in enumerate(KEYS[:3]):
        cache.save_artifact(key, artifact())
        os.utime(entry(cache, key), (1000 + age, 1000 + age))
    assert cache.load_artifact(KEYS[0]) is not None  # now the last one used
    cache.save_artifact(KEYS[3], artifact())
    kept = [key for key in KEYS[:4] if entry(cache, key).exists()]
    assert kept == [KEYS[0], KEYS[2], KEYS[3]]


def test_entries_are_listed_only_where_they_may_be_too_many(tmp_path, monkeypatch):
    one = len(artifact().convert_to_bytes(key=KEY, expires=None))
    cache = XpuGraphLocalCache(tmp_path / "cache", size_limit=20 * one)
    listed, glob = [], pathlib.Path.glob

    def count(self, pattern):
        listed.append(pattern)
        return glob(self, pattern)

    monkeypatch.setattr(pathlib.Path, "glob", count)
    for number in range(40):
        before = len(listed)
        cache.save_artifact(f"{number:02x}" + 62 * "0", artifact())
        if number in (1, 2):  # after the first, a part of what is free
            assert len(listed) == before
    assert len(files(cache)) == 20


def test_an_entry_larger_than_the_limit_is_not_kept(tmp_path):
    cache = XpuGraphLocalCache(tmp_path / "cache", size_limit=100)
    one = artifact()
    assert cache.save_artifact(KEY, one) is one
    assert cache.load_artifact(KEY) is None
    assert files(cache) == []


def test_what_a_dead_writer_left_goes(cache):
    cache.save_artifact(KEY, artifact())
    old, young = (entry(cache).with_name(f".new-{name}") for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    XpuGraphLocalCache(cache.path).save_artifact(OTHER, artifact())
    assert not old.exists()
    assert young.exists()  # its writer may still be at it


# --- one writer a key -------------------------------------------------------------------------


def test_one_writer_a_key(cache):
    again = XpuGraphLocalCache(cache.path)
    with cache.writer(KEY, 0.0) as first:
        assert first
        with again.writer(KEY, 0.0) as second:
            assert not second
        with again.writer(OTHER, 0.0) as other:
            assert other
    with again.writer(KEY, 0.0) as now:
        assert now
    assert files(cache) == []


def test_an_error_while_compiling_lets_the_next_one_go_on(cache):
    with pytest.raises(ZeroDivisionError), cache.writer(KEY, 0.0):
        1 / 0
    with cache.writer(KEY, 0.0) as mine:
        assert mine


def test_a_second_writer_waits_for_the_first(cache):
    entered, order = threading.Event(), []

    def hold():
        with cache.writer(KEY, 0.0):
            entered.set()
            time.sleep(0.3)
            order.append("first")

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    with cache.writer(KEY, 60.0) as mine:
        order.append("second")
    thread.join()
    assert mine
    assert order == ["first", "second"]


def test_one_that_waited_keeps_others_out(cache, monkeypatch):
    waiting, outcome = threading.Event(), []
    lock = local_module._lock

    def tell(*args):
        waiting.set()
        return lock(*args)

    def wait():
        with cache.writer(KEY, 60.0) as mine, cache.writer(KEY, 0.0) as another:
            outcome.extend([mine, another])

    thread = threading.Thread(target=wait)
    with cache.writer(KEY, 0.0):
        monkeypatch.setattr(local_module, "_lock", tell)
        thread.start()
        waiting.wait()  # it has opened the file that goes when this block ends
    thread.join()
    assert outcome == [True, False]


SCRIPT = f"""
import os, sys, time
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
from test_local import KEY, XpuGraphLocalCache, artifact
cache = XpuGraphLocalCache(sys.argv[1])
if sys.argv[2] == "write":
    def stop(handle):
        print("ready", flush=True)
        time.sleep(600)
    os.fsync = stop
with cache.writer(KEY, 0.0) as mine:
    assert mine
    if sys.argv[2] == "lock":
        print("ready", flush=True)
        time.sleep(600)
    cache.save_artifact(KEY, artifact(2))
"""


@pytest.mark.parametrize("doing", ["write", "lock"])
def test_a_killed_process_is_in_nobodys_way(cache, doing):
    command = [sys.executable, "-c", SCRIPT, str(cache.path), doing]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().strip() == "ready"
        assert cache.load_artifact(KEY) is None
        with cache.writer(KEY, 0.0) as mine:
            assert not mine
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    assert cache.load_artifact(KEY) is None
    with cache.writer(KEY, 5.0) as mine:
        assert mine
        cache.save_artifact(KEY, artifact(3))
    assert value_of(cache.load_artifact(KEY)) == 3.0


# --- the default place ------------------------------------------------------------------------


def test_the_default_place(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XPUGRAPH_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert default_cache().path == tmp_path / "home" / ".cache" / "xpu_graph"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_cache().path == tmp_path / "xdg" / "xpu_graph"
    monkeypatch.setenv("XPUGRAPH_CACHE_DIR", str(tmp_path / "own"))
    assert default_cache().path == tmp_path / "own"


def test_a_user_without_a_home(monkeypatch):
    def no_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XPUGRAPH_CACHE_DIR")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(pathlib.Path, "home", no_home)
    assert default_cache().path.parent == pathlib.Path(tempfile.gettempdir())


@pytest.mark.parametrize("name", ["XPUGRAPH_CACHE_DIR", "XDG_CACHE_HOME"])
def test_a_home_that_is_not_there(name, monkeypatch):
    monkeypatch.delenv("XPUGRAPH_CACHE_DIR")
    monkeypatch.setenv(name, "~nobody-of-this-name/x")
    with pytest.raises(ConfigError, match=name):
        default_cache()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("path", "~nobody-of-this-name/x"),
        ("path", 3),
        ("size_limit", "1G"),
        ("size_limit", -1),
        ("size_limit", 1.5),
        ("size_limit", True),
        ("secret", "text"),
        ("secret", 3),
    ],
)
def test_an_argument_that_is_not_legal_is_named(name, value, tmp_path):
    with pytest.raises(ConfigError, match=name):
        XpuGraphLocalCache(**{"path": tmp_path, name: value})


def test_a_relative_path_is_that_of_the_moment(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    cache = XpuGraphLocalCache("cache")
    monkeypatch.chdir("/")
    assert cache.path == tmp_path / "cache"
