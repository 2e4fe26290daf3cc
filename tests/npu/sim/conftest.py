"""Tests of the simulated CANN itself; the tables of cases are imported by name."""

import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent))

if os.environ.get("ASCEND_SIM", "1") == "0":  # the other tests run on an NPU then
    collect_ignore_glob = ["*"]
