"""The key of an artifact: equal where the artifact would be, and different by a named factor."""

import contextlib
import dataclasses
import functools
import json
import os
import subprocess
import sys

import pytest
import torch
from torch import fx

from xpu_graph.cache.key import KEYED_FIELDS, UNKEYED_FIELDS, build_key, canonical
from xpu_graph.config import XpuGraphConfig
from xpu_graph.errors import NotCacheable
from xpu_graph.passes import DEFAULT_PASSES, Pipeline
from xpu_graph.stage import Stage
from xpu_graph.testing import capture

aten = torch.ops.aten


def graph_of(*calls, constants=(), inputs=1, name="x"):
    """A graph that calls (operator, further arguments) one after the other on its first input."""
    root = torch.nn.Module()
    graph = fx.Graph()
    nodes = [graph.placeholder(f"{name}{i}") for i in range(inputs)]
    last = nodes[0]
    for number, constant in enumerate(constants):
        root.register_buffer(f"{name}_constant{number}", constant)
        last = graph.call_function(
            aten.add.Tensor, (last, graph.get_attr(f"{name}_constant{number}"))
        )
    for target, *args in calls:
        last = graph.call_function(target, (last, *args))
        last.name = f"{name}_{last.name}"
    graph.output([last])
    return fx.GraphModule(root, graph)


def key_of(gm=None, values=None, config=None, stage=Stage.inference, **more):
    gm = graph_of((aten.sin.default,)) if gm is None else gm
    values = [torch.empty(2, 3, dtype=torch.float32)] if values is None else values
    return build_key(gm, values, XpuGraphConfig(**(config or {})), stage, **more)


def test_the_same_twice():
    assert key_of() == key_of()
    assert key_of().digest == key_of().digest
    assert len(key_of().digest) == 64
    assert str(key_of()) == key_of().digest
    assert key_of().diff(key_of()) == {}


def test_names_do_not_matter():
    calls = ((aten.sin.default,), (aten.add.Tensor, 1))
    constants = [torch.ones(3)]
    left = key_of(graph_of(*calls, constants=constants, name="x"))
    assert left == key_of(graph_of(*calls, constants=constants, name="other"))


SCRIPT = """
import json, torch
from xpu_graph.cache.key import build_key
from xpu_graph.config import XpuGraphConfig
from xpu_graph.passes import DEFAULT_PASSES, Pipeline
from xpu_graph.testing import capture
from xpu_graph.backends import fingerprint
from xpu_graph.stage import Stage
config = XpuGraphConfig(
    target="cpu", vendor_compiler_config={"max_autotune": False, "epilogue_fusion": True}
)
def f(x, y):
    return (x @ y).relu() + torch.tensor([1.0, 2.0]), x.sum(dim=[0, 1])
(unit,) = capture(f, torch.ones(3, 4), torch.ones(4, 2), dynamic=True)
vendor = fingerprint(config.target, config.vendor_compiler_config)
identities = {"passes": Pipeline(DEFAULT_PASSES, config).identity(unit), "vendor": vendor}
key = build_key(unit.gm, unit.fake_inputs, config, Stage.inference, identities=identities)
print(json.dumps(key.factors))
"""


def test_the_same_in_another_process():
    keys = [
        json.loads(
            subprocess.run(
                [sys.executable, "-c", SCRIPT],
                env={**os.environ, "PYTHONHASHSEED": seed},
                check=True,
                capture_output=True,
                text=True,
            ).stdout.splitlines()[-1]
        )
        for seed in ("1", "2")
    ]
    assert keys[0] == keys[1]


LITERALS = [1, 1.0, True, 0, False, 0.0, -0.0, 2, float("inf"), float("nan"), 1j, None, "1"]


def test_every_literal_is_its_own():
    digests = {key_of(graph_of((aten.add.Tensor, literal))).digest for literal in LITERALS}
    digests |= {key_of(graph_of((aten.add.Tensor, [1]))).digest}
    digests |= {key_of(graph_of((aten.add.Tensor, (1,)))).digest}
    digests |= {key_of(graph_of((aten.add.Tensor, slice(1)))).digest}
    assert len(digests) == len(LITERALS) + 3


@pytest.mark.parametrize(
    "gm",
    [
        graph_of((aten.cos.default,)),
        graph_of((aten.sin.default,), (aten.sin.default,)),
        graph_of((aten.sum.default,)),
        graph_of((aten.sum.dim_IntList, [0])),
    ],
)
def test_the_graph_is_a_factor(gm):
    assert "graph" in key_of().diff(key_of(gm))


