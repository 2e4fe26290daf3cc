"""The Python blocks of the documents run, one after another, in one namespace a document."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
DOCUMENTS = ["README.md", "CONTRIBUTING.md", "docs/patterns.md", "xpu_graph/passes/README.md"]


def blocks(name):
    text = (ROOT / name).read_text()
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_python_blocks_run(name, tmp_path, monkeypatch):
    found = blocks(name)
    assert found, f"{name} has no Python block"
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "document"}
    for number, block in enumerate(found):
        exec(compile(block, f"{name}, block {number}", "exec"), namespace)
