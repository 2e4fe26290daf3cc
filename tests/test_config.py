"""The configuration: fields, defaults, what is refused, equality, and no trace outside."""

import copy
import inspect
import logging
import os
import pathlib
import pickle
import signal
import sys
from dataclasses import fields, replace

import pytest
import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config

from xpu_graph import ConfigError, OptLevel, Target, XpuGraph, XpuGraphConfig, recent_reports

DEFAULTS = {
    "is_training": False,
    "debug": False,
    "target": Target.none,
    "opt_level": OptLevel.level1,
    "dump_graph": False,
    "enable_cache": True,
    "freeze": False,
    "constant_folding": True,
    "folding_freezed_params": True,
    "vendor_compiler_config": None,
    "enable_interceptor": None,
    "include_patterns": (),
    "skip_patterns": (),
    "fallback_legacy_dispatch": True,
    "partition_fn": None,
}
"""The fields that existing code may give by position."""


def own_partitioner(*args, **kwargs):
    raise NotImplementedError


def test_fields_come_in_the_agreed_order_with_the_agreed_defaults():
    config = XpuGraphConfig()
    names = [f.name for f in fields(XpuGraphConfig)]
    assert names[: len(DEFAULTS)] == list(DEFAULTS)
    assert {name: getattr(config, name) for name in DEFAULTS} == DEFAULTS
    assert XpuGraphConfig(*DEFAULTS.values()) == config
    assert list(inspect.signature(XpuGraphConfig).parameters) == names


def test_the_fallback_is_to_raise():
    assert XpuGraphConfig().fallback == "raise"


def test_every_field_has_a_check_and_a_description():
    for name in (f.name for f in fields(XpuGraphConfig)):
        with pytest.raises(ConfigError, match=name.partition("_")[0]):
            XpuGraphConfig(**{name: object()})
        assert f"\n        {name}: " in XpuGraphConfig.__doc__


NAMED = "functorch.compile.default_partition"


@pytest.mark.parametrize(
    "make",
    [
        lambda: XpuGraphConfig(opt_levl=2),
        lambda: XpuGraphConfig.from_options({"opt_levl": 2}),
        lambda: XpuGraphConfig().replaced({"opt_levl": 2}),
        lambda: replace(XpuGraphConfig(), opt_levl=2),
    ],
)
def test_an_unknown_field_names_the_nearest(make):
    with pytest.raises(ConfigError) as caught:
        make()
    for words in ("'opt_levl'", "XpuGraphConfig", "did you mean 'opt_level'?", "is_training"):
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "legal"),
    [
        ("freeze", 1, "True or False"),
        ("enable_cache", "yes", "True or False"),
        ("vendor_compiler_config", "inductor", "a dict"),
        ("vendor_compiler_config", {1: 2}, "a dict"),
        ("enable_interceptor", "rtol", "rtol=1e-5,atol=1e-6"),
        ("enable_interceptor", "rtol=-1", "rtol=1e-5,atol=1e-6"),
        ("enable_interceptor", "rtol=nan", "rtol=1e-5,atol=1e-6"),
        ("enable_interceptor", "tol=1", "rtol=1e-5,atol=1e-6"),
        ("enable_interceptor", "", "rtol=1e-5,atol=1e-6"),
        ("enable_interceptor", "rtol=1,rtol=2", "rtol=1e-5,atol=1e-6"),
        ("include_patterns", "cse", "a tuple of names"),
        ("skip_patterns", ("cse", 1), "a tuple of names"),
        ("partition_fn", 3, "a callable"),
        ("partition_fn", "MINCAT", "did you mean 'MINCUT'?"),
        ("partition_fn", "no_such_package.fn", "cannot import"),
        ("partition_fn", "os.no_such_name", "cannot import"),
        ("partition_fn", ".fn", "a dotted name"),
        ("partition_fn", "..fn", "a dotted name"),
        ("partition_fn", "math.pi", "can be called"),
        ("fallback", "eagre", "did you mean 'eager'?"),
        ("verify", "Each", "did you mean 'each'?"),
        ("verify", None, "each, final, off"),
        ("fuel", -1, "0 or more"),
        ("fuel", True, "0 or more"),
        ("fuel", 1.5, "0 or more"),
        ("fold_limit_bytes", None, "0 or more"),
        ("cache_wait_s", -0.5, "0 or more"),
        ("cache_wait_s", float("nan"), "0 or more"),
        ("cache_wait_s", float("inf"), "0 or more"),
        ("cache_wait_s", 10**400, "0 or more"),
        ("dump_dir", 7, "a path"),
        ("dump_dir", b"bytes", "a path"),
        ("dump_dir", "a\0b", "a path"),
        ("dump_dir", __file__, "a file"),
        ("dump_dir", "~nobody_has_this_name/dumps", "cannot be used"),
    ],
)
def test_an_illegal_value_names_itself_its_place_and_what_is_legal(field, value, legal):
    with pytest.raises(ConfigError) as caught:
        XpuGraphConfig(**{field: value})
    for words in (repr(value), "XpuGraphConfig", field, legal):
        assert words in str(caught.value)


