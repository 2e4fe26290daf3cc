"""The envelope of an artifact: whatever is changed in it is noticed."""

import hashlib
import io
import json
import random
import zipfile

import pytest

from xpu_graph.container import MAGIC, pack, unpack
from xpu_graph.errors import CacheError

MEMBERS = {"graph.json": b'{"nodes": []}', "kernels/a.so": bytes(range(256)) * 4, "empty": b""}


def test_round_trip():
    manifest, members = unpack(pack("kind", MEMBERS, key="k", guards=None, expires=1.5))
    assert members == MEMBERS
    assert manifest["kind"] == "kind"
    assert (manifest["key"], manifest["guards"], manifest["expires"]) == ("k", None, 1.5)


def test_equal_content_gives_equal_bytes():
    backwards = dict(reversed(MEMBERS.items()))
    assert pack("kind", MEMBERS, b"s", a=1, b=2) == pack("kind", backwards, b"s", b=2, a=1)


def test_every_single_change_is_noticed():
    data = pack("kind", {"part": b"content"})
    for position in range(len(data)):
        for flip in (1, 0x80):
            changed = bytearray(data)
            changed[position] ^= flip
            with pytest.raises(CacheError):
                unpack(bytes(changed))


def test_random_changes_are_noticed():
    data = pack("kind", MEMBERS)
    numbers = random.Random(0)
    for _ in range(300):
        changed = bytearray(data)
        start = numbers.randrange(len(data))
        length = numbers.randrange(1, 40)
        action = numbers.choice(["fill", "cut", "insert"])
        if action == "fill":
            changed[start : start + length] = numbers.randbytes(
                len(changed[start : start + length])
            )
        elif action == "cut":
            del changed[start : start + length]
        else:
            changed[start:start] = numbers.randbytes(length)
        if bytes(changed) != data:
            with pytest.raises(CacheError):
                unpack(bytes(changed))


@pytest.mark.parametrize("length", range(0, 60, 3))
def test_a_short_file(length):
    with pytest.raises(CacheError):
        unpack(pack("kind", MEMBERS)[:length])


def test_the_seal():
    sealed = pack("kind", MEMBERS, b"one")
    assert unpack(sealed, b"one")[1] == MEMBERS
    for data, secret in ((sealed, b"two"), (sealed, b""), (pack("kind", MEMBERS), b"one")):
        with pytest.raises(CacheError):
            unpack(data, secret)


def test_another_layout_is_named_as_such():
    data = pack("kind", MEMBERS)
    with pytest.raises(CacheError, match="another version"):
        unpack(data[:7] + b"0" + data[8:])
    with pytest.raises(CacheError, match="not an xpu_graph artifact"):
        unpack(b"PK" + data)


def sealed_archive(files, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    body = buffer.getvalue()
    return MAGIC + hashlib.sha256(body).digest() + body


def manifest(**entries):
    return json.dumps({"kind": "k", "members": {}, **entries})


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"manifest.json": ""},
        {"manifest.json": "[]"},
        {"manifest.json": "null"},
        {"manifest.json": b"\xff\xfe"},
        {"manifest.json": "[" * 100_000},
        {"manifest.json": "{}"},
        {"manifest.json": manifest(kind=1)},
        {"manifest.json": manifest(members=None)},
        {"manifest.json": manifest(members=[1])},
        {"manifest.json": manifest(members={"a": "0"})},
        {"manifest.json": manifest(members={"a": "0"}), "a": "content"},
    ],
)
def test_an_archive_of_someone_else_with_a_right_checksum(files):
    with pytest.raises(CacheError):
        unpack(sealed_archive(files))


def test_nothing_is_inflated():
    with pytest.raises(CacheError, match="compressed"):
        unpack(sealed_archive({"manifest.json": manifest()}, zipfile.ZIP_DEFLATED))


def test_bytes_that_are_no_archive():
    body = b"PK\x03\x04 something"
    with pytest.raises(CacheError):
        unpack(MAGIC + hashlib.sha256(body).digest() + body)
