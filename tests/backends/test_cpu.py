"""Target cpu: Inductor."""

import pytest
import torch

from xpu_graph import BackendError, BackendUnavailable, ConfigError, XpuGraph, XpuGraphConfig
from xpu_graph.backends import cpu, inductor
from xpu_graph.conformance import BackendConformance, raised
from xpu_graph.testing import assert_same


class TestCpu(BackendConformance):
    target = "cpu"
    foreign_device = "meta"


class Stop(Exception):
    """Ends a compilation once the test has seen what it wanted."""


@pytest.fixture
def patches(monkeypatch):
    """The Inductor options of the compilations that were asked for; none is carried out."""
    seen = []

    def compile_nothing(gm, fake_inputs, options):
        seen.append(options)
        raise Stop("seen")

    monkeypatch.setattr(inductor, "inductor_compile", compile_nothing)
    return seen


def compile_with(options, **how):
    config = XpuGraphConfig(target="cpu", vendor_compiler_config=options, enable_cache=False)
    compiled = torch.compile(lambda x: x + 1, backend=XpuGraph(config), **how)
    return raised(BackendError, lambda: compiled(torch.ones(2)))


@pytest.mark.parametrize(
    ("options", "how", "settings"),
    [
        ({}, {}, {}),
        ({"compiler": "inductor"}, {}, {}),
        ({"mode": "default"}, {}, {}),
        ({"mode": "max-autotune-no-cudagraphs"}, {}, {"max_autotune": True}),
        ({}, {"mode": "max-autotune-no-cudagraphs"}, {"max_autotune": True}),
        ({"max_fusion_size": 7}, {}, {"max_fusion_size": 7}),
        ({"max_fusion_size": 7}, {"mode": "default"}, {"max_fusion_size": 7}),
    ],
)
def test_options_and_mode_reach_inductor(patches, options, how, settings):
    compile_with(options, **how)
    (seen,) = patches
    assert {name: seen[name] for name in settings} == settings
    assert "mode" not in seen
    assert "compiler" not in seen


@pytest.mark.parametrize("dynamic", [False, True])
def test_random_numbers_are_those_of_eager(dynamic):
    def function(x):
        kept = torch.nn.functional.dropout(x * 2, 0.5) + torch.rand_like(x)
        return kept, torch.bernoulli(x.sigmoid()), torch.randn(3), torch.randint(9, (4,))

    config = XpuGraphConfig(target="cpu", vendor_compiler_config={}, enable_cache=False)
    torch.compiler.reset()
    compiled = torch.compile(function, backend=XpuGraph(config), dynamic=dynamic)
    x = torch.ones(6, 5, requires_grad=True)
    for seed in range(2):
        sides = []
        for call in (compiled, function):
            torch.manual_seed(seed)
            outputs = call(x)
            gradient = torch.autograd.grad(outputs[0].sum(), x)
            sides.append(([out.detach() for out in outputs], gradient, torch.get_rng_state()))
        assert_same(*sides)


def test_a_generator_of_inductors_own_may_be_asked_for(patches):
    compile_with({"fallback_random": False})
    assert patches[0]["fallback_random"] is False


def test_a_fault_of_inductor_is_the_cause(patches):
    error = compile_with({})
    assert isinstance(error.__cause__, Stop)
    assert not isinstance(error, BackendUnavailable)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"compiler": "openvino2"}, "'openvino2'"),
        ({"mode": "cudagraphs"}, "'cudagraphs'"),
        ({"max_fusion_siz": 7}, "did you mean 'max_fusion_size'"),
    ],
)
def test_wrong_options(options, words):
    with pytest.raises(ConfigError, match=words) as caught:
        cpu.check_options(options)
    assert "Target.cpu" in str(caught.value)


def test_the_fingerprint_follows_what_changes_code():
    plain = cpu.fingerprint({})
    assert cpu.fingerprint({"compiler": "inductor"}) == plain
    assert cpu.fingerprint({"mode": "default"}) == plain
    assert cpu.fingerprint({"max_fusion_size": 7}) != plain
    assert cpu.fingerprint({"mode": "max-autotune"}) != plain
    with torch._inductor.config.patch(max_fusion_size=7):
        assert cpu.fingerprint({}) != plain
        assert cpu.fingerprint({}) == cpu.fingerprint({"max_fusion_size": 7})


def test_without_a_compiler_the_target_is_unavailable(monkeypatch, tmp_path):
    assert cpu.why_not() is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "C++ compiler" in cpu.why_not()
    assert str(compile_with({})) == cpu.why_not()
    config = XpuGraphConfig(target="cpu", vendor_compiler_config={}, fallback="eager")
    torch.compiler.reset()
    compiled = torch.compile(lambda x: x + 1, backend=XpuGraph(config))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


@pytest.fixture
def only(monkeypatch, tmp_path):
    """Leaves only programs of these names, which do nothing, to be found."""

    def leave(*names, text="exit 0"):
        for name in names:
            (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))

    return leave


def test_only_the_compiler_that_inductor_looks_for_counts(only):
    only("clang++")
    with torch._inductor.config.patch({"cpp.cxx": (None, "g++")}):
        assert "g++" in cpu.why_not()
    with torch._inductor.config.patch({"cpp.cxx": "clang++"}):
        assert cpu.why_not() is None
    with torch._inductor.config.patch({"cpp.cxx": (None, "nosuchcxx", "clang++")}):
        assert cpu.why_not() is None
    with torch._inductor.config.patch({"cpp.cxx": (None, "nosuchcxx")}):
        assert "nosuchcxx" in cpu.why_not()


def test_the_compiler_may_be_an_option():
    error = compile_with({"cpp.cxx": (None, "nosuchcxx")})
    assert isinstance(error, BackendUnavailable)
    assert "nosuchcxx" in str(error)
    options = {"cpp.cxx": (None, "nosuchcxx")}
    config = XpuGraphConfig(target="cpu", vendor_compiler_config=options, fallback="eager")
    compiled = torch.compile(lambda x: x + 2, backend=XpuGraph(config))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))


def test_a_compiler_that_does_not_work_is_unavailable(only):
    only("broken++", text="exit 1")  # and no g++, which is not looked for
    error = compile_with({"cpp.cxx": (None, "broken++")})
    assert isinstance(error, BackendUnavailable)
    assert len(str(error).splitlines()) == 1
    assert "(broken++) does not work" in str(error)


def test_a_tensor_made_on_another_device_is_refused():
    config = XpuGraphConfig(target="cpu", vendor_compiler_config={}, enable_cache=False)
    compiled = torch.compile(lambda: torch.ones(2, device="meta") + 1, backend=XpuGraph(config))
    assert "is on meta" in str(raised(BackendError, compiled))