@pytest.mark.parametrize("field", [f.name for f in fields(XpuGraphConfig)])
def test_an_array_is_refused_by_name(field):
    with pytest.raises(ConfigError, match=field):
        XpuGraphConfig(**{field: torch.ones(2).numpy()})


def test_an_unknown_field_cannot_be_set():
    config = XpuGraphConfig()
    with pytest.raises(ConfigError, match="did you mean 'opt_level'"):
        config.opt_lvl = 3
    config.opt_level = 3
    assert XpuGraph(config).config.opt_level == OptLevel.level3


def test_a_dump_dir_may_start_at_home(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert XpuGraphConfig(dump_dir="~/dumps").dump_dir == str(tmp_path / "dumps")


@pytest.mark.parametrize(
    ("field", "given", "kept"),
    [
        ("target", "cpu", Target.cpu),
        ("opt_level", "level2", OptLevel.level2),
        ("opt_level", 3, OptLevel.level3),
        ("include_patterns", ["a"], ("a",)),
        ("dump_dir", pathlib.Path("a", "b"), os.path.join("a", "b")),  # noqa: PTH118
        ("cache_wait_s", 3, 3.0),
        ("partition_fn", "DEFAULT", "DEFAULT"),
        ("partition_fn", NAMED, NAMED),
        ("partition_fn", own_partitioner, own_partitioner),
        ("enable_interceptor", "rtol=1e-3", "rtol=1e-3"),
    ],
)
def test_legal_values_are_brought_to_one_form(field, given, kept):
    value = getattr(XpuGraphConfig(**{field: given}), field)
    assert value == kept
    assert type(value) is type(kept)


def test_equal_configurations_are_equal():
    assert XpuGraphConfig(target="cpu", opt_level=2) == XpuGraphConfig(
        target=Target.cpu, opt_level=OptLevel.level2
    )
    assert XpuGraphConfig() != XpuGraphConfig(freeze=True)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, replace, lambda c: c.replaced({})])
def test_a_copy_is_equal(copied):
    config = XpuGraphConfig(target="cpu", vendor_compiler_config={"mode": "default"}, freeze=True)
    assert copied(config) == config
    assert pickle.loads(pickle.dumps(config)) == config


def test_the_dict_that_was_given_is_left_alone_and_not_kept():
    given = {"mode": "max-autotune", "dim_gears": {"x": {0: [2, 4]}}}
    as_given = copy.deepcopy(given)
    config = XpuGraphConfig(target="npu", vendor_compiler_config=given)
    backend = XpuGraph(config)
    given["dim_gears"]["x"][0].append(8)
    given["mode"] = "npugraph_ex"
    assert config.vendor_compiler_config == as_given
    config.vendor_compiler_config["dim_gears"]["x"][0].append(16)
    config.opt_level = OptLevel.level0
    assert backend.config.vendor_compiler_config == as_given
    assert backend.config.opt_level == OptLevel.level1


def test_an_object_among_the_vendor_options_stays_the_same_object():
    class Pass:
        def __call__(self, gm, example_inputs, config):
            pass

    given = Pass()
    options = {"mode": "npugraph_ex", "post_grad_custom_pre_pass": given}
    config = XpuGraphConfig(target="npu", vendor_compiler_config=options)
    kept = XpuGraph(config).config.vendor_compiler_config
    assert kept["post_grad_custom_pre_pass"] is given
    assert XpuGraph(config) == XpuGraph(config)


def test_what_was_changed_afterwards_is_checked_by_the_backend():
    config = XpuGraphConfig()
    config.fallback = "sometimes"
    with pytest.raises(ConfigError, match="fallback"):
        XpuGraph(config)


