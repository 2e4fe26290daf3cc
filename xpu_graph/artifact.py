"""What a compilation gives: callable, and storable where its parts are.

An artifact is called with the inputs of its graph and returns the list of its outputs. A cache hit
and a fresh compilation give the same kind of object. A class with a ``kind`` registers itself, so
that a stored artifact finds its class again; a backend defines its own in its own module.
"""

from __future__ import annotations

import json
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from torch import fx
from typing_extensions import override

from xpu_graph.container import pack, unpack
from xpu_graph.errors import CacheError, NotCacheable
from xpu_graph.graph_codec import canonical_text, decode_graph, encode_graph
from xpu_graph.tensor_codec import (
    decode_tensors,
    encode_tensors,
    layout_of,
    span_of,
    with_layout,
)
from xpu_graph.torch_compat import boxed_forward

KINDS: dict[str, type[SerializableArtifact]] = {}
"""Kind of artifact -> its class."""


class _WrapsOnce(ABCMeta):
    """Makes a class return its own instance when it is called with one and nothing else."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and isinstance(args[0], cls):
            return args[0]
        return super().__call__(*args, **kwargs)


class SerializableArtifact(metaclass=_WrapsOnce):
    """A compiled graph.

    Wrapping an artifact again returns it unchanged.

    Attributes:
        kind: what its stored form is called; set by every class that can be stored.
    """

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.kind and KINDS.setdefault(cls.kind, cls).__qualname__ != cls.__qualname__:
            raise TypeError(f"artifact kind {cls.kind!r} is taken by {KINDS[cls.kind]}")

    def __call__(self, *args: Any) -> Any:
        """Run the graph on its inputs, in placeholder order."""
        return self.boxed(list(args))

    @abstractmethod
    def boxed(self, args: list[Any]) -> Any:
        """Run the graph on a list of its inputs, which is emptied."""

    @abstractmethod
    def members(self) -> dict[str, bytes]:
        """The parts of the stored form, by name.

        Raises:
            NotCacheable: it has no stored form; the message says why.
        """

    @classmethod
    @abstractmethod
    def from_members(cls, members: Mapping[str, bytes]) -> SerializableArtifact:
        """Build the artifact from its parts; executes vendor code where a vendor made them.

        Raises:
            CacheError: the parts do not fit this process.
        """

    def entry(self) -> Callable[[list[Any]], Any]:
        """The function AOTAutograd calls: it takes one list and empties it."""
        return self.boxed

    def convert_to_bytes(self, secret: bytes = b"", **facts: Any) -> bytes:
        """The stored form, sealed; see ``container.pack``.

        Raises:
            NotCacheable: it has no stored form.
        """
        return pack(*_kind_and_members(self), secret, **facts)

    @staticmethod
    def rebuild_from_bytes(data: bytes, secret: bytes = b"") -> SerializableArtifact:
        """The inverse of ``convert_to_bytes``, whatever the kind.

        Raises:
            CacheError: the bytes are not a whole artifact of a known kind.
        """
        manifest, members = unpack(data, secret)
        return rebuild(manifest["kind"], members)


def rebuild(kind: str, members: Mapping[str, bytes]) -> SerializableArtifact:
    """Build an artifact of a kind from its parts.

    Raises:
        CacheError: nobody registered the kind in this process, or the parts do not fit.
    """
    if kind not in KINDS:
        raise CacheError(f"artifacts of kind {kind!r} are unknown here; known: {sorted(KINDS)}")
    return KINDS[kind].from_members(members)


class SerializableGraphModule(SerializableArtifact):
    """A graph that runs operator by operator, with no vendor compiler.

    Args:
        gm: the graph; it is given the boxed calling convention, so call the artifact, not ``gm``.
    """

    kind = "graph"

    def __init__(self, gm: fx.GraphModule) -> None:
        self.gm = gm
        self._forward = boxed_forward(gm)

    @override
    def boxed(self, args: list[Any]) -> Any:
        return self._forward(args)

    @override
    def entry(self) -> Callable[[list[Any]], Any]:
        return self._forward

    @override
    def members(self) -> dict[str, bytes]:
        data, tensors = encode_graph(self.gm)
        layouts = {name: layout_of(tensor) for name, tensor in tensors.items()}
        spans = {name: span_of(tensor) for name, tensor in tensors.items()}
        return {
            "graph.json": canonical_text({"graph": data, "layouts": layouts}).encode(),
            "constants.safetensors": encode_tensors(spans),
        }

    @override
    @classmethod
    def from_members(cls, members: Mapping[str, bytes]) -> SerializableGraphModule:
        try:
            stored = json.loads(members["graph.json"])
            spans = decode_tensors(members["constants.safetensors"])
            tensors = {
                name: with_layout(spans[name], layout) for name, layout in stored["layouts"].items()
            }
            return cls(decode_graph(stored["graph"], tensors))
        except CacheError:
            raise
        except (LookupError, ValueError, TypeError, AttributeError, RuntimeError) as error:
            raise CacheError(f"the stored graph cannot be read: {error!r}") from error


def nest(prefix: str, artifact: SerializableArtifact) -> dict[str, bytes]:
    """The parts of an artifact as a group among the parts of another.

    Raises:
        NotCacheable: the artifact has no stored form.
    """
    kind, members = _kind_and_members(artifact)
    parts = {f"{prefix}/{name}": content for name, content in members.items()}
    return {f"{prefix}.kind": kind.encode(), **parts}


def _kind_and_members(artifact: SerializableArtifact) -> tuple[str, dict[str, bytes]]:
    members = artifact.members()  # first, since it knows best why there is no stored form
    if not artifact.kind:
        raise NotCacheable(f"{type(artifact).__name__} sets no kind, so nobody could load it")
    return artifact.kind, members


def unnest(prefix: str, members: Mapping[str, bytes]) -> SerializableArtifact:
    """The inverse of ``nest``."""
    try:
        kind = members[f"{prefix}.kind"].decode()
    except (KeyError, UnicodeDecodeError) as error:
        raise CacheError(f"the part {prefix!r} is missing") from error
    start = f"{prefix}/"
    parts = {n.removeprefix(start): c for n, c in members.items() if n.startswith(start)}
    return rebuild(kind, parts)
