"""Target npu, where its packages are missing."""

import importlib.util
import sys

import pytest
import torch

from xpu_graph import ConfigError, OptLevel, Target, XpuGraph, XpuGraphConfig, npu_compiler
from xpu_graph.backends import npu
from xpu_graph.backends.npu import vendor
from xpu_graph.conformance import BackendConformance

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch_npu") is not None, reason="torch_npu is installed"
)


class TestNpu(BackendConformance):
    target = "npu"


def test_the_reason_names_the_missing_package():
    assert "torch_npu" in npu.why_not()
    assert "not installed" in npu.why_not()


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Packages that look installed: ``installed("torch_npu", version, source)``."""

    def install(name, version, source=""):
        (tmp_path / f"{name}.py").write_text(source)
        metadata = tmp_path / f"{name}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        monkeypatch.delitem(sys.modules, name, raising=False)

    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(vendor, "_state", {})
    yield install
    for name in ("torch_npu", "protobuf"):
        sys.modules.pop(name, None)


HERE = ".".join(torch.__version__.split(".")[:2])


def test_a_wrong_pair_is_not_imported(installed):
    installed("torch_npu", "2.6.0", "raise SystemExit('it was imported')")
    reason = npu.why_not()
    assert "torch_npu 2.6.0" in reason
    assert torch.__version__ in reason
    assert HERE in reason


def test_protobuf_that_is_too_new(installed):
    installed("torch_npu", f"{HERE}.0", "raise SystemExit('it was imported')")
    installed("protobuf", "5.29.0")
    assert "protobuf<4" in npu.why_not()


def test_cann_that_is_missing(installed):
    source = "raise ImportError('libhccl.so: cannot open shared object file')"
    installed("torch_npu", f"{HERE}.0", source)
    installed("protobuf", "3.20.3")
    reason = npu.why_not()
    assert "libhccl.so" in reason
    assert "set_env.sh" in reason


def test_a_package_that_does_not_import(installed):
    installed("torch_npu", f"{HERE}.0", "raise ValueError('half installed')")
    installed("protobuf", "3.20.3")
    assert "ValueError: half installed" in npu.why_not()


def test_training_is_refused_before_tracing():
    with pytest.raises(ConfigError, match="inference"):
        XpuGraph(XpuGraphConfig(is_training=True, target="npu", vendor_compiler_config={}))


def test_shorthand():
    made = npu_compiler(freeze=True, opt_level="level2", compiler="ge", mode="npugraph_ex")
    assert made.config.target == Target.npu
    assert made.config.freeze
    assert made.config.opt_level == OptLevel.level2
    assert made.config.vendor_compiler_config == {"compiler": "ge", "mode": "npugraph_ex"}
    with pytest.raises(ConfigError, match="clone_input"):
        npu_compiler(mode="npugraph_ex", clone_inputs=True)
