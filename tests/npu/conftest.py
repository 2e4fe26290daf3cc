"""Tests of the Ascend packages: on the simulated CANN, or on an NPU with ``ASCEND_SIM=0``."""

import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE)]
sys.path.append(str(HERE.parent))  # programs.py, ascend_sim

import ascend_sim  # noqa: E402 - found through the lines above

ON_SIMULATOR = os.environ.get("ASCEND_SIM", "1") != "0"
WHY_NOT = ascend_sim.why_not()

if WHY_NOT is None and ON_SIMULATOR:
    ascend_sim.load()
elif WHY_NOT is None:
    import torch_npu  # noqa: F401
else:
    collect_ignore_glob = ["*"]


def pytest_report_header():
    return f"tests/npu is left out: {WHY_NOT}" if WHY_NOT else None


if WHY_NOT is None:
    from xpu_graph.backends.npu import vendor

    vendor.attach()  # a bare vendor call of a test may come first, and the import order counts
