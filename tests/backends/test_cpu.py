"""Target cpu: Inductor."""

from xpu_graph.conformance import BackendConformance


class TestCpu(BackendConformance):
    target = "cpu"
    foreign_device = "meta"