def test_which_input_is_used_is_a_factor():
    keys = []
    for position in (0, 1):
        graph = fx.Graph()
        inputs = [graph.placeholder("a"), graph.placeholder("b")]
        graph.output([graph.call_function(aten.sin.default, (inputs[position],))])
        gm = fx.GraphModule(torch.nn.Module(), graph)
        keys.append(key_of(gm, [torch.empty(2), torch.empty(2)]))
    assert list(keys[0].diff(keys[1])) == ["graph"]


def test_a_nested_graph_is_a_factor():
    def program(last):
        def f(x):
            return torch.cond(x.sum() > 0, lambda t: t.sin(), last, (x,))

        (unit,) = capture(f, torch.ones(3))
        return build_key(unit.gm, unit.fake_inputs, XpuGraphConfig(), Stage.inference)

    assert program(torch.cos) == program(torch.cos)
    assert list(program(torch.cos).diff(program(torch.tan))) == ["graph"]


@pytest.mark.parametrize(
    "value",
    [
        torch.empty(2, 3, dtype=torch.float64),
        torch.empty(3, 2),
        torch.empty(3, 2).t(),
        torch.empty(2, 3, device="meta"),
        torch.empty(7)[1:].view(2, 3),
        torch.empty(2, 1).expand(2, 3),
        torch.empty(2, 3, requires_grad=True),
        torch.empty(2, 3, dtype=torch.complex64).conj(),
        torch.empty(2, 3).to_sparse(),
        3,
        3.0,
        True,
        None,
    ],
)
def test_each_property_of_an_input_is_a_factor(value):
    assert list(key_of().diff(key_of(values=[value]))) == ["inputs"]


def dynamic_inputs(shape, **how):
    (unit,) = capture(lambda x: x.sin(), torch.ones(shape), **how)
    return unit


def test_a_symbol_is_not_a_number():
    static = dynamic_inputs((4, 3), dynamic=False)
    symbolic = dynamic_inputs((4, 3), dynamic=True)
    keys = [
        build_key(static.gm, values, XpuGraphConfig(), Stage.inference)
        for values in (static.fake_inputs, symbolic.fake_inputs)
    ]
    assert list(keys[0].diff(keys[1])) == ["inputs", "guards"]


def symbolic_key(make):
    """The key of a graph whose inputs ``make`` gives, from an environment of its own."""
    env = torch.fx.experimental.symbolic_shapes.ShapeEnv()
    return key_of(values=make(env))


def symbol(env, name, value=5, lower=None, upper=None):
    source = torch._dynamo.source.LocalSource(name)
    made = env.create_unspecified_symbol(
        value, source, torch.fx.experimental.symbolic_shapes.DimDynamic.DYNAMIC
    )
    size = env.create_symintnode(made, hint=value, source=source)
    for bound, holds in ((lower, lambda b: size >= b), (upper, lambda b: size <= b)):
        if bound is not None:
            assert holds(bound)
    return size


def test_names_and_hints_of_symbols_do_not_matter():
    left = symbolic_key(lambda env: [symbol(env, "a"), symbol(env, "b")])
    assert left == symbolic_key(lambda env: [symbol(env, "z", 7), symbol(env, "a", 8)])


def test_equal_symbols_are_a_factor():
    def same(env):
        size = symbol(env, "a")
        return [size, size]

    other = symbolic_key(lambda env: [symbol(env, "a"), symbol(env, "b")])
    assert list(symbolic_key(same).diff(other)) == ["inputs", "guards"]


def test_an_expression_is_a_factor():
    def twice(env):
        size = symbol(env, "a")
        return [size, size * 2]

    def plus(env):
        size = symbol(env, "a")
        return [size, size + 2]

    assert list(symbolic_key(twice).diff(symbolic_key(plus))) == ["inputs", "guards"]


def test_the_range_of_a_symbol_is_a_factor():
    free = symbolic_key(lambda env: [symbol(env, "a")])
    bounded = symbolic_key(lambda env: [symbol(env, "a", upper=4096)])
    assert list(free.diff(bounded)) == ["inputs", "guards"]
    assert bounded == symbolic_key(lambda env: [symbol(env, "b", upper=4096)])


def test_a_guard_is_a_factor():
    def asked(name, divisor):
        def make(env):
            size = symbol(env, name, 12)
            assert size % divisor == 0
            return [size]

        return symbolic_key(make)

    free = symbolic_key(lambda env: [symbol(env, "a", 12)])
    assert list(free.diff(asked("a", 2))) == ["guards"]
    assert list(asked("a", 2).diff(asked("a", 3))) == ["guards"]
    assert asked("a", 2) == asked("b", 2)


