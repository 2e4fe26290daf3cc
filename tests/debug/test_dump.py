"""Dumps: which files are written, where, and what they hold."""

import os
import pathlib

import pytest
import torch

from xpu_graph import XpuGraph, XpuGraphConfig


def program(x):
    y = x.sin() * 1 + x.sin()
    torch._dynamo.graph_break()
    return y + 1


def run(backend):
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(program, backend=backend)(torch.ones(3))


def graphs(root):
    """Directory of each graph -> its file names, in order."""
    process = pathlib.Path(root, f"process_{os.getpid()}")
    return [sorted(path.name for path in graph.iterdir()) for graph in sorted(process.iterdir())]


def test_a_graph_is_written_before_after_and_at_every_change(tmp_path):
    run(XpuGraph(XpuGraphConfig(dump_graph=True, dump_dir=str(tmp_path), enable_cache=False)))
    first, second = graphs(tmp_path)
    assert first[0] == "000_before.txt" and first[-1].endswith("_after.txt")
    assert any(name.endswith("_cse.txt") for name in first) and len(first) > 3
    assert [name[:3] for name in first] == [f"{number:03d}" for number in range(len(first))]
    assert [name[4:] for name in second] == ["before.txt", "after.txt"]
    place = sorted((tmp_path / f"process_{os.getpid()}").iterdir())[0]
    before, after = (place / name for name in (first[0], first[-1]))
    assert before.read_text().count("aten.sin.default(") == 2
    assert after.read_text().count("aten.sin.default(") == 1


def test_nothing_is_written_unless_asked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(XpuGraph(XpuGraphConfig(enable_cache=False)))
    run(XpuGraph(XpuGraphConfig(enable_cache=False, dump_dir=str(tmp_path / "dumps"))))
    assert not (tmp_path / "dumps").exists() and not (tmp_path / "xpu_graph_dump").exists()


def test_the_environment_variable_turns_it_on(tmp_path, monkeypatch):
    monkeypatch.setenv("XPUGRAPH_DUMP_DIR", str(tmp_path / "here"))
    run(XpuGraph(XpuGraphConfig(enable_cache=False)))
    assert len(graphs(tmp_path / "here")) == 2


@pytest.mark.parametrize("fields", [{"debug": True}, {"dump_graph": True}], ids=str)
def test_the_default_place_is_the_working_directory(tmp_path, monkeypatch, fields):
    monkeypatch.chdir(tmp_path)
    run(XpuGraph(XpuGraphConfig(enable_cache=False, **fields)))
    assert len(graphs(tmp_path / "xpu_graph_dump")) == 2


def test_torchs_own_debug_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_COMPILE_DEBUG", "1")
    monkeypatch.setattr(torch._dynamo.utils, "debug_dir", None, raising=False)
    with torch._dynamo.config.patch(debug_dir_root=str(tmp_path)):
        run(XpuGraph(XpuGraphConfig(enable_cache=False)))
        directory = pathlib.Path(torch._dynamo.utils.get_debug_dir())
    assert directory.is_relative_to(tmp_path)
    assert len(graphs(directory / "xpu_graph")) == 2


def test_a_place_that_cannot_be_written_is_one_warning(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    directory = str(tmp_path / "file" / "dumps")
    run(XpuGraph(XpuGraphConfig(dump_graph=True, dump_dir=directory, enable_cache=False)))
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
