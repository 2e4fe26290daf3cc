"""Target npu, where its packages are missing."""

import importlib.util
import sys
from types import ModuleType

import pytest

from xpu_graph.backends import npu
from xpu_graph.conformance import BackendConformance

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_npu") is not None, reason="torch_npu is installed"
)


class TestNpu(BackendConformance):
    target = "npu"
    unknown_option = None  # they are checked by the version that compiles


def test_the_reason_names_the_missing_package():
    assert "torch_npu" in npu.why_not()
    assert "not installed" in npu.why_not()


def test_an_installed_package_is_not_imported_to_ask(monkeypatch):
    fake = ModuleType("torch_npu")
    fake.__spec__ = importlib.util.spec_from_loader("torch_npu", None)
    monkeypatch.setitem(sys.modules, "torch_npu", fake)
    assert "does not drive it yet" in npu.why_not()
