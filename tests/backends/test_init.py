"""Finding backends and calling them: what is missing or broken is said, and nothing is guessed."""

import pkgutil

import pytest
import torch

from xpu_graph import (
    BackendError,
    BackendUnavailable,
    ConfigError,
    NotCacheable,
    SerializableArtifact,
    Target,
    XpuGraph,
    XpuGraphConfig,
    vendor_compiler,
)
from xpu_graph.backends import CompiledCallable, check_devices, fingerprint, load_backend
from xpu_graph.testing import capture, check_against_eager

COMPLETE = """
def why_not(): return None
def check_options(config): pass
def fingerprint(config): return "other"
def other_compile(gm, fake_inputs, *, is_inference, is_backward, **config): return gm
"""


def program(x):
    return x * 2 + 1


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package that declares a backend: its entry points, and its modules' text."""
    monkeypatch.syspath_prepend(str(tmp_path))
    numbers = iter(range(100))

    def make(entry_points, **modules):
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(text)
        info = tmp_path / f"other{next(numbers)}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {info.name[:6]}\n")
        (info / "entry_points.txt").write_text(f"[xpu_graph.backends]\n{entry_points}\n")
        return Target(entry_points.partition(" ")[0])

    return make


@pytest.fixture
def backend_of(install, request):
    """Install target ``other`` with this text as its module; module names are not used twice."""
    name = f"other_{abs(hash(request.node.nodeid))}"
    return lambda text: install(f"other = {name}", **{name: text})


def compile_for(target, function=program, **options):
    """Through the vendor compiler alone, outside of torch.compile."""
    (unit,) = capture(function, torch.ones(2))
    return vendor_compiler(
        unit.gm, unit.fake_inputs, target, is_inference=True, is_backward=False, **options
    )


def compile_by_user(target, **fields):
    config = XpuGraphConfig(target=target, vendor_compiler_config={}, **fields)
    return torch.compile(program, backend=XpuGraph(config))(torch.ones(2))


# --- a plugged-in backend -------------------------------------------------------------------------


def test_a_plugged_in_target_is_known(toy_package):
    assert Target("toy") == Target.toy == "toy"
    assert Target.toy in list(Target)
    assert load_backend(Target.toy).__name__ == "toy_backend"


def test_it_is_not_known_without_its_package():
    with pytest.raises(ConfigError, match="'toy'"):
        Target("toy")


@pytest.mark.parametrize("backend", ["xpu_graph", XpuGraph])
def test_it_is_used_through_torch_compile(toy_package, monkeypatch, backend):
    import toy_backend

    ran = []
    run = toy_backend.ToyProgram.boxed
    monkeypatch.setattr(
        toy_backend.ToyProgram, "boxed", lambda self, args: ran.append(self) or run(self, args)
    )
    options = {"target": "toy", "vendor_compiler_config": {"keep_slots": True}}
    if backend is XpuGraph:
        backend, options = XpuGraph(XpuGraphConfig(**options)), None
    compiled = torch.compile(program, backend=backend, options=options)
    assert torch.equal(compiled(torch.ones(2)), program(torch.ones(2)))
    assert [program._keep_slots for program in ran] == [True]


def test_its_options_are_checked_with_the_nearest_name(toy_package):
    with pytest.raises(ConfigError, match="did you mean 'keep_slots'"):
        XpuGraph(XpuGraphConfig(target="toy", vendor_compiler_config={"keep_slot": True}))


def test_a_whole_backend_in_four_functions(backend_of):
    target = backend_of(COMPLETE)
    made = compile_for(target)
    assert isinstance(made, CompiledCallable)
    with pytest.raises(NotCacheable):
        made.convert_to_bytes()
    backend = XpuGraph(XpuGraphConfig(target=target, vendor_compiler_config={}))
    check_against_eager(program, lambda: [torch.ones(2)], backend)


def test_a_target_known_by_name_only_can_be_provided(install):
    text = COMPLETE.replace("other_compile", "mlu_compile")
    install("mlu = provided_mlu", provided_mlu=text)
    assert load_backend(Target.mlu).__name__ == "provided_mlu"


def test_a_target_with_a_module_here_cannot_be_taken_over(install):
    install("cpu = impostor", impostor=COMPLETE.replace("other_compile", "cpu_compile"))
    assert load_backend(Target.cpu).__name__ == "xpu_graph.backends.cpu"


def test_a_target_called_like_a_helper_module_is_the_packages_own(install):
    text = COMPLETE.replace("other_compile", "inductor_compile")
    target = install("inductor = helper_named", helper_named=text)
    assert load_backend(target).__name__ == "helper_named"


# --- broken ones ----------------------------------------------------------------------------------


