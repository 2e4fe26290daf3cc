"""Every example runs, in a process of its own, as a person would run it.

Those that need an Ascend device are run by ``tests/npu/test_examples.py``.
"""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("[0-9]*.py"))
ARGUMENTS = {
    "01_quickstart.py": ["--quick", "--no-inductor"],  # `make demo` runs all of it
    "02_training.py": ["--steps", "4"],
    "03_npu_ge_modes.py": ["--target", "cpu"],
    "05_npu_kv_cache_decode.py": ["--target", "cpu"],
    "07_distributed_data_parallel.py": [],
    "08_plugin_pattern.py": [],
    "09_training_pattern.py": [],
    "10_structure.py": [],
}
SAYS = {
    "01_quickstart.py": "All 3 ways find the same pairs.",
    "02_training.py": "2 sides learn the same.",
    "03_npu_ge_modes.py": "On cpu everything agrees",
    "05_npu_kv_cache_decode.py": "6 steps on cpu agree",
    "07_distributed_data_parallel.py": (
        "Every rank has the same keys, and the losses are eager's."
    ),
    "08_plugin_pattern.py": "found 3 times",
    "09_training_pattern.py": "Both sides learn the same.",
    "10_structure.py": "The kernels ran 3 and 3 times.",
}
NPU_ONLY = ["04_npu_device_graph.py", "06_npu_compiler_alone.py"]


@pytest.mark.parametrize("name", SAYS)
def test_example_runs(name, tmp_path):
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *ARGUMENTS[name]],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert SAYS[name] in done.stdout


def test_every_example_is_numbered_and_expected():
    assert sorted([*SAYS, *NPU_ONLY]) == EXAMPLES