def test_a_backend_takes_a_configuration_only():
    with pytest.raises(ConfigError, match="XpuGraphConfig"):
        XpuGraph({"target": "cpu"})


# --- backends as values ---------------------------------------------------------------------------


def test_equal_backends_are_equal_and_hash_alike():
    one, other = XpuGraph(XpuGraphConfig(opt_level=2)), XpuGraph(XpuGraphConfig(opt_level="level2"))
    assert one == other
    assert hash(one) == hash(other)
    assert one != XpuGraph(XpuGraphConfig(opt_level=3))
    assert one != "xpu_graph"


def test_an_equal_backend_does_not_compile_again():
    def function(x):
        return x * 2

    x = torch.ones(3)
    done = len(recent_reports())
    for _ in range(3):
        torch.compile(function, backend=XpuGraph(XpuGraphConfig(freeze=True)))(x)
    assert len(recent_reports()) == done + 1
    torch.compile(function, backend=XpuGraph(XpuGraphConfig()))(x)
    assert len(recent_reports()) == done + 2


# --- vendor options -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        ("cpu", {"max_autotun": True}, ["'max_autotun'", "Target.cpu", "'max_autotune'?"]),
        ("cpu", {"mode": "max-autotun"}, ["'max-autotun'", "Target.cpu", "'max-autotune'?"]),
        ("cpu", {"compiler": "inducter"}, ["'inducter'", "Target.cpu", "'inductor'?"]),
        ("none", {"mode": "default"}, ["'mode'", "Target.none"]),
    ],
)
def test_a_wrong_vendor_option_is_refused_when_the_backend_is_made(target, options, words):
    with pytest.raises(ConfigError) as caught:
        XpuGraph(XpuGraphConfig(target=target, vendor_compiler_config=options))
    for word in words:
        assert word in str(caught.value)


def inner(caught):
    return caught.value.inner_exception


def test_a_mode_without_a_vendor_is_refused():
    for backend in (XpuGraph(XpuGraphConfig(target="cpu")), XpuGraph()):
        compiled = torch.compile(lambda x: x + 1, backend=backend, mode="max-autotune")
        with pytest.raises(Exception, match="max-autotune") as caught:
            compiled(torch.ones(3))
        assert isinstance(inner(caught), ConfigError)


def test_a_mode_reaches_the_vendor():
    given = {"epilogue_fusion": True}
    backend = XpuGraph(XpuGraphConfig(target="cpu", vendor_compiler_config=given))
    derived = backend.with_options("max-autotune", None)
    assert derived.config.vendor_compiler_config == {**given, "mode": "max-autotune"}
    compiled = torch.compile(lambda x: x + 1, backend=backend, mode="max-autotun")
    with pytest.raises(Exception, match="max-autotun") as caught:
        compiled(torch.ones(3))
    assert "'max-autotune'?" in str(inner(caught))


# --- nothing outside changes ----------------------------------------------------------------------

VENDORS = ("torch_npu", "torch_mlu", "torchair", "npugraph_ex", "triton", "openvino", "onnxruntime")


def outside():
    configs = (torch._inductor.config, torch._dynamo.config, torch._functorch.config)
    return {
        "environment": dict(os.environ),
        "configs": [config.save_config_portable() for config in configs],
        "signals": {number: signal.getsignal(number) for number in signal.valid_signals()},
        "loggers": (logging.getLoggerClass(), logging.root.handlers[:], logging.root.level),
        "vendors": [name for name in VENDORS if name in sys.modules],
        "torch": (
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(),
            torch.get_num_threads(),
            torch.get_rng_state().tolist(),
        ),
        "hooks": (sys.excepthook, sys.displayhook, sys.path[:]),
    }


@pytest.mark.parametrize("target", ["none", "cpu", "npu"])
@pytest.mark.parametrize("freeze", [False, True])
def test_making_a_backend_changes_nothing_outside(target, freeze):
    before = outside()
    XpuGraph(XpuGraphConfig(target=target, freeze=freeze, vendor_compiler_config={}, debug=True))
    after = outside()
    for what in before:
        assert before[what] == after[what], what


def test_making_a_backend_writes_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XPUGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    XpuGraph(XpuGraphConfig(dump_graph=True))
    assert list(tmp_path.iterdir()) == []