def test_the_module_is_missing(install):
    target = install("other = no_such_module.inner")
    with pytest.raises(BackendUnavailable, match=r"no_such_module\.inner"):
        load_backend(target)
    error = torch_compile_error(target)
    assert isinstance(error, BackendUnavailable)
    assert torch.equal(compile_by_user(target, fallback="eager"), program(torch.ones(2)))


def torch_compile_error(target):
    try:
        compile_by_user(target)
    except Exception as error:
        torch.compiler.reset()
        return getattr(error, "inner_exception", error)
    raise AssertionError("it compiled")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_sdk", "No module named 'no_such_sdk'"),
        ("raise RuntimeError('broken on import')", "broken on import"),
        ("this is no Python", "SyntaxError"),
        (COMPLETE.replace("other_compile", "another_compile"), "lacks other_compile"),
        (COMPLETE.replace("def fingerprint", "def fingerprints"), "lacks fingerprint"),
        (COMPLETE.replace("def why_not", "def why"), "lacks why_not"),
        (COMPLETE + "check_options = None", "lacks check_options"),
    ],
)
def test_a_fault_in_the_module_is_an_error_in_spite_of_a_fallback(backend_of, text, words):
    target = backend_of(text)
    for fields in ({}, {"fallback": "eager"}):
        with pytest.raises(BackendError, match=words) as caught:
            XpuGraph(XpuGraphConfig(target=target, vendor_compiler_config={}, **fields))
        assert not isinstance(caught.value, BackendUnavailable)
        assert "Target.other" in str(caught.value)


def test_a_missing_module_with_a_similar_name_is_not_the_backends(backend_of, install):
    target = install("other = similar_backend", similar_backend="import similar")
    with pytest.raises(BackendError, match="No module named 'similar'") as caught:
        load_backend(target)
    assert not isinstance(caught.value, BackendUnavailable)


def test_an_attribute_is_not_a_module(install):
    target = install("other = some_module:Backend", some_module=COMPLETE)
    with pytest.raises(BackendError, match="declare its module, 'some_module'"):
        load_backend(target)


def test_two_backends_for_one_target(install):
    install("other = first_module", first_module=COMPLETE)
    target = install("other = second_module", second_module=COMPLETE)
    with pytest.raises(BackendError, match="first_module, second_module"):
        load_backend(target)


def test_a_package_that_is_found_twice_is_one(install):
    install("other = same_module", same_module=COMPLETE)
    target = install("other = same_module")
    assert load_backend(target).__name__ == "same_module"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return None", "returned a NoneType, nothing to call"),
        ("return 3", "returned a int, nothing to call"),
        ("raise ValueError('deep inside')", "ValueError: deep inside"),
    ],
)
def test_a_fault_of_the_compiler_is_an_error_in_spite_of_a_fallback(backend_of, body, words):
    target = backend_of(COMPLETE.replace("return gm", body))
    with pytest.raises(BackendError, match=words):
        compile_for(target)
    for fields in ({}, {"fallback": "eager"}):
        with pytest.raises(Exception, match=words) as caught:
            compile_by_user(target, **fields)
        assert isinstance(caught.value.inner_exception, BackendError)
        assert "Target.other" in str(caught.value)
        torch.compiler.reset()


def test_the_error_of_the_compiler_is_the_cause(backend_of):
    target = backend_of(COMPLETE.replace("return gm", "raise ValueError('deep inside')"))
    with pytest.raises(BackendError) as caught:
        compile_for(target)
    assert isinstance(caught.value.__cause__, ValueError)


def test_why_not_is_asked_before_compiling(backend_of):
    text = COMPLETE.replace("return None", "return 'the SDK is missing'")
    with pytest.raises(BackendUnavailable, match="the SDK is missing"):
        compile_for(backend_of(text.replace("return gm", "raise ValueError")))


@pytest.mark.parametrize("answer", ["False", "True", "''", "' '", "3"])
def test_why_not_gives_a_sentence_or_none(backend_of, answer):
    target = backend_of(COMPLETE.replace("return None", f"return {answer}"))
    with pytest.raises(BackendError, match=r"why_not of the backend of Target\.other") as caught:
        compile_for(target)
    assert not isinstance(caught.value, BackendUnavailable)


def test_a_fault_in_checking_the_options_is_no_bare_error(backend_of):
    target = backend_of(COMPLETE.replace("pass", "config['must']"))
    with pytest.raises(BackendError, match=r"Target\.other failed: KeyError: 'must'"):
        XpuGraph(XpuGraphConfig(target=target, vendor_compiler_config={}))


