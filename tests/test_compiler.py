"""The backend object: equality, options, reports, errors, memory and threads."""

import copy
import gc
import importlib.util
import pickle
import threading
import weakref

import pytest
import torch

from xpu_graph import (
    BackendError,
    ConfigError,
    OptLevel,
    PassError,
    Target,
    XpuGraph,
    XpuGraphConfig,
    XpuGraphError,
)
from xpu_graph import compiler as compiler_module
from xpu_graph.passes import DEFAULT_PASSES, Pipeline
from xpu_graph.passes.base import Pass
from xpu_graph.testing import assert_same

LEVELS = ("level1", "level2")


def ramp(*shape):
    return torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)


def run(backend, function=lambda x: (x * 1 + 2).relu(), x=None, **options):
    """Compile, call once without gradients, and compare with eager."""
    x = ramp(3) if x is None else x
    with torch.no_grad():
        assert_same(torch.compile(function, backend=backend, **options)(x), function(x))


# --- the object ---


def test_equal_backends_do_not_compile_again():
    def function(x):
        return x * 2

    first, second, other = (
        XpuGraph(XpuGraphConfig(opt_level=level)) for level in ("level2", "level2", "level1")
    )
    assert first == second and hash(first) == hash(second) and first != other
    for backend in (first, second, other):
        run(backend, function)
    assert [len(backend.reports) for backend in (first, second, other)] == [1, 0, 1]


def test_a_reset_compiles_again():
    backend = XpuGraph(XpuGraphConfig())
    function = lambda x: x * 2  # noqa: E731
    for _ in range(2):
        run(backend, function)
    assert len(backend.reports) == 1
    torch.compiler.reset()
    run(backend, function)
    assert len(backend.reports) == 2


def test_the_config_is_a_copy():
    config = XpuGraphConfig(opt_level="level2", vendor_compiler_config={})
    backend = XpuGraph(config)
    config.opt_level = OptLevel.level0
    config.vendor_compiler_config["mode"] = "other"
    assert backend.config.opt_level == OptLevel.level2
    assert backend.config.vendor_compiler_config == {}


@pytest.mark.parametrize(
    "clone", [copy.copy, copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))]
)
def test_a_config_can_be_copied_and_pickled(clone):
    config = XpuGraphConfig(target="none", opt_level="level2", partition_fn="MINCUT", fuel=3)
    assert clone(config) == config


def test_a_compiled_model_can_be_copied():
    backend = XpuGraph(XpuGraphConfig())
    compiled = torch.compile(torch.nn.Linear(3, 2), backend=backend)
    with torch.no_grad():
        compiled(ramp(2, 3))
        twin = copy.deepcopy(compiled)
        twin.weight.add_(1)
        assert_same(
            twin(ramp(2, 3)), torch.nn.functional.linear(ramp(2, 3), twin.weight, twin.bias)
        )
        assert not torch.equal(twin(ramp(2, 3)), compiled(ramp(2, 3)))
    assert copy.deepcopy(backend) == backend


def test_only_a_config_is_taken():
    with pytest.raises(ConfigError, match="XpuGraphConfig"):
        XpuGraph({"target": "none"})


# --- options of torch.compile ---


def test_options_change_the_config_for_one_compilation():
    backend = XpuGraph(XpuGraphConfig())
    run(backend, options={"opt_level": "level0"})
    assert backend.reports[-1].graphs[0].passes == {}
    run(backend)
    assert backend.reports[-1].graphs[0].passes
    assert backend.config.opt_level == OptLevel.level1


def test_an_unknown_option_is_an_error():
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        run(XpuGraph(XpuGraphConfig()), options={"freez": True})
    assert isinstance(caught.value.inner_exception, ConfigError)
    assert "freeze" in str(caught.value)


def test_a_mode_needs_a_vendor():
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        run(XpuGraph(XpuGraphConfig()), mode="reduce-overhead")
    assert isinstance(caught.value.inner_exception, ConfigError)


def test_the_same_options_give_the_same_backend():
    backend = XpuGraph(XpuGraphConfig(target="cpu", vendor_compiler_config={}))
    options = {"fuel": 5, "vendor_compiler_config": {"mode": "default"}}
    first = backend.with_options(None, options)
    options["vendor_compiler_config"]["mode"] = "max-autotune-no-cudagraphs"
    second = backend.with_options(None, options)
    assert first is not second
    assert first is backend.with_options(
        None, {"fuel": 5, "vendor_compiler_config": {"mode": "default"}}
    )
    assert first.cache is backend.cache


# --- reports ---


def test_a_report_a_compilation():
    backend = XpuGraph(XpuGraphConfig())
    for _ in range(2):
        torch.compiler.reset()
        run(backend, lambda x: (x + 1, x + 1), ramp(3))
    assert len(backend.reports) == 2
    (graph,) = backend.reports[0].graphs
    assert (graph.stage, graph.cache) == ("inference", "miss")
    (graph,) = backend.reports[1].graphs
    assert graph.cache == "hit" and graph.key == backend.reports[0].graphs[0].key


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("grad", [False, True])
def test_nothing_keeps_inputs_or_the_model_alive(grad, freeze):
    backend = XpuGraph(XpuGraphConfig(freeze=freeze))
    model = torch.nn.Linear(4, 4)
    x = torch.ones(2, 4)
    with torch.set_grad_enabled(grad):
        compiled = torch.compile(model, backend=backend)
        compiled(x)
    gone = [weakref.ref(x)]
    del x
    gc.collect()
    assert gone[0]() is None
    gone += [weakref.ref(model), weakref.ref(model.weight)]
    del model, compiled
    torch._dynamo.reset()
    gc.collect()
    assert [reference() for reference in gone] == [None] * 3
    assert len(backend.reports) == 1