def test_a_size_made_of_one_that_is_no_input_is_not_cacheable():
    with pytest.raises(NotCacheable, match="size"):
        symbolic_key(lambda env: [symbol(env, "a") * 2])


@pytest.mark.parametrize(
    "other",
    [
        torch.tensor([1.0, 3.0]),
        torch.tensor([1.0, 2.0], dtype=torch.float64),
        torch.tensor([[1.0, 2.0]]),
        torch.tensor([1.0, 9.0, 2.0])[::2],
        torch.tensor([1.0, -2.0]),
    ],
    ids=str,
)
def test_a_constant_counts_by_content_and_layout(other):
    def key(constant):
        return key_of(graph_of(constants=[constant]))

    base = torch.tensor([1.0, 2.0])
    assert key(base) == key(base.clone())
    assert list(key(base).diff(key(other))) == ["constants"]


def test_the_sign_of_zero_and_payloads_of_constants_count():
    contents = [0.0, -0.0, float("nan"), -float("nan")]
    keys = {key_of(graph_of(constants=[torch.tensor([value])])).digest for value in contents}
    assert len(keys) == len(contents)


def test_frozen_weights_count_by_content_and_place():
    gm = graph_of((aten.sin.default,), inputs=2)
    ones, twos = torch.ones(2), torch.full((2,), 2.0)

    def key(**frozen):
        return key_of(gm, [torch.empty(2), torch.empty(2)], frozen=frozen)

    assert key(x0=ones) == key(x0=ones.clone())
    for other in (key(x0=twos), key(x1=ones), key(x0=ones, x1=ones), key()):
        assert list(key(x0=ones).diff(other)) == ["frozen"]


@pytest.mark.parametrize("stage", [stage for stage in Stage if stage != Stage.inference])
def test_the_stage_is_a_factor(stage):
    assert list(key_of().diff(key_of(stage=stage))) == ["stage"]


CHANGES = {
    "constant_folding": False,
    "fold_limit_bytes": 1,
    "folding_freezed_params": False,
    "freeze": True,
    "include_patterns": ("a",),
    "opt_level": "level2",
    "skip_patterns": ("cse",),
    "target": "cpu",
    "vendor_compiler_config": {},
}


def test_every_field_is_keyed_or_not():
    fields = [field.name for field in dataclasses.fields(XpuGraphConfig)]
    assert sorted([*KEYED_FIELDS, *UNKEYED_FIELDS]) == sorted(fields)
    assert not set(KEYED_FIELDS) & set(UNKEYED_FIELDS)
    assert sorted(CHANGES) == sorted(KEYED_FIELDS)


@pytest.mark.parametrize("name", KEYED_FIELDS)
def test_a_keyed_field_is_a_factor(name):
    changed = key_of(config={name: CHANGES[name]})
    assert list(key_of().diff(changed)) == [f"config.{name}"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cache_wait_s", 1.0),
        ("debug", True),
        ("dump_dir", "elsewhere"),
        ("fallback", "eager"),
        ("is_training", True),
        ("partition_fn", "MINCUT"),
        ("verify", "off"),
    ],
)
def test_an_unkeyed_field_is_none(name, value, monkeypatch):
    monkeypatch.delenv("XPUGRAPH_VERIFY")
    assert key_of() == key_of(config={name: value})


def test_vendor_options_are_a_factor_whatever_their_order():
    def key(**options):
        return key_of(config={"target": "cpu", "vendor_compiler_config": options})

    assert key(a=1, b=2) == key(b=2, a=1)
    for other in (key(a=1), key(a=1, b=2.0), key(a=True, b=2), key(a=1, b="2"), key(a=2, b=1)):
        assert list(key(a=1, b=2).diff(other)) == ["config.vendor_compiler_config"]


def test_an_option_cannot_be_written_as_another():
    assert canonical({"a": 1, "b": 2}, "x") != canonical({"a:1,b": 2}, "x")
    assert canonical(["a", "b"], "x") != canonical(["a,b"], "x")
    assert canonical({"1": 0}, "x") != canonical({1: 0}, "x")
    assert canonical((1,), "x") != canonical([1], "x")
    assert canonical("null", "x") != canonical(None, "x")
    assert canonical(0.0, "x") != canonical(-0.0, "x")


def test_identities_are_factors():
    one, other = key_of(identities={"passes": "a"}), key_of(identities={"passes": "b"})
    assert one.diff(other) == {"passes": ("a", "b")}
    assert one.diff(key_of()) == {"passes": ("a", None)}
    assert key_of().diff(one) == {"passes": (None, "a")}


