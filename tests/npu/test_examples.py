"""The examples for Ascend run as a person runs them, and so do the blocks of the documents."""

import os
import pathlib
import re
import subprocess
import sys

import ascend_sim
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SAYS = {
    "03_npu_ge_modes.py": "On npu everything agrees",
    "04_npu_device_graph.py": "All calls agree",
    "05_npu_kv_cache_decode.py": "6 steps on npu agree",
    "06_npu_compiler_alone.py": "All calls agree",
}
BLOCKS = {
    document: re.findall(rf"^{fence}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for document, fence in (("docs/npu.md", "```python"), ("README.md", "```python npu"))
    for text in [(ROOT / document).read_text()]
}


def run(path, folder):
    """Run a script in a process of its own: on the simulator, or on an NPU with ASCEND_SIM=0."""
    simulated = os.environ.get("ASCEND_SIM", "1") != "0"
    return subprocess.run(
        ascend_sim.command(str(path)) if simulated else [sys.executable, str(path)],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT)]),
            "PYTHONWARNINGS": "ignore",
            "XPUGRAPH_CACHE_DIR": str(folder / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", SAYS)
def test_example_runs(name, tmp_path):
    done = run(ROOT / "examples" / name, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
    assert SAYS[name] in done.stdout


def test_every_npu_example_is_expected():
    assert sorted(SAYS) == sorted(path.name for path in (ROOT / "examples").glob("*_npu_*.py"))


@pytest.mark.parametrize("document", BLOCKS)
def test_python_blocks_run(document, tmp_path):
    """One after another, in one namespace a document."""
    assert BLOCKS[document], f"{document} has no Python block"
    program = tmp_path / "blocks.py"
    program.write_text("\n\n".join(BLOCKS[document]))
    done = run(program, tmp_path)
    assert done.returncode == 0, done.stderr[-4000:]
