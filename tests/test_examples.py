"""Every example runs, in a process of its own, as a person would run it."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("[0-9]*.py"))
ARGUMENTS = {"01_quickstart.py": ["--quick"]}
SAYS = {"01_quickstart.py": "All 6 ways find the same pairs."}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_runs(path, tmp_path):
    done = subprocess.run(
        [sys.executable, str(path), *ARGUMENTS.get(path.name, [])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert SAYS[path.name] in done.stdout


def test_every_example_is_numbered_and_expected():
    assert [path.name for path in EXAMPLES] == sorted(SAYS)
