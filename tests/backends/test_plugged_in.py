"""A backend that another package brings; the example package is tests/example_backend."""

import pytest

from xpu_graph.conformance import BackendConformance


@pytest.mark.usefixtures("toy_package")
class TestToy(BackendConformance):
    target = "toy"
    foreign_device = "meta"
    bitwise = True
