"""The example package with a backend, installed for the length of a test."""

import pathlib
import sys

import pytest

from xpu_graph.artifact import KINDS

EXAMPLE = pathlib.Path(__file__).resolve().parent.parent / "example_backend"


@pytest.fixture
def toy_package(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield
    sys.modules.pop("toy_backend", None)
    KINDS.pop("toy", None)
