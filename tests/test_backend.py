"""The backend by the name "xpu_graph", and the target it takes from the inputs."""

import copy
import pickle
import threading

import pytest
import torch

from xpu_graph import (
    BackendError,
    BackendUnavailable,
    ConfigError,
    OptLevel,
    Target,
    XpuGraph,
    XpuGraphConfig,
    recent_reports,
    xpu_graph_backend,
)
from xpu_graph.backend import AutoBackend
from xpu_graph.testing import assert_same

NO_VENDOR = {"vendor_compiler_config": None}


def program(x):
    return x * 2 + 1


def error_of(call):
    try:
        call()
    except Exception as error:
        return getattr(error, "inner_exception", error)
    raise AssertionError("no error was raised")


def trace(function):
    """The Dynamo graph of a function without inputs."""
    graphs = []

    def keep(gm, inputs):
        graphs.append(gm)
        return gm.forward

    torch.compile(function, backend=keep)()
    return graphs[0]


def on(device):
    """A stand-in for a tensor on a device that torch does not have here."""

    class Elsewhere(torch.Tensor):
        @property
        def device(self):
            return torch.device(device)

    return torch.ones(2).as_subclass(Elsewhere)


@pytest.fixture
def compiled_for(monkeypatch):
    """Calls AutoBackend with inputs; gives the configuration that would compile them."""

    def find(*inputs, gm=None, **kwargs):
        seen = []
        monkeypatch.setattr(
            XpuGraph,
            "__call__",
            lambda self, gm, inputs, mode=None, options=None: seen.append(
                self.with_options(mode, options) if mode or options else self
            ),
        )
        AutoBackend()(gm or torch.fx.symbolic_trace(program), inputs, **kwargs)
        return seen[0].config

    return find


def test_the_defaults(compiled_for):
    assert compiled_for(torch.ones(2)) == XpuGraphConfig(
        target=Target.cpu, opt_level=OptLevel.level2, vendor_compiler_config={}
    )


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_the_target_is_the_inputs_device(compiled_for, device):
    assert compiled_for(on(device)).target == device


def test_numbers_on_the_cpu_do_not_decide(compiled_for):
    assert compiled_for(torch.ones(()), on("cuda"), 3).target == Target.cuda


def test_inputs_without_tensors_are_for_the_cpu(compiled_for):
    assert compiled_for(3).target == Target.cpu


def test_without_inputs_the_graph_decides():
    gm = trace(lambda: torch.ones(3, device="meta") + 1)
    error = error_of(lambda: xpu_graph_backend(gm, []))
    assert isinstance(error, BackendError)
    assert "'meta'" in str(error)
    assert "'ones'" in str(error)


def test_devices_of_two_targets_are_refused():
    inputs = [torch.ones(2), on("cuda"), on("meta")]
    error = error_of(lambda: xpu_graph_backend(torch.fx.symbolic_trace(program), inputs))
    assert isinstance(error, BackendError)
    assert "input 1 on cuda" in str(error)
    assert "input 2 on meta" in str(error)


def test_a_device_without_a_target_is_refused_and_a_way_out_is_named():
    compiled = torch.compile(program, backend="xpu_graph")
    error = error_of(lambda: compiled(torch.ones(2, device="meta")))
    assert isinstance(error, BackendError)
    for words in ("input 0", "'meta'", "cpu, cuda, npu, mlu", "'target': 'none'"):
        assert words in str(error)
    without = torch.compile(program, backend="xpu_graph", options={"target": "none"})
    assert without(torch.ones(2, device="meta")).shape == (2,)


def test_options_take_any_field(compiled_for):
    options = {"opt_level": 3, "freeze": True, "vendor_compiler_config": {"mode": "max-autotune"}}
    config = compiled_for(torch.ones(2), options=options)
    assert (config.opt_level, config.freeze) == (OptLevel.level3, True)
    assert config.vendor_compiler_config == {"mode": "max-autotune"}
    assert config.target == Target.cpu


def test_a_given_target_wins_over_the_device(compiled_for):
    assert compiled_for(on("cuda"), options={"target": "cpu"}).target == Target.cpu
    assert compiled_for(on("meta"), options={"target": Target.none}).target == Target.none


def test_the_mode_is_the_vendors(compiled_for):
    config = compiled_for(torch.ones(2), mode="max-autotune")
    assert config.vendor_compiler_config == {"mode": "max-autotune"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"opt_levl": 2}, "'opt_level'?"),
        ({"target": "cppu"}, "'cpu'?"),
        ({"vendor_compiler_config": {"max_autotun": True}}, "'max_autotune'?"),
        ({"freeze": "yes"}, "True or False"),
    ],
)
def test_a_wrong_option(options, words):
    compiled = torch.compile(program, backend="xpu_graph", options=options)
    error = error_of(lambda: compiled(torch.ones(2)))
    assert isinstance(error, ConfigError)
    assert words in str(error)


