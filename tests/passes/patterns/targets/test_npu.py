"""What the package brings for target npu, on a machine without torch_npu."""

import subprocess
import sys

import pytest
import torch

from xpu_graph import Target, XpuGraph, XpuGraphConfig
from xpu_graph.passes.patterns.structure import STRUCTURES
from xpu_graph.passes.patterns.structure.base import BUILT_IN_PRIORITY
from xpu_graph.passes.patterns.structure.registry import implementations
from xpu_graph.passes.patterns.targets.npu import IMPLEMENTATIONS, rope, sdpa, swiglu
from xpu_graph.passes.patterns.targets.npu.made import is_there

BY_NAME = {one.structure: one for one in IMPLEMENTATIONS}
CONFIG = XpuGraphConfig(target=Target.npu)


def meta(*shape, dtype=torch.float16):
    return torch.empty(shape, dtype=dtype, device="meta")


def test_no_structure_has_two_implementations():
    assert set(BY_NAME) <= set(STRUCTURES)
    assert len(BY_NAME) == len(IMPLEMENTATIONS)
    assert implementations(Target.npu) == list(IMPLEMENTATIONS)
    for one in IMPLEMENTATIONS:
        assert (one.target, one.priority) == (Target.npu, BUILT_IN_PRIORITY)


def test_it_imports_no_vendor_package():
    code = (
        "import sys, xpu_graph.passes.patterns.targets.npu\n"
        "print([name for name in sys.modules if name.startswith(('torch_npu', 'torchair'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.skipif(hasattr(torch, "npu"), reason="torch_npu is loaded here")
class TestWithoutTorchNpu:
    def test_absent_operators_are_not_wanted(self):
        wanted = {one.structure for one in IMPLEMENTATIONS if one.wanted(CONFIG)}
        assert wanted == {"LayerNorm"}  # by an operator of torch's own

    def test_a_graph_compiles(self):
        backend = XpuGraph(XpuGraphConfig(target=Target.npu, opt_level="level2"))
        run = torch.compile(lambda x: torch.nn.functional.gelu(x) + 1, backend=backend)
        x = torch.randn(4, 8)
        with torch.no_grad():
            torch.testing.assert_close(run(x), torch.nn.functional.gelu(x) + 1)

    def test_an_operator_without_a_fake_kernel_is_not_there(self):
        with torch.library._scoped_library("npu", "FRAGMENT") as library:
            library.define("npu_swiglu(Tensor input, int dim=-1) -> Tensor")
            library.impl("npu_swiglu", lambda input, dim=-1: input, "CPU")
            assert not is_there("npu_swiglu")
            library.impl("npu_swiglu", lambda input, dim=-1: torch.empty_like(input), "Meta")
            assert is_there("npu_swiglu")
            assert BY_NAME["SwiGLU"].wanted(CONFIG)


class TestChecks:
    @pytest.mark.parametrize("name", BY_NAME)
    def test_what_is_on_the_cpu_stays(self, name):
        reason = BY_NAME[name].check(*STRUCTURES[name].examples())
        assert reason == "it is computed on the CPU"

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float8_e4m3fn], ids=str)
    def test_dtypes(self, dtype):
        x, row = meta(2, 16, dtype=dtype), meta(16, dtype=dtype)
        for name, operands in {
            "AddLayerNorm": (x, x, row, row, 1e-5),
            "AddRMSNorm": (x, x, row, 1e-6),
            "GELU": (x, "none"),
            "LayerNorm": (x, row, row, 1e-5),
            "RMSNorm": (x, row, 1e-6),
            "SwiGLU": (x, x),
        }.items():
            assert str(dtype) in BY_NAME[name].check(*operands)

    @pytest.mark.parametrize(
        "angle",
        [(1, 1, 5, 16), (2, 1, 5, 16), (2, 4, 5, 16), (1, 4, 1, 16), (2, 4, 1, 16), (2, 1, 1, 16)],
        ids=str,
    )
    def test_layouts_of_angles(self, angle):
        assert rope.check(meta(2, 4, 5, 16), meta(*angle), meta(*angle)) is None

    @pytest.mark.parametrize(
        ("x", "cos", "sin", "reason"),
        [
            ((2, 4, 5, 16), (1, 4, 5, 16), None, "not broadcast"),
            ((2, 4, 5, 16), (1, 1, 1, 16), None, "not broadcast"),
            ((2, 4, 5, 16), (1, 1, 5, 1), None, "not broadcast"),
            ((2, 4, 5, 16), (1, 1, 5, 16), (2, 1, 5, 16), "different shapes"),
            ((2, 4, 5, 896), (1, 1, 5, 896), None, "above 895"),
            ((1000, 4, 5, 16), (1, 1, 5, 16), None, "above 999"),
            ((2, 1000, 5, 16), (1, 1, 5, 16), None, "above 999"),
            ((2, 4, 5, 24), (1, 1, 5, 24), None, "32 bytes"),
        ],
        ids=str,
    )
    def test_what_rotation_does_not_take(self, x, cos, sin, reason):
        assert reason in rope.check(meta(*x), meta(*cos), meta(*(sin or cos)))

    def test_rows_of_other_layouts_need_not_be_aligned(self):
        assert rope.check(meta(2, 5, 4, 24), meta(1, 5, 1, 24), meta(1, 5, 1, 24)) is None

    @pytest.mark.parametrize(
        ("query", "key", "reason"),
        [
            ((2, 4, 5, 528), (2, 4, 7, 528), "above 512"),
            ((2, 4, 5, 136), (2, 4, 7, 136), "above 128"),
            ((2, 257, 5, 16), (2, 257, 7, 16), "above 256"),
            ((65537, 4, 5, 16), (65537, 4, 7, 16), "above 65536"),
            ((2, 4, 1, 16), (2, 4, 262145, 16), "above 262144"),
            ((2, 4, 5, 16), (2, 2, 7, 16), "the query does not have the shape"),
            ((2, 2, 4, 5, 16), (2, 2, 4, 7, 16), "5 dimensions"),
        ],
        ids=str,
    )
    def test_what_attention_does_not_take(self, query, key, reason):
        told = sdpa.check(meta(*query), meta(*key), meta(*key), None, 0.25, False)
        assert reason in told

    @pytest.mark.parametrize(
        ("mask", "dtype", "reason"),
        [
            ((2, 1, 5, 7), torch.float16, None),
            ((7,), torch.float16, None),
            ((5, 1), torch.float16, None),
            ((2, 1, 5, 7), torch.float32, "the mask is torch.float32"),
            ((3, 1, 5, 7), torch.float16, "not broadcast"),
            ((1, 2, 4, 5, 7), torch.float16, "5 dimensions"),
        ],
        ids=str,
    )
    def test_masks(self, mask, dtype, reason):
        query, key = meta(2, 4, 5, 16), meta(2, 4, 7, 16)
        told = sdpa.check(query, key, key, meta(*mask, dtype=dtype), 0.25, False)
        assert told is None if reason is None else reason in told

    def test_halves(self):
        left, right = meta(2, 3, 16).chunk(2, -1)
        assert swiglu.check(left, right) is None
        assert swiglu.check(right, left) is not None
        assert swiglu.check(left, meta(2, 3, 8)) is not None
        assert swiglu.check(*meta(2, 16).transpose(0, 1).chunk(2, 0)) is not None
        assert BY_NAME["GEGLU"].check(right, left, "none") is None
