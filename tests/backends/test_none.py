"""Target none: no vendor compiler."""

from xpu_graph.conformance import BackendConformance


class TestNone(BackendConformance):
    target = "none"
    bitwise = True