def test_a_mode_without_a_vendor():
    error = error_of(
        lambda: xpu_graph_backend(
            torch.fx.symbolic_trace(program),
            [torch.ones(2)],
            mode="max-autotune",
            options={"vendor_compiler_config": None},
        )
    )
    assert isinstance(error, ConfigError)


def test_options_are_left_alone():
    options = {"target": "none", "vendor_compiler_config": {}, "skip_patterns": ["cse"]}
    kept = {"target": "none", "vendor_compiler_config": {}, "skip_patterns": ["cse"]}
    torch.compile(program, backend="xpu_graph", options=options)(torch.ones(2))
    assert options == kept


def test_a_target_that_is_not_here_says_so():
    for name in ("npu", "mlu"):
        compiled = torch.compile(program, backend="xpu_graph", options={"target": name})
        error = error_of(lambda compiled=compiled: compiled(torch.ones(2)))
        assert isinstance(error, BackendUnavailable)
        assert name in str(error)
        torch.compiler.reset()
        fallback = {"target": name, "fallback": "eager"}
        compiled = torch.compile(program, backend="xpu_graph", options=fallback)
        assert torch.equal(compiled(torch.ones(2)), program(torch.ones(2)))
        torch.compiler.reset()


def test_one_object_a_target():
    backend = AutoBackend()
    assert backend.for_target("none") is backend.for_target(Target.none)
    assert backend.for_target("none") is not backend.for_target("cpu")


def test_a_changed_environment_is_seen(monkeypatch, tmp_path):
    backend = AutoBackend()
    before = backend.for_target("none")
    monkeypatch.setenv("XPUGRAPH_OPT_LEVEL", "level2")  # what the default is, but now it wins
    derived = backend.for_target("none").with_options(None, {"opt_level": 3})
    assert derived.config.opt_level == OptLevel.level2
    monkeypatch.setenv("XPUGRAPH_CACHE_DIR", str(tmp_path / "other"))
    assert backend.for_target("none").cache.path == tmp_path / "other"
    assert before.cache.path != tmp_path / "other"
    unsigned = backend.for_target("none")
    monkeypatch.setenv("XPUGRAPH_CACHE_HMAC_KEY", "secret")
    assert backend.for_target("none") is not unsigned
    assert "secret" not in repr(vars(backend))


@pytest.mark.parametrize("reset", [torch._dynamo.reset, torch.compiler.reset])
@pytest.mark.parametrize("by", ["xpu_graph", xpu_graph_backend])
def test_reset_forgets_what_was_made(reset, by):
    torch.compile(program, backend=by, options={"target": "none"})(torch.ones(2))
    before = xpu_graph_backend.for_target("none")
    reset()
    assert xpu_graph_backend.for_target("none") is not before


def test_refold_reaches_programs_compiled_by_name():
    model = torch.nn.Linear(3, 3, bias=False).eval()
    options = {"target": "none", "freeze": True}

    def function(x):
        return x + model.weight.t().contiguous().sum()

    compiled = torch.compile(function, backend="xpu_graph", options=options)
    x = torch.ones(3)
    with torch.no_grad():
        compiled(x)
        model.weight.data.fill_(2.0)  # cannot be seen
        xpu_graph_backend.refold()
        assert torch.equal(compiled(x), function(x))


def test_concurrent_first_compiles():
    results, errors = {}, []
    barrier = threading.Barrier(4)

    def work(number):
        def function(x):
            return x * number + 1

        try:
            barrier.wait()
            compiled = torch.compile(function, backend="xpu_graph", options={"target": "none"})
            results[number] = compiled(torch.ones(2))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert all(torch.equal(results[n], torch.ones(2) * n + 1) for n in range(4))


def test_one_object_for_concurrent_callers():
    backend, found = AutoBackend(), []
    barrier = threading.Barrier(8)

    def work():
        barrier.wait()
        found.append(backend.for_target("none"))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_equal_calls_compile_once():
    done = len(recent_reports())
    for _ in range(3):
        torch.compile(program, backend="xpu_graph", options={"target": "none"})(torch.ones(2))
    assert len(recent_reports()) == done + 1


def test_a_compiled_model_can_be_copied():
    model = torch.compile(torch.nn.Linear(2, 2).eval(), backend="xpu_graph", options=NO_VENDOR)
    x = torch.ones(1, 2)
    with torch.no_grad():
        assert_same(copy.deepcopy(model)(x), model(x))
    assert pickle.loads(pickle.dumps(xpu_graph_backend)) is xpu_graph_backend


def test_a_device_without_a_target_needs_no_vendor():
    compiled = torch.compile(lambda x: x * 2 + 1, backend="xpu_graph", options=NO_VENDOR)
    with torch.no_grad():
        got = compiled(torch.ones(3, device="meta"))
    assert got.device.type == "meta"
    assert recent_reports()[-1].target == "none"
