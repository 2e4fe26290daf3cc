"""Graphs as JSON: what goes in comes out, and what has no form is refused with its name."""

import json
import math
import operator

import pytest
import torch
from torch import fx
from torch.utils import _pytree as pytree

from xpu_graph.errors import CacheError, NotCacheable
from xpu_graph.graph_codec import VERSION, canonical_text, decode_graph, encode_graph
from xpu_graph.testing import assert_same, capture

aten = torch.ops.aten


@torch.library.custom_op("xpu_graph_test::twice", mutates_args=())
def twice(x: torch.Tensor, note: str = "") -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x, note=""):
    return torch.empty_like(x)


@torch.library.custom_op("xpu_graph_test::bump", mutates_args=("x",))
def bump(x: torch.Tensor) -> None:
    x.add_(1)


def graph_with(target, *args, **kwargs):
    gm = fx.GraphModule(torch.nn.Module(), fx.Graph())
    x = gm.graph.placeholder("x")  # afterwards: not every argument has a form in FX's own code
    gm.graph.output(gm.graph.call_function(target, (x, *args), kwargs))
    return gm


def there_and_back(gm):
    data, tensors = encode_graph(gm)
    return decode_graph(json.loads(canonical_text(data)), tensors)


def calls(gm):
    return [node for node in gm.graph.nodes if node.op == "call_function"]


def assert_identical(got, want):
    assert type(got) is type(want)
    if isinstance(got, (float, complex)):
        assert repr(got) == repr(want)
    else:
        assert got == want


ARGUMENTS = [
    *(None, True, False, 0, 1, -1, 2**70, -(2**63)),
    *(0.0, -0.0, 1.5, 5e-324, 1e308, math.inf, -math.inf, math.nan),
    *(1j, complex(-0.0, -0.0), complex(math.inf, math.nan)),
    *("", "tanh", 'quote"\\\n\u2028', "\ud800"),
    *(torch.float32, torch.bool, torch.float8_e4m3fn, torch.complex64),
    *(torch.strided, torch.sparse_coo, torch.channels_last, torch.preserve_format),
    *(torch.device("cpu"), torch.device("cuda", 1), torch.device("meta")),
    *(slice(None), slice(1, None, -2), ..., aten.add.Tensor),
]


@pytest.mark.parametrize("value", ARGUMENTS, ids=repr)
def test_every_kind_of_argument(value):
    gm = there_and_back(graph_with(aten.add.Tensor, value, alpha=value))
    (node,) = calls(gm)
    assert_identical(node.args[1], value)
    assert_identical(node.kwargs["alpha"], value)


@pytest.mark.parametrize(
    "value",
    [[], (), [1, [2.0, None]], (1, (2, [True])), {"a": [1], "b": {"c": -0.0}}, [slice(0, 1), ...]],
    ids=repr,
)
def test_nested_arguments(value):
    (node,) = calls(there_and_back(graph_with(aten.add.Tensor, value)))
    got, got_spec = pytree.tree_flatten(node.args[1])
    want, want_spec = pytree.tree_flatten(fx.immutable_collections.immutable_list([value])[0])
    assert len(got) == len(want)
    assert isinstance(node.args[1], type(value))
    for mine, theirs in zip(got, want, strict=True):
        assert_identical(mine, theirs)
    assert str(got_spec).replace("immutable_", "") == str(want_spec).replace("immutable_", "")