def test_the_list_of_passes_is_a_factor():
    (unit,) = capture(lambda x: x.sin(), torch.ones(2))
    config = XpuGraphConfig()
    identities = {
        Pipeline(passes, config).identity(unit) for passes in (DEFAULT_PASSES, DEFAULT_PASSES[1:])
    }
    assert len(identities) == 2


def test_the_version_of_torch_is_a_factor(monkeypatch):
    before = key_of()
    monkeypatch.setattr(torch, "__version__", "9.9.9")
    assert list(before.diff(key_of())) == ["torch"]


def test_the_sources_of_this_package_are_a_factor(monkeypatch):
    before = key_of()
    monkeypatch.setattr("xpu_graph.cache.key.package_identity", lambda: "other")
    assert list(before.diff(key_of())) == ["package"]


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def threads():
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def double():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def no_mkldnn():
    with torch.backends.mkldnn.flags(enabled=False):
        yield


@contextlib.contextmanager
def another_cpu():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "OTHER")
        yield


@pytest.mark.parametrize(
    ("changed", "factor"),
    [
        (deterministic, "process.deterministic"),
        (threads, "process.threads"),
        (double, "process.default_dtype"),
        (no_mkldnn, "process.mkldnn"),
        (another_cpu, "process.cpu"),
    ],
)
def test_the_state_of_the_process_is_a_factor(changed, factor):
    before = key_of()
    with changed():
        assert list(before.diff(key_of())) == [factor]
    assert before == key_of()


class Opaque:
    pass


@pytest.mark.parametrize(
    "options",
    [
        {"a": Opaque()},
        {"a": [Opaque()]},
        {"a": {"b": Opaque()}},
        {"a": functools.partial(print, Opaque())},
    ],
    ids=["object", "in a list", "in a dict", "in a function"],
)
def test_an_option_without_identity_is_not_cacheable(options):
    with pytest.raises(NotCacheable, match="vendor_compiler_config"):
        key_of(config={"target": "cpu", "vendor_compiler_config": options})


def test_functions_among_the_options_count_by_what_they_do():
    keys = [
        key_of(config={"target": "cpu", "vendor_compiler_config": {"a": function}})
        for function in (lambda x: x + 1, lambda x: x + 1, lambda x: x + 2)
    ]
    assert keys[0] == keys[1]
    assert keys[0] != keys[2]


def test_an_opaque_input_counts_by_its_kind():
    """A DTensor brings its mesh along; the graph hands it on, and is compiled for any."""

    def key(kind):
        from torch._library.fake_class_registry import FakeScriptObject

        values = [torch.empty(2, 3), FakeScriptObject(object(), kind, None)]
        return key_of(graph_of((aten.sin.default,), inputs=2), values)

    assert key("a.Mesh") == key("a.Mesh")
    assert set(key("a.Mesh").diff(key("b.Mesh"))) == {"inputs"}


def test_an_input_without_identity_is_not_cacheable():
    with pytest.raises(NotCacheable, match="Opaque"):
        key_of(values=[Opaque()])


@pytest.mark.parametrize(
    "constant",
    [
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(2).to_sparse(),
        torch.empty(2, device="meta"),
        torch.ones(2, dtype=torch.complex128),
    ],
    ids=["conj", "sparse", "meta", "complex128"],
)
def test_a_constant_without_content_is_not_cacheable(constant):
    with pytest.raises(NotCacheable):
        key_of(graph_of((aten.sin.default,), constants=[constant]))
    with pytest.raises(NotCacheable):
        key_of(frozen={"x0": constant})


def test_the_schema_of_a_custom_operator_counts():
    def key(schema):
        with torch.library._scoped_library("xpu_graph_test_key", "FRAGMENT") as library:
            library.define(f"thing{schema}")
            library.impl("thing", lambda x, *_: x.clone(), "CompositeExplicitAutograd")
            operator = torch.ops.xpu_graph_test_key.thing.default
            graph = torch.fx.Graph()
            x = graph.placeholder("x")
            x.meta["val"] = torch.ones(2)
            call = graph.call_function(operator, (x,))
            call.meta["val"] = torch.ones(2)
            graph.output((call,))
            gm = torch.fx.GraphModule({}, graph)
            built = build_key(gm, [torch.ones(2)], XpuGraphConfig(), Stage.inference)
            del torch.ops.xpu_graph_test_key.thing
            return built

    first, second = key("(Tensor x) -> Tensor"), key("(Tensor x, int y=1) -> Tensor")
    assert list(first.diff(second)) == ["custom operators"]