def test_why_not_may_take_the_options(backend_of):
    text = COMPLETE.replace("why_not(): return None", "why_not(config=None): return config['why']")
    with pytest.raises(BackendUnavailable, match="because"):
        compile_for(backend_of(text), why="because")


@pytest.mark.parametrize("function", ["why_not()", "check_options(config)", "fingerprint(config)"])
def test_a_fault_in_a_function_names_it(backend_of, function):
    text = f"{COMPLETE}\ndef {function}: raise KeyError('deep inside')"
    target = backend_of(text)
    name = function.partition("(")[0]
    with pytest.raises(BackendError, match="deep inside") as caught:
        fingerprint(target, {}) if name == "fingerprint" else compile_for(target)
    assert isinstance(caught.value.__cause__, KeyError)
    assert f"{name} of the backend of Target.other failed" in str(caught.value)


def test_options_are_checked_where_the_compiler_is_called_directly(toy_package):
    with pytest.raises(ConfigError, match="did you mean 'keep_slots'"):
        compile_for(Target("toy"), keep_slot=True)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("None", "returns a NoneType; the graph has 2 outputs"),
        ("gm(*inputs)[0]", "returns a Tensor; the graph has 2 outputs"),
        ("list(gm(*inputs))[:1]", "returns 1 outputs; the graph has 2 outputs"),
        ("[*gm(*inputs), 3]", "returns 3 outputs; the graph has 2 outputs"),
    ],
)
def test_the_wrong_number_of_outputs(backend_of, result, words):
    target = backend_of(COMPLETE.replace("return gm", f"return lambda *inputs: {result}"))
    config = XpuGraphConfig(target=target, vendor_compiler_config={})
    compiled = torch.compile(lambda x: (x + 1, x * 2), backend=XpuGraph(config))
    for _ in range(2):
        with pytest.raises(BackendError, match=words) as caught:
            compiled(torch.ones(2))
        assert "Target.other" in str(caught.value)


def test_outputs_are_counted_once(backend_of):
    made = compile_for(backend_of(COMPLETE))
    assert len(made(torch.ones(2))) == 1
    made._function = lambda x: None
    assert made(torch.ones(2)) is None


def test_a_name_that_no_function_can_have(install):
    target = install("my-npu = some_module_of_mine", some_module_of_mine=COMPLETE)
    with pytest.raises(BackendError, match="'my-npu' is not a Python identifier"):
        load_backend(target)


# --- targets of this package ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cuda", "mlu"])
def test_a_target_without_a_backend_here(name):
    target = Target(name)
    XpuGraph(XpuGraphConfig(target=target, vendor_compiler_config={"any": 1}))
    with pytest.raises(BackendUnavailable, match=f"no backend for Target.{name}"):
        compile_for(target)
    assert isinstance(torch_compile_error(target), BackendUnavailable)
    assert torch.equal(compile_by_user(target, fallback="eager"), program(torch.ones(2)))


def test_every_module_of_a_target_is_whole():
    import xpu_graph.backends

    here = {module.name for module in pkgutil.iter_modules(xpu_graph.backends.__path__)}
    found = [target for target in Target if target.value in here]
    assert {target.value for target in found} >= {"none", "cpu", "npu"}
    for target in found:
        load_backend(target)


# --- fingerprints and devices ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "error"),
    [("return None", NotCacheable), ("return 3", BackendError), ("return ''", BackendError)],
)
def test_a_fingerprint_is_a_text(backend_of, body, error):
    target = backend_of(COMPLETE.replace('return "other"', body))
    with pytest.raises(error, match=r"Target\.other"):
        fingerprint(target, {})


def test_without_a_backend_there_is_nothing_to_cache():
    with pytest.raises(NotCacheable, match="no backend"):
        fingerprint(Target.mlu, {})


def test_check_devices_names_what_is_elsewhere():
    (unit,) = capture(program, torch.ones(2, device="meta"))
    with pytest.raises(BackendError, match=r"input 'arg0_1' is on meta, but Target\.cpu"):
        check_devices(unit.gm, Target.cpu, "cpu")
    check_devices(unit.gm, Target.cpu, "cpu", "meta")
    (unit,) = capture(lambda: torch.ones(2, device="meta") + 1)
    with pytest.raises(BackendError, match="the result of 'ones"):
        check_devices(unit.gm, Target.cpu, "cpu")


def test_a_bare_callable_says_why_it_cannot_be_stored():
    made = CompiledCallable(lambda x: [x + 1], "it is a lambda")
    args = [torch.ones(2)]
    assert torch.equal(made.boxed(args)[0], torch.ones(2) + 1)
    assert args == []
    with pytest.raises(NotCacheable, match="it is a lambda"):
        made.convert_to_bytes()
    assert isinstance(made, SerializableArtifact)
