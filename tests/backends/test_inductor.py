"""Inductor as a vendor compiler: what is stored, how it is loaded, and what identifies it."""

import threading

import pytest
import torch
from torch._inductor import config as inductor_config
from torch._inductor.codecache import CppCodeCache
from torch._inductor.custom_graph_pass import CustomGraphPass

from xpu_graph.artifact import SerializableArtifact
from xpu_graph.backends import inductor
from xpu_graph.backends.inductor import (
    SerializableCompiledFxGraph,
    fingerprint,
    inductor_compiler,
    why_not_cpp,
)
from xpu_graph.config import XpuGraphConfig
from xpu_graph.dispatch import dispatch
from xpu_graph.errors import BackendError, CacheError, NotCacheable
from xpu_graph.runtime import boxed_entry
from xpu_graph.testing import assert_same, capture
from xpu_graph.torch_compat import inductor as kernels

needs_cpp = pytest.mark.skipif(why_not_cpp() is not None, reason=str(why_not_cpp()))


def compile_in_context(function, *inputs, dynamic=False):
    """Artifacts for a function, compiled where Dynamo would."""
    made = []

    def keep(unit):
        unit.gm.recompile()
        made.append(inductor_compiler(unit.gm, unit.fake_inputs))
        return made[-1]

    torch._dynamo.reset()
    compiled = torch.compile(
        function,
        backend=lambda gm, args: dispatch(
            gm, args, XpuGraphConfig(), lambda unit: boxed_entry(keep(unit))
        ),
        dynamic=dynamic,
        fullgraph=True,
    )
    with torch.no_grad():
        results = compiled(*inputs)
    return made, results


def reload(artifact):
    return SerializableArtifact.rebuild_from_bytes(artifact.convert_to_bytes())


# --- what is stored ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pointwise():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("XPUGRAPH_VERIFY", raising=False)
        (artifact,), _ = compile_in_context(lambda x: (x * 2 + 1).sin(), torch.ones(4, 3))
    return artifact


X = torch.arange(12.0).view(4, 3)
WANT = [(X * 2 + 1).sin()]


@needs_cpp
def test_the_kernels_travel_with_it(pointwise):
    members = pointwise.members()
    libraries = [name for name in members if name.startswith("kernels/")]
    assert libraries
    assert all(members[name].startswith(b"\x7fELF") for name in libraries)
    found = reload(pointwise)
    assert_same(list(found(X)), WANT, bitwise=False, rtol=1e-6, atol=1e-6)
    assert sorted(found.members()) == sorted(members)
    again = reload(found)
    assert_same(list(again(X)), WANT, bitwise=False, rtol=1e-6, atol=1e-6)


@needs_cpp
def test_without_its_kernels_it_is_not_loaded(pointwise):
    members = {k: v for k, v in pointwise.members().items() if not k.startswith("kernels/")}
    with pytest.raises(CacheError):
        SerializableCompiledFxGraph.from_members(members)


@needs_cpp
def test_with_broken_kernels_it_is_not_loaded(pointwise):
    members = {
        k: b"\x7fELF broken" if k.startswith("kernels/") else v
        for k, v in pointwise.members().items()
    }
    torch._inductor.codecache.CppPythonBindingsCodeCache.cache_clear()
    with pytest.raises(CacheError):
        SerializableCompiledFxGraph.from_members(members)
    torch._inductor.codecache.CppPythonBindingsCodeCache.cache_clear()
    assert_same(list(reload(pointwise)(X)), WANT, bitwise=False, rtol=1e-6, atol=1e-6)


@needs_cpp
def test_nothing_stays_behind(pointwise, tmp_path, monkeypatch):
    monkeypatch.setattr(inductor.tempfile, "tempdir", str(tmp_path))
    reload(pointwise)
    assert list(tmp_path.iterdir()) == []