PROGRAMS = {
    "pointwise": lambda x: (x * 1.5).clamp(-math.inf, 2).masked_fill(x > 1, math.nan),
    "layout": lambda x: x.to(torch.bfloat16).to(memory_format=torch.contiguous_format),
    "strings": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "slices": lambda x: x[..., 1:3].sum(dim=[0], dtype=torch.float64),
    "several results": lambda x: x.max(dim=0),
    "none among results": lambda x: (x.sin(), None, 3),
    "constants": lambda x: x + torch.tensor([1.0, 2.0, 3.0, 4.0]),
    "complex": lambda x: x * (1 + 2j),
    "a custom operator": lambda x: twice(x, "a note"),
    "a custom operator that mutates": lambda x: bump(y := x.clone()) or y,
    "a higher-order operator": lambda x: torch.cond(
        x.sum() > 0, lambda t: t.sin() + 1, lambda t: (t.cos() * 2).contiguous(), (x,)
    ),
    "one in another": lambda x: torch.cond(
        x.sum() > 0,
        lambda t: torch.cond(t.sum() > 1, lambda u: u + 1, lambda u: u + 2, (t,)),
        lambda t: t + 3,
        (x,),
    ),
    "nothing": lambda x: (),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_programs(program):
    x = torch.randn(3, 4)
    for unit in capture(program, x):
        gm = there_and_back(unit.gm)
        inputs = [x.clone() for value in unit.fake_inputs if isinstance(value, torch.Tensor)]
        assert_same(gm(*inputs), unit.gm(*inputs))
        assert encode_graph(gm)[0] == encode_graph(unit.gm)[0]


def test_symbolic_sizes_are_nodes():
    (unit,) = capture(lambda x: x.view(-1, 2) * x.shape[0], torch.ones(4, 2), dynamic=True)
    gm = there_and_back(unit.gm)
    assert calls(gm)
    for size in (3, 5):
        assert_same(gm(size, torch.ones(size, 2)), unit.gm(size, torch.ones(size, 2)))


@pytest.mark.parametrize(
    "function", [operator.add, operator.getitem, math.floor, torch.sym_max, torch.sym_float]
)
def test_functions_on_sizes(function):
    assert calls(there_and_back(graph_with(function, 1)))[0].target is function


def test_text_is_the_same_for_other_names():
    def make(prefix):
        root = torch.nn.Module()
        root.register_buffer(f"{prefix}_c", torch.ones(2))
        graph = fx.Graph()
        x = graph.placeholder(f"{prefix}_x")
        graph.output([graph.call_function(aten.mul.Tensor, (x, graph.get_attr(f"{prefix}_c")))])
        return fx.GraphModule(root, graph)

    assert canonical_text(encode_graph(make("a"))[0]) == canonical_text(encode_graph(make("b"))[0])


# --- refusals ---------------------------------------------------------------------------------


class Opaque:
    pass


@pytest.mark.parametrize(
    ("gm", "reason"),
    [
        (graph_with(lambda x: x), "lambda"),
        (graph_with(torch.sin), "sin"),
        (graph_with(operator.attrgetter), "attrgetter"),
        (graph_with(operator.call), "call"),
        (graph_with(aten.add.Tensor, Opaque()), "Opaque"),
        (graph_with(aten.add.Tensor, torch.ones(1)), "Tensor"),
        (graph_with(aten.add.Tensor, torch.Generator()), "Generator"),
        (graph_with(aten.add.Tensor, {1: 2}), "dict"),
        (graph_with(aten.add.Tensor, range(3)), "range"),
    ],
)
def test_a_refusal_names_what_it_is_about(gm, reason):
    with pytest.raises(NotCacheable, match=reason):
        encode_graph(gm)


@pytest.mark.parametrize("name", ["call_torchbind", "triton_kernel_wrapper_functional", "print"])
def test_operators_that_keep_something_elsewhere_are_refused(name):
    import torch._higher_order_ops

    with pytest.raises(NotCacheable, match=name):
        encode_graph(graph_with(getattr(torch.ops.higher_order, name)))


def test_objects_of_the_module_are_refused():
    root = torch.nn.Module()
    root.group = Opaque()
    graph = fx.Graph()
    graph.output(graph.call_function(aten.sin.default, (graph.create_node("get_attr", "group"),)))
    with pytest.raises(NotCacheable, match="Opaque"):
        encode_graph(fx.GraphModule(root, graph))


def test_calls_of_modules_and_methods_are_refused():
    graph = fx.Graph()
    graph.output(graph.call_method("sin", (graph.placeholder("x"),)))
    with pytest.raises(NotCacheable, match="call_method"):
        encode_graph(fx.GraphModule(torch.nn.Module(), graph))


# --- reading what someone else wrote ----------------------------------------------------------


def stored(**entry):
    call = {"op": "call_function", "target": "op:aten:sin:default", "args": {"tuple": []}}
    return {
        "version": VERSION,
        "nodes": [
            {"op": "placeholder"},
            {**call, **entry},
            {"op": "output", "args": {"tuple": []}},
        ],
    }


@pytest.mark.parametrize(
    "target",
    [
        "op:xpu_graph_test:absent:default",
        "op:aten:sin:absent",
        "op:aten:sin",
        "op:aten:__class__:__base__",
        "op:load_library:__func__:__globals__",
        "hop:absent",
        "hop:__class__",
        "hop:triton_kernel_wrapper_functional",
        "operator.attrgetter",
        "operator.methodcaller",
        "operator.call",
        "os.system",
        "builtins.eval",
    ],
)
def test_only_known_operators_are_called(target):
    with pytest.raises(CacheError, match=target.split(":")[-1]):
        decode_graph(stored(target=target), {})


def test_names_do_not_become_code():
    evil = "x=__import__('os').abort(), y"
    for data in (
        stored(kwargs={"dict": {evil: 1}}),
        stored(op="get_attr", name="tensor0; import os"),
        stored(op="get_attr", name="../x"),
    ):
        tensors = {"tensor0; import os": torch.ones(1), "../x": torch.ones(1)}
        with pytest.raises(CacheError):
            decode_graph(data, tensors)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"version": VERSION + 1, "nodes": []},
        stored(op="call_module"),
        stored(op="get_attr", name="tensor7"),
        stored(args={"tuple": [{"dtype": "nn"}]}),
        stored(args={"tuple": [{"dtype": "strided"}]}),
        stored(args={"tuple": [{"object": 1}]}),
    ],
)
def test_what_is_no_graph(data):
    with pytest.raises(CacheError):
        decode_graph(data, {})
