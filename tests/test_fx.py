import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from xpu_graph import fx as graph_facts
from xpu_graph.fakes import run_fake
from xpu_graph.testing import capture

aten = torch.ops.aten


X = torch.ones(3)


def test_geometry_difference():
    base = torch.ones(4, 4)
    same = graph_facts.geometry_difference
    assert same(base, base.clone()) is None
    assert "dtype" in same(base, base.double())
    assert "device" in same(base, base.to("meta"))
    assert "layout" in same(base, base.to_sparse())
    assert "shape" in same(base, base[:2])
    assert "shape" in same(base, base[0])
    assert "stride" in same(base, base.t())
    assert "offset" in same(base[:2], base[2:])
    assert same(base[:2], base[2:], ignore_offset=True) is None
    assert "Parameter" in same(base, torch.nn.Parameter(base))
    lazy = torch.ones(2, dtype=torch.complex64)
    assert "lazy" in same(lazy, lazy.conj())
    assert "lazy" in same(base, torch._neg_view(base))
    assert same(base.to_sparse(), base.to_sparse()) is None


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ((X, X), (X, X), None),
        ((X, X), [X, X], "the structure"),
        ((X, X), (X,), "the structure"),
        (X, 1, "a tensor would become something else"),
        (1, 2, "the number 1 would become 2"),
        (True, 1, "the number True would become 1"),
        (None, None, None),
        (1.5, 1.5, None),
        (0.0, -0.0, "0.0 would become -0.0"),
        (float("nan"), float("nan"), None),
        ("a", "b", "'a' would become 'b'"),
        ((X, X), (X, X.double()), "dtype"),
    ],
)
def test_value_difference(old, new, what):
    given = graph_facts.value_difference(old, new)
    assert given is None if what is None else what in given


def test_sizes_are_compared_without_a_guard():
    unit = capture(lambda x, y: x.sin() + y.sum(), X, torch.ones(5), dynamic=True)[0]
    symbols = [value for value in unit.fake_inputs if isinstance(value, torch.SymInt)]
    first, second = symbols
    env = first.node.shape_env
    before = len(env.guards), dict(env.replacements)
    assert graph_facts.same_size(first, first)
    assert graph_facts.same_size(first + 1, 1 + first)
    assert graph_facts.same_size(first - first + 3, 3)
    assert not graph_facts.same_size(first, second)
    assert not graph_facts.same_size(first, 3)
    assert not graph_facts.same_size(3, first)
    assert graph_facts.same_size(3, 3)
    assert (len(env.guards), dict(env.replacements)) == before


def test_is_static():
    unit = capture(lambda x: (x.sin(), x.sum()), torch.ones(3, 4), dynamic=True)[0]
    nodes = {n.name: n.meta.get("val") for n in unit.gm.graph.nodes}
    assert not graph_facts.is_static(nodes["sin"])
    assert graph_facts.is_static(nodes["sum_1"])
    assert graph_facts.is_static(torch.eye(3).to_sparse())


def test_fake_values(call):
    mode = FakeTensorMode()
    node = call(aten.sin.default, mode.from_tensor(X))
    assert run_fake(node, mode).shape == (3,)
    assert graph_facts.fake_mode_of(node.graph) is mode
    assert graph_facts.fake_mode_of(torch.fx.Graph()) is None


def test_storages(call):
    base = torch.ones(4)
    node = call(aten.split.Tensor, base, 2)
    node.meta["val"] = [base[:2], base[2:], base.clone()]
    first, second, third = graph_facts.storages_of(node)
    assert first == second != third
    node.meta["val"] = torch.eye(3).to_sparse()
    assert graph_facts.storages_of(node) == [None]
    node.meta["val"] = (1, None)
    assert graph_facts.storages_of(node) == []


def test_provenance_is_inherited_and_nothing_else(call):
    old, new = call(aten.sin.default, X), call(aten.cos.default, X)
    assert not graph_facts.has_provenance(old)
    old.meta |= {"stack_trace": "here", "seq_nr": 3, "val": X, "tensor_meta": "no"}
    graph_facts.inherit_provenance(new, old)
    assert new.meta == {"stack_trace": "here", "seq_nr": 3}
    assert graph_facts.has_provenance(new)


def test_a_shallow_copy_shares_tensors_and_no_nodes():
    unit = capture(lambda x: x + torch.tensor([2.0]), X)[0]
    copied = graph_facts.shallow_copy(unit.gm)
    name = copied.graph.find_nodes(op="get_attr")[0].target
    assert getattr(copied, name) is getattr(unit.gm, name)
    for node in list(copied.graph.nodes):
        assert node not in set(unit.gm.graph.nodes)


def test_attribute_paths():
    outer = torch.nn.Module()
    outer.inner = torch.nn.Linear(2, 2)
    assert graph_facts.attribute(outer, "inner.weight") is outer.inner.weight


def test_outputs_and_placeholders_in_order():
    unit = capture(lambda x, y: (y + 1, x + 1, None), torch.ones(2), torch.ones(3))[0]
    shapes = [tuple(n.meta["val"].shape) for n in graph_facts.output_leaves(unit.gm.graph)]
    assert shapes == [(3,), (2,)]
    assert len(graph_facts.placeholders(unit.gm.graph)) == 2
