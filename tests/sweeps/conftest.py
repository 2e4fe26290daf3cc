"""Large products of models and settings: run by ``make sweep-npu``, not by ``make test``."""

import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "npu"), str(TESTS)]

import ascend_sim  # noqa: E402 - it is found through the line above

if ascend_sim.why_not() is None:
    ascend_sim.load()
