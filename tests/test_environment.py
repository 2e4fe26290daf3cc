"""Environment variables that stand for fields."""

import logging
import pathlib
import re

import pytest

import xpu_graph
from xpu_graph import ConfigError, OptLevel, Target, XpuGraph, XpuGraphConfig
from xpu_graph.environment import VENDOR_MODES, read_environment

LEGAL = [
    ("XPUGRAPH_DEBUG", "1", "debug", True),
    ("XPUGRAPH_DEBUG", "off", "debug", False),
    ("XPUGRAPH_OPT_LEVEL", "level3", "opt_level", OptLevel.level3),
    ("XPUGRAPH_OPT_LEVEL", "0", "opt_level", OptLevel.level0),
    ("XPUGRAPH_DUMP_DIR", "somewhere", "dump_dir", "somewhere"),
    ("XPUGRAPH_DUMP_DIR", "somewhere", "dump_graph", True),
    ("XPUGRAPH_INTERCEPTOR", "rtol=1e-3,atol=0", "enable_interceptor", "rtol=1e-3,atol=0"),
    ("XPUGRAPH_INTERCEPTOR", "1", "enable_interceptor", True),
    ("XPUGRAPH_INTERCEPTOR", "off", "enable_interceptor", False),
    ("XPUGRAPH_PARTITIONER", "MINCUT", "partition_fn", "MINCUT"),
    ("XPUGRAPH_FUEL", "12", "fuel", 12),
    ("XPUGRAPH_VERIFY", "off", "verify", "off"),
    ("XPUGRAPH_DEBUG_INCLUDE_PATTERNS", "a, b,", "include_patterns", ("a", "b")),
    ("XPUGRAPH_DEBUG_SKIP_PATTERNS", "cse", "skip_patterns", ("cse",)),
]


@pytest.mark.parametrize(("variable", "text", "field", "value"), LEGAL)
def test_a_set_variable_fills_its_field(monkeypatch, variable, text, field, value):
    assert getattr(XpuGraphConfig(), field) != value or value is False
    monkeypatch.setenv(variable, text)
    assert getattr(XpuGraphConfig(), field) == value


@pytest.mark.parametrize(
    ("variable", "text", "fields"),
    [
        ("XPUGRAPH_DEBUG", "0", {"debug": True}),
        ("XPUGRAPH_OPT_LEVEL", "level0", {"opt_level": "level3"}),
        ("XPUGRAPH_INTERCEPTOR", "0", {"enable_interceptor": True}),
        ("XPUGRAPH_FUEL", "0", {"fuel": 3}),
        ("XPUGRAPH_DEBUG_SKIP_PATTERNS", "cse", {"skip_patterns": ("dead_code",)}),
    ],
)
def test_a_set_variable_wins(monkeypatch, variable, text, fields):
    (field,) = fields
    without = getattr(XpuGraphConfig(**fields), field)
    monkeypatch.setenv(variable, text)
    assert getattr(XpuGraphConfig(**fields), field) != without
    assert getattr(XpuGraphConfig(), field) == getattr(XpuGraphConfig(**fields), field)


@pytest.mark.parametrize(
    ("variable", "text", "named"),
    [
        ("XPUGRAPH_DEBUG", "maybe", ["'maybe'", "true", "false"]),
        ("XPUGRAPH_OPT_LEVEL", "level9", ["'level9'", "level0, level1, level2, level3"]),
        ("XPUGRAPH_INTERCEPTOR", "rtol=much", ["'rtol=much'", "rtol=1e-5,atol=1e-6"]),
        ("XPUGRAPH_PARTITIONER", "mincat", ["'mincat'", "did you mean 'MINCUT'?", "DEFAULT"]),
        ("XPUGRAPH_FUEL", "-1", ["'-1'", "whole number"]),
        ("XPUGRAPH_FUEL", "²", ["'²'", "whole number"]),
        ("XPUGRAPH_FUEL", "9" * 5000, ["whole number"]),
        ("XPUGRAPH_DUMP_DIR", __file__, [__file__, "dump_dir", "a file"]),
        ("XPUGRAPH_VERIFY", "eech", ["'eech'", "did you mean 'each'?", "final"]),
        ("VENDOR_COMPILER_MODE", "max-autotun", ["did you mean 'max-autotune'?", *VENDOR_MODES]),
    ],
)
def test_an_illegal_value_names_variable_value_and_legal_ones(monkeypatch, variable, text, named):
    monkeypatch.setenv(variable, text)
    with pytest.raises(ConfigError) as caught:
        XpuGraphConfig()
    for words in [variable, *named]:
        assert words in str(caught.value)


