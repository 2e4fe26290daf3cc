"""``XPUGRAPH_LOGS`` and torch's own switches; in a process of its own what is read only once."""

import json
import logging
import os
import subprocess
import sys

import pytest

from xpu_graph import ConfigError
from xpu_graph.debug.logs import AREAS, configure_logs

PROGRAM = """
import torch
import xpu_graph
function = lambda x: (x * 1, x.sin() + x.sin())
with torch.no_grad():
    torch.compile(function, backend="xpu_graph", options={"target": "none",
                  "vendor_compiler_config": None})(torch.ones(3))
"""


def run(tmp_path, program=PROGRAM, **variables):
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("XPUGRAPH_", "TORCH_"))},
        "XPUGRAPH_CACHE_DIR": str(tmp_path / "cache"),
        **variables,
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.fixture
def untouched():
    """Put the loggers back."""
    loggers = [logging.getLogger(name) for name in AREAS.values()]
    before = [(logger.level, list(logger.handlers)) for logger in loggers]
    yield
    for logger, (level, handlers) in zip(loggers, before, strict=True):
        logger.setLevel(level)
        logger.handlers[:] = handlers


def levels():
    return {area: logging.getLogger(name).level for area, name in AREAS.items()}


def test_areas_are_set_once(monkeypatch, untouched):
    before = levels()
    monkeypatch.setenv("XPUGRAPH_LOGS", "passes, cache")
    configure_logs()
    changed = {area for area, level in levels().items() if level != before[area]}
    assert changed == {"passes", "cache"} and levels()["cache"] == logging.DEBUG
    handlers = list(logging.getLogger("xpu_graph").handlers)
    configure_logs()
    assert logging.getLogger("xpu_graph").handlers == handlers


@pytest.mark.parametrize("text", [None, "", " , "])
def test_nothing_changes_unless_set(monkeypatch, untouched, text):
    before = levels(), list(logging.getLogger("xpu_graph").handlers)
    if text is None:
        monkeypatch.delenv("XPUGRAPH_LOGS", raising=False)
    else:
        monkeypatch.setenv("XPUGRAPH_LOGS", text)
    configure_logs()
    assert (levels(), list(logging.getLogger("xpu_graph").handlers)) == before


def test_an_unknown_area_is_an_error_that_names_the_legal_ones(monkeypatch, untouched):
    before = levels()
    monkeypatch.setenv("XPUGRAPH_LOGS", "cache,pases")
    with pytest.raises(ConfigError, match=r"'pases'.*did you mean 'passes'.*backends") as caught:
        configure_logs()
    assert "XPUGRAPH_LOGS" in str(caught.value)
    assert levels() == before


def test_a_program_without_logging_of_its_own_is_told_why(tmp_path):
    code, said = run(tmp_path, XPUGRAPH_LOGS="passes")
    assert code == 0
    lines = [line for line in said.splitlines() if line.startswith("[xpu_graph")]
    assert any(" refused " in line for line in lines)
    assert all(line.startswith("[xpu_graph.passes") for line in lines)
    assert len(lines) == len(set(lines))
    code, said = run(tmp_path)
    assert code == 0 and "[xpu_graph" not in said


def test_a_program_with_logging_of_its_own_is_told_once(tmp_path):
    own = "import logging; logging.basicConfig(format='own %(name)s %(message)s')\n"
    code, said = run(tmp_path, own + PROGRAM, XPUGRAPH_LOGS="all")
    assert code == 0
    assert "own xpu_graph.passes" in said and "[xpu_graph" not in said


def test_an_unknown_area_stops_the_program(tmp_path):
    code, said = run(tmp_path, XPUGRAPH_LOGS="everything")
    assert code != 0 and "ConfigError" in said and "'everything'" in said


def test_torch_logs_shows_ours(tmp_path):
    code, said = run(tmp_path, TORCH_LOGS="+xpu_graph")
    assert code == 0 and "xpu_graph for none" in said and " refused " in said


def test_torch_trace_holds_the_report(tmp_path):
    code, said = run(tmp_path, TORCH_TRACE=str(tmp_path / "trace"))
    assert code == 0, said
    (trace,) = (tmp_path / "trace").iterdir()
    lines = trace.read_text().splitlines()
    (head,) = [number for number, line in enumerate(lines) if '"xpu_graph_report"' in line]
    assert json.loads(lines[head].partition("] ")[2])["artifact"]["encoding"] == "string"
    assert "xpu_graph for none" in lines[head + 1]
