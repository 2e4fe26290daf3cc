"""One artifact as one run of bytes: a checked envelope around an uncompressed ZIP archive.

    8 bytes    magic, with the version of this layout
    32 bytes   SHA-256 of the rest, or its HMAC-SHA-256 under ``XPUGRAPH_CACHE_HMAC_KEY``
    the rest   ZIP (PKWARE APPNOTE 6.3): ``manifest.json`` and the members it lists, each with its
               own SHA-256

Reading executes nothing and trusts nothing: any difference is a ``CacheError`` with its reason.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import struct
import zipfile
from collections.abc import Mapping
from typing import Any

from xpu_graph.errors import CacheError

MAGIC = b"XPUGRAF1"
_SEAL = hashlib.sha256().digest_size
_BROKEN_ARCHIVE = (
    *(zipfile.BadZipFile, struct.error, EOFError),
    *(LookupError, ValueError, TypeError, RuntimeError),
)
"""What ``zipfile`` and ``json`` raise on bytes that only look right."""
_DATE = (1980, 1, 1, 0, 0, 0)  # equal content gives equal bytes


def pack(kind: str, members: Mapping[str, bytes], secret: bytes = b"", **facts: Any) -> bytes:
    """Put members into one sealed run of bytes.

    Args:
        kind: the kind of artifact, see ``artifact.KINDS``.
        members: content by name.
        secret: HMAC key; empty for a plain checksum.
        facts: more entries for the manifest, plain JSON values.
    """
    checks = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
    manifest = json.dumps({"kind": kind, "members": checks, **facts}, sort_keys=True)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("manifest.json", _DATE), manifest)
        for name in sorted(members):
            archive.writestr(zipfile.ZipInfo(name, _DATE), members[name])
    body = buffer.getvalue()
    return MAGIC + _seal(body, secret) + body


def unpack(data: bytes, secret: bytes = b"") -> tuple[dict[str, Any], dict[str, bytes]]:
    """Check and open what ``pack`` made.

    Returns:
        The manifest and the members.

    Raises:
        CacheError: the bytes are foreign, of another layout, cut short, changed, or sealed with
            another key.
    """
    if data[: len(MAGIC)] != MAGIC:
        older = data[:7] == MAGIC[:7]
        raise CacheError("written by another version" if older else "not an xpu_graph artifact")
    seal, body = data[len(MAGIC) : len(MAGIC) + _SEAL], data[len(MAGIC) + _SEAL :]
    if not hmac.compare_digest(seal, _seal(body, secret)):
        raise CacheError("the checksum is wrong (damaged, cut short, or sealed with another key)")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise CacheError("the archive is compressed, which this package never does")
            manifest = json.loads(archive.read("manifest.json"))
            if not isinstance(manifest["kind"], str):
                raise CacheError("the manifest names no kind")
            checks = dict(manifest["members"])
            members = {name: archive.read(name) for name in checks}
    except (
        zipfile.BadZipFile,
        LookupError,
        ValueError,
        TypeError,
        RuntimeError,
        EOFError,
    ) as error:
        if isinstance(error, CacheError):
            raise
        raise CacheError(f"the archive cannot be read: {error!r}") from error
    for name, content in members.items():
        if hashlib.sha256(content).hexdigest() != checks[name]:
            raise CacheError(f"the checksum of {name!r} is wrong")
    return manifest, members


def _seal(body: bytes, secret: bytes) -> bytes:
    if secret:
        return hmac.digest(secret, body, "sha256")
    return hashlib.sha256(body).digest()