@needs_cpp
def test_loads_in_many_threads_at_once(pointwise):
    data, errors = pointwise.convert_to_bytes(), []

    def work():
        try:
            found = SerializableArtifact.rebuild_from_bytes(data)
            assert_same(list(found(X)), WANT, bitwise=False, rtol=1e-6, atol=1e-6)
        except BaseException as error:
            errors.append(error)

    torch._inductor.codecache.CppPythonBindingsCodeCache.cache_clear()
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_parts_that_are_no_artifact():
    for members in ({}, {"inductor.bin": b""}, {"inductor.bin": b"not a pickle"}):
        with pytest.raises(CacheError):
            SerializableCompiledFxGraph.from_members(members)


def test_a_loader_that_raises(monkeypatch):
    def fail(data):
        raise AssertionError("torch's loader asserts")

    monkeypatch.setattr(inductor, "inductor_deserialize", fail)
    with pytest.raises(CacheError, match="asserts"):
        SerializableCompiledFxGraph.from_members({"inductor.bin": b""})


def test_what_cannot_be_serialised_still_runs():
    def fail():
        raise TypeError("cannot pickle")

    for serialize in (fail, None):
        artifact = SerializableCompiledFxGraph(lambda x: [x + 1], serialize, {})
        assert artifact(1) == [2]
        with pytest.raises(NotCacheable):
            artifact.convert_to_bytes()


def test_wrapping_again_returns_it_unchanged():
    artifact = SerializableCompiledFxGraph(lambda x: [x + 1], None, {})
    assert SerializableCompiledFxGraph(artifact) is artifact
    assert artifact(1) == [2]


def test_a_failure_is_named_and_chained(monkeypatch):
    def fail(*args):
        raise IndexError("deep inside")

    monkeypatch.setattr(inductor, "inductor_compile", fail)
    (unit,) = capture(lambda x: x.sin(), torch.ones(2))
    with pytest.raises(BackendError, match="deep inside") as caught:
        inductor_compiler(unit.gm, unit.fake_inputs)
    assert isinstance(caught.value.__cause__, IndexError)


# --- calling ----------------------------------------------------------------------------------


@needs_cpp
def test_symbols_go_in_and_come_out():
    def f(x):
        return x * x.shape[0], x.shape[0] + 1, x.new_ones(x.shape[0] * 2)

    (artifact,), results = compile_in_context(f, torch.ones(5), dynamic=True)
    assert_same(results, f(torch.ones(5)))
    found = reload(artifact)
    for size in (2, 9):
        got = [value for value in found(size, torch.ones(size)) if isinstance(value, torch.Tensor)]
        want = [value for value in f(torch.ones(size)) if isinstance(value, torch.Tensor)]
        assert_same(got, want)


@needs_cpp
def test_no_inputs():
    (artifact,), results = compile_in_context(lambda: torch.arange(4) + 1)
    assert_same(results, torch.arange(4) + 1)
    assert_same(list(reload(artifact)()), [torch.arange(4) + 1])


@needs_cpp
def test_no_outputs():
    def f(t):
        t.add_(1)

    x, y = torch.zeros(3), torch.zeros(3)
    (artifact,), results = compile_in_context(f, x)
    assert results is None
    assert len(reload(artifact)(y)) <= 1
    assert_same(y, x)
    assert x[0] == 1


def test_the_list_is_emptied():
    args = [torch.ones(1)]
    SerializableCompiledFxGraph(lambda x: [x], None, {}).boxed(args)
    assert args == []


# --- the way into Inductor --------------------------------------------------------------------


@pytest.fixture
def plain(monkeypatch):
    """Inductor's own loader, as a function that only says what it was asked for."""
    asked = []

    def load_async(cls, main_code, device_type="cpu", *args, **kwargs):
        asked.append(main_code)
        return lambda: main_code

    monkeypatch.setattr(CppCodeCache, "load_async", classmethod(load_async))
    return asked


def test_kernels_are_recorded_by_source_and_flags(plain):
    before = CppCodeCache.__dict__["load_async"]
    with kernels.recorded_kernels() as loaders:
        for code, flags in (("a", ()), ("a", ()), ("b", ()), ("a", ("-O0",))):
            CppCodeCache.load_async(code, "cpu", submit_fn=object(), extra_flags=flags)
    assert sorted(loader() for loader in loaders.values()) == ["a", "a", "b"]
    assert CppCodeCache.__dict__["load_async"] is before