def test_an_illegal_field_is_refused_though_a_variable_wins(monkeypatch):
    monkeypatch.setenv("XPUGRAPH_OPT_LEVEL", "0")
    with pytest.raises(ConfigError, match="'bogus'"):
        XpuGraphConfig(opt_level="bogus")
    with pytest.raises(ConfigError, match="'bogus'"):
        XpuGraphConfig().replaced({"opt_level": "bogus"})


def test_a_mode_that_the_target_does_not_have_names_the_variable(monkeypatch):
    monkeypatch.setenv("VENDOR_COMPILER_MODE", "cudagraphs")
    with pytest.raises(ConfigError, match="VENDOR_COMPILER_MODE='cudagraphs'") as caught:
        XpuGraph(XpuGraphConfig(target="cpu"))
    assert "max-autotune" in str(caught.value)
    with pytest.raises(ConfigError) as caught:  # not what the variable says
        XpuGraph(XpuGraphConfig(target="cpu", vendor_compiler_config={"no_such_option": 1}))
    assert "VENDOR_COMPILER_MODE" not in str(caught.value)


def test_an_unknown_variable_is_warned_of_once(monkeypatch, caplog):
    monkeypatch.setenv("XPUGRAPH_OPT_LEVELS", "0")
    with caplog.at_level(logging.WARNING, "xpu_graph"):
        XpuGraphConfig()
        XpuGraphConfig()
    (record,) = caplog.records
    assert "did you mean 'XPUGRAPH_OPT_LEVEL'" in record.getMessage()


def test_no_variable_of_ours_is_warned_of(monkeypatch, caplog):
    package = pathlib.Path(xpu_graph.__file__).parent
    ours = {
        name
        for path in package.rglob("*.py")
        for name in re.findall(r"XPUGRAPH_[A-Z_]*[A-Z]", path.read_text())
    }
    assert len(ours) > 10
    for name in ours:
        monkeypatch.setenv(name, "")
    with caplog.at_level(logging.WARNING, "xpu_graph"):
        XpuGraphConfig()
    assert not caplog.records


def test_an_empty_variable_is_not_set(monkeypatch):
    for variable in {row[0] for row in LEGAL} | {"VENDOR_COMPILER_MODE"}:
        monkeypatch.setenv(variable, " ")
    environment = read_environment()
    assert environment.settings == {}
    assert environment.vendor_mode is None


@pytest.mark.parametrize(
    ("mode", "target", "given", "in_force"),
    [
        ("none", "cpu", {"mode": "default"}, None),
        ("max-autotune", "cpu", None, {"mode": "max-autotune"}),
        ("max-autotune", "cpu", {"mode": "default", "x": 1}, {"mode": "max-autotune", "x": 1}),
        ("max-autotune", "none", None, None),
        ("none", "none", None, None),
    ],
)
def test_vendor_compiler_mode(monkeypatch, mode, target, given, in_force):
    monkeypatch.setenv("VENDOR_COMPILER_MODE", mode)
    config = XpuGraphConfig(target=target, vendor_compiler_config=given)
    assert config.vendor_compiler_config == in_force


def test_the_environment_is_read_once(monkeypatch):
    monkeypatch.setenv("XPUGRAPH_OPT_LEVEL", "level3")
    config = XpuGraphConfig(target=Target.cpu, vendor_compiler_config={})
    monkeypatch.setenv("XPUGRAPH_OPT_LEVEL", "level0")
    monkeypatch.setenv("XPUGRAPH_FUEL", "7")
    monkeypatch.setenv("VENDOR_COMPILER_MODE", "none")
    backend = XpuGraph(config)
    assert backend.config == config
    assert backend.config.opt_level == OptLevel.level3
    derived = backend.with_options(None, {"freeze": True, "opt_level": "level1"})
    assert derived.config.opt_level == OptLevel.level3  # what was read still wins
    assert derived.config.fuel is None
    assert derived.config.vendor_compiler_config == {}
