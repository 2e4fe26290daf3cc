"""Tests of the simulated CANN itself; the tables of cases are imported by name."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