def test_a_kernel_that_is_not_supplied_is_an_error(plain):
    with kernels.supplied_kernels({}), pytest.raises(KeyError):
        CppCodeCache.load_async("a")
    assert not plain
    CppCodeCache.load_async("a")
    assert plain == ["a"]


def test_other_threads_are_not_affected(plain):
    with kernels.supplied_kernels({}):
        thread = threading.Thread(target=CppCodeCache.load_async, args=("a",))
        thread.start()
        thread.join()
    assert plain == ["a"]


def test_users_may_leave_in_any_order(plain):
    before = CppCodeCache.__dict__["load_async"]
    first, second = kernels.supplied_kernels({}), kernels.recorded_kernels()
    first_in, first_out = threading.Event(), threading.Event()

    def hold():
        with first:
            first_in.set()
            first_out.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    first_in.wait()
    with second as loaders:
        first_out.set()
        thread.join()
        CppCodeCache.load_async("a")
    assert len(loaders) == 1
    assert CppCodeCache.__dict__["load_async"] is before


def test_an_error_inside_leaves_inductor_as_it_was(plain):
    before = CppCodeCache.__dict__["load_async"]
    with pytest.raises(ZeroDivisionError), kernels.recorded_kernels():
        1 / 0
    assert CppCodeCache.__dict__["load_async"] is before


# --- identity ---------------------------------------------------------------------------------


def test_the_fingerprint_is_stable():
    assert fingerprint({}) == fingerprint({}) == fingerprint({"mode": "default"})
    assert fingerprint({"max_autotune": True, "freezing": True}) == fingerprint(
        {"freezing": True, "max_autotune": True}
    )


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "max-autotune"},
        {"max_autotune": True},
        {"cpp.threads": 1},
        {"cpp.simdlen": 256},
        {"epilogue_fusion": False},
    ],
    ids=str,
)
def test_options_count(options):
    assert fingerprint(options) != fingerprint({})


@pytest.mark.parametrize(
    "setting",
    [
        {"deterministic": True},
        {"cpp.threads": 3},
        {"split_reductions": False},
        {"realize_opcount_threshold": 7},
        {"_use_fp64_for_unbacked_floats": False},
        {"_fuse_ddp_communication": True},
    ],
    ids=str,
)
def test_settings_made_elsewhere_count(setting):
    before = fingerprint({})
    with inductor_config.patch(setting):
        assert fingerprint({}) != before
    assert fingerprint({}) == before


def test_settings_of_aot_autograd_count():
    before = fingerprint({})
    with torch._functorch.config.patch(cse=False):
        assert fingerprint({}) != before


class Named(CustomGraphPass):
    def __init__(self, name):
        self.name = name

    def __call__(self, graph):
        pass

    def uuid(self):
        return self.name


PASSES = [
    "joint_custom_post_pass",
    "joint_custom_pre_pass",
    "post_grad_custom_post_pass",
    "post_grad_custom_pre_pass",
    "pre_grad_custom_pass",
    "_pre_fusion_custom_pass",
    "_post_fusion_custom_pass",
]


@pytest.mark.parametrize("name", PASSES)
def test_passes_of_others_count_by_uuid(name):
    found = {fingerprint({})}
    for identity in ("a", "b", b"a"):
        with inductor_config.patch({name: Named(identity)}):
            found.add(fingerprint({}))
    assert len(found) == 4
    for anonymous in (Named(None), lambda graph: None):
        with inductor_config.patch({name: anonymous}), pytest.raises(NotCacheable, match=name):
            fingerprint({})


def test_an_option_without_identity_is_not_cacheable():
    for value in (object(), [object()], {"a": lambda: 0}):
        with pytest.raises(NotCacheable, match="post_grad_custom_pre_pass"):
            fingerprint({"post_grad_custom_pre_pass": value})


def test_equal_words_of_other_types_differ():
    texts = {inductor._identity(value, "x") for value in (1, 1.0, True, "1", [1], (1,), {1: 1})}
    assert len(texts) == 7


def test_what_is_missing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    (wanted,) = [name for name in inductor_config.cpp.cxx if name]
    assert wanted in str(why_not_cpp())
    compiler = tmp_path / wanted
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    assert why_not_cpp() is None
