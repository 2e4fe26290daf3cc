"""The example in the passes' README runs."""

import re
import runpy
from pathlib import Path

import xpu_graph.passes


def test_the_example_runs(tmp_path):
    text = (Path(xpu_graph.passes.__file__).parent / "README.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(example)
    runpy.run_path(str(script))
