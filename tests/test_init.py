"""The package's names, and what importing it costs."""

import ast
import pathlib
import subprocess
import sys

import pytest
import torch

import xpu_graph

ROOT = pathlib.Path(xpu_graph.__file__).resolve().parent.parent


def in_new_process(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("name", xpu_graph.__all__)
def test_every_public_name_resolves(name):
    assert getattr(xpu_graph, name) is not None
    assert name in dir(xpu_graph)


def test_the_public_names_are_listed_once_and_the_same_everywhere():
    assert xpu_graph.__all__ == sorted(set(xpu_graph.__all__))
    assert xpu_graph.__all__ == sorted(xpu_graph._HOME)
    tree = ast.parse(pathlib.Path(xpu_graph.__file__).read_text())
    (block,) = [
        node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    ]
    typed = {
        alias.name: node.module.removeprefix("xpu_graph.")
        for node in block.body
        for alias in node.names
    }
    assert typed == xpu_graph._HOME


def test_an_unknown_name():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = xpu_graph.no_such_name


def test_importing_it_imports_neither_torch_nor_a_vendor():
    heavy = ["torch", "numpy", "torch_npu", "torchair", "torch_mlu", "triton", "openvino"]
    code = f"import sys, xpu_graph; print(*[m for m in {heavy!r} if m in sys.modules])"
    assert in_new_process(code) == []


def test_the_configuration_needs_no_torch():
    code = (
        "import sys, xpu_graph\n"
        "xpu_graph.XpuGraphConfig(target='npu'); xpu_graph.Target.cpu\n"
        "print('torch' in sys.modules)"
    )
    assert in_new_process(code) == ["False"]


@pytest.mark.parametrize(
    ("logs", "levels"),
    [
        ("+xpu_graph", ["10", "10"]),
        ("+xpu_graph.compiler", ["30", "10"]),
        ("xpu_graph", ["20"] * 2),
    ],
)
def test_torch_logs_knows_the_loggers(logs, levels):
    code = (
        "import torch, logging\n"
        "for name in ('xpu_graph', 'xpu_graph.compiler'):\n"
        "    print(logging.getLogger(name).getEffectiveLevel())"
    )
    assert in_new_process(code, TORCH_LOGS=logs) == levels


def test_the_version_is_that_of_the_distribution():
    tree = ast.parse((ROOT / "setup.py").read_text())
    (version,) = [
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "version"
    ]
    assert xpu_graph.__version__ == version


def test_dynamo_finds_the_backend_by_name():
    assert "xpu_graph" in torch.compiler.list_backends()
