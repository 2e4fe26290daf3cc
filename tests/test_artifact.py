"""Artifacts: called, stored and rebuilt, whatever their kind."""

from collections.abc import Mapping

import pytest
import torch
from torch import fx

from xpu_graph.artifact import (
    KINDS,
    SerializableArtifact,
    SerializableGraphModule,
    nest,
    rebuild,
    unnest,
)
from xpu_graph.container import pack
from xpu_graph.errors import CacheError, NotCacheable
from xpu_graph.folded import FoldedArtifact

aten = torch.ops.aten


def adding(number, constant=None):
    root = torch.nn.Module()
    graph = fx.Graph()
    value = graph.call_function(aten.add.Tensor, (graph.placeholder("x"), number))
    if constant is not None:
        root.register_buffer("c", constant)
        value = graph.call_function(aten.mul.Tensor, (value, graph.get_attr("c")))
    graph.output([value])
    return SerializableGraphModule(fx.GraphModule(root, graph))


class Other(SerializableArtifact):
    kind = "test.other"

    def __init__(self, number):
        if number is self:
            return
        self.number = number

    def boxed(self, args):
        return [args.pop() + self.number]

    def members(self) -> dict[str, bytes]:
        return {"number": str(self.number).encode()}

    @classmethod
    def from_members(cls, members: Mapping[str, bytes]) -> "Other":
        return cls(int(members["number"]))


def test_wrapping_again_returns_it_unchanged():
    one, other = adding(1), Other(2)
    assert SerializableGraphModule(one) is one
    assert Other(other) is other
    assert other.number == 2
    assert SerializableGraphModule(one)(torch.zeros(()))[0] == 1


@pytest.mark.parametrize("artifact", [adding(2), adding(2, torch.tensor(1.0)), Other(2)])
def test_round_trip(artifact):
    found = SerializableArtifact.rebuild_from_bytes(artifact.convert_to_bytes(note="kept"))
    assert type(found) is type(artifact)
    assert found(torch.ones(()))[0] == artifact(torch.ones(()))[0] == 3
    assert found.convert_to_bytes() == artifact.convert_to_bytes()


def test_the_list_is_emptied():
    for artifact in (adding(1), Other(1)):
        for call in (artifact.boxed, artifact.entry()):
            args = [torch.ones(())]
            call(args)
            assert args == []


def test_an_input_is_freed_as_soon_as_it_is_used():
    seen = []
    graph = fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(aten.sin.default, (x,))
    graph.output([graph.call_function(aten.cos.default, (first,))])
    artifact = SerializableGraphModule(fx.GraphModule(torch.nn.Module(), graph))

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((func, reference() is None))
            return func(*args, **(kwargs or {}))

    import weakref

    args = [torch.ones(2)]
    reference = weakref.ref(args[0])
    with Watch():
        artifact.boxed(args)
    assert seen == [(aten.sin.default, False), (aten.cos.default, True)]


def test_constants_keep_their_layout():
    constant = torch.arange(6.0).view(2, 3).t()
    artifact = adding(0, constant)
    found = SerializableArtifact.rebuild_from_bytes(artifact.convert_to_bytes())
    (tensor,) = found.gm.buffers()
    assert tensor.stride() == (1, 3)
    assert torch.equal(tensor, constant)


def test_nested_kinds():
    artifact = FoldedArtifact(Other(5), adding(1), [0], [0])
    found = SerializableArtifact.rebuild_from_bytes(artifact.convert_to_bytes(b"s"), b"s")
    assert isinstance(found, FoldedArtifact)
    assert isinstance(found._fold, Other)
    assert isinstance(found._main, SerializableGraphModule)
    assert found._fold.number == 5


def test_groups_of_parts_do_not_mix():
    members = {**nest("a", Other(1)), **nest("ab", Other(2)), **nest("a/b", Other(3))}
    numbers = [unnest(prefix, members).number for prefix in ("a", "ab", "a/b")]
    assert numbers == [1, 2, 3]
    with pytest.raises(CacheError):
        unnest("absent", members)


def test_an_unknown_kind_is_named():
    with pytest.raises(CacheError, match=r"nobody's"):
        SerializableArtifact.rebuild_from_bytes(pack("nobody's", {}))
    with pytest.raises(CacheError, match="graph"):
        rebuild("grap", {})


def test_a_kind_belongs_to_one_class():
    assert KINDS["test.other"] is Other
    with pytest.raises(TypeError, match="taken"):

        class Thief(Other):
            kind = "graph"

    assert KINDS["graph"] is SerializableGraphModule


def test_what_has_no_kind_has_no_stored_form():
    class Unnamed(Other):
        kind = ""

    with pytest.raises(NotCacheable, match="Unnamed"):
        Unnamed(1).convert_to_bytes()
    with pytest.raises(NotCacheable, match="Unnamed"):
        FoldedArtifact(Unnamed(1), Other(1), [], []).convert_to_bytes()


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"graph.json": b"", "constants.safetensors": b""},
        {"graph.json": b"\xff", "constants.safetensors": b""},
        {"graph.json": b'{"layouts": {}}', "constants.safetensors": b"{}"},
    ],
)
def test_parts_that_make_no_graph(members):
    with pytest.raises(CacheError):
        rebuild("graph", members)


@pytest.mark.parametrize(
    "layout",
    [
        {"shape": [9], "stride": [1], "device": "cpu"},
        {"shape": [1], "stride": [1], "device": "no such device"},
        {"shape": [1], "stride": [-1], "device": "cpu"},
        {"shape": [1], "device": "cpu"},
        [],
    ],
)
def test_a_layout_that_does_not_fit(layout):
    import json

    members = adding(0, torch.ones(2)).members()
    stored = json.loads(members["graph.json"])
    stored["layouts"] = dict.fromkeys(stored["layouts"], layout)
    with pytest.raises(CacheError):
        rebuild("graph", {**members, "graph.json": json.dumps(stored).encode()})