# --- errors ---


def unsupported():
    fake = torch._subclasses.fake_tensor
    return fake.DynamicOutputShapeException("not an operator")


@pytest.mark.parametrize(
    "error", [IndexError("list"), KeyError("name"), RuntimeError("odd"), unsupported()], ids=repr
)
@pytest.mark.parametrize("where", ["pass", "hook", "split"])
def test_every_error_while_compiling_is_one_of_ours(monkeypatch, error, where):
    def fail(*args, **kwargs):
        raise error

    backend = XpuGraph(XpuGraphConfig())
    place = {
        "pass": (DEFAULT_PASSES[0], "run"),
        "hook": (type(backend._pipeline), "passes_for"),
        "split": (compiler_module, "split_constant_part"),
    }
    monkeypatch.setattr(*place[where], fail)
    for fullgraph in (True, False):
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
            run(backend, fullgraph=fullgraph)
        assert isinstance(caught.value.inner_exception, XpuGraphError)
        assert type(error).__name__ in str(caught.value)


def test_a_pass_that_fails_is_named(monkeypatch):
    class Broken(Pass):
        name = "broken"

        def run(self, unit):
            raise IndexError("a bug")

    backend = XpuGraph(XpuGraphConfig())
    backend._pipeline = Pipeline([*DEFAULT_PASSES, Broken], backend.config)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        run(backend)
    assert isinstance(caught.value.inner_exception, PassError)
    assert "'broken'" in str(caught.value)


def test_a_fault_of_a_vendor_is_a_backend_error_even_with_fallback(monkeypatch):
    def compile_graph(*args, **kwargs):
        raise IndexError("the vendor's own")

    monkeypatch.setattr("xpu_graph.backends.none.none_compile", compile_graph)
    config = XpuGraphConfig(vendor_compiler_config={}, fallback="eager", enable_cache=False)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        run(XpuGraph(config))
    assert isinstance(caught.value.inner_exception, BackendError)
    assert "IndexError" in str(caught.value)


# --- a vendor that is not there ---


def missing(monkeypatch):
    monkeypatch.setattr("xpu_graph.backends.none.why_not", lambda: "the vendor is out for lunch")


def test_a_missing_vendor_is_an_error_with_its_reason(monkeypatch):
    missing(monkeypatch)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="out for lunch"):
        run(XpuGraph(XpuGraphConfig(vendor_compiler_config={})))


@pytest.mark.parametrize("enable_cache", [False, True])
def test_a_missing_vendor_falls_back_when_asked(monkeypatch, enable_cache):
    missing(monkeypatch)
    config = XpuGraphConfig(vendor_compiler_config={}, fallback="eager", enable_cache=enable_cache)
    backend = XpuGraph(config)
    warned = []
    monkeypatch.setattr("xpu_graph.compiler.log.warning", lambda *args: warned.append(args))
    for _ in range(3):
        torch.compiler.reset()
        run(backend, lambda x: x * 1 + 2)
        run(backend, lambda x: x - 3, options={"opt_level": "level2"})
    assert backend.counts["eager fallback"] == 6
    assert len(warned) == 1
    assert all("out for lunch" in str(report) for report in backend.reports)


def test_a_target_that_cannot_be_used_falls_back_when_asked():
    config = XpuGraphConfig(target="npu", vendor_compiler_config={}, fallback="eager")
    if importlib.util.find_spec("torch_npu"):
        pytest.skip("torch_npu is installed")
    backend = XpuGraph(config)
    run(backend)
    assert backend.counts["eager fallback"] == 1 and backend.config.target == Target.npu


# --- threads ---


def run_in_threads(work, number=8):
    """Call ``work(0)`` to ``work(number - 1)`` at once, each in a thread; raise what any raised."""
    barrier, failures = threading.Barrier(number), []

    def body(position):
        barrier.wait()
        try:
            with torch.no_grad():
                work(position)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=body, args=(position,)) for position in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


@pytest.mark.parametrize("freeze", [False, True])
def test_threads_share_a_compiled_model(freeze):
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2)
    ).eval()
    compiled = torch.compile(model, backend=XpuGraph(XpuGraphConfig(freeze=freeze)))

    def work(position):
        for rows in (2, 3, 2, 5):
            x = ramp(rows, 4) + position
            assert_same(compiled(x), model(x))

    run_in_threads(work)


def test_threads_compile_for_several_backends_at_once():
    backends = [
        XpuGraph(XpuGraphConfig(opt_level=level, freeze=freeze))
        for level in LEVELS
        for freeze in (False, True)
    ]

    def work(position):
        def function(x, w):
            return (x @ (w * 1 + position)).relu() - 0

        backend = backends[position % len(backends)]
        compiled = torch.compile(function, backend=backend, dynamic=bool(position % 2))
        for rows in (2, 3):
            x, w = ramp(rows, 4), ramp(4, 3)
            assert_same(compiled(x, w), function(x, w))

    run_in_threads(work)
    assert sum(len(backend.reports) for backend in backends) >= 8


def test_threads_ask_for_one_set_of_options():
    backend = XpuGraph(XpuGraphConfig())
    found = []
    run_in_threads(lambda position: found.append(backend.with_options(None, {"freeze": True})))
    assert len({id(derived) for derived in found}) == 1
