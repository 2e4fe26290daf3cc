"""Target npu, where its packages are missing."""

from xpu_graph.conformance import BackendConformance


class TestNpu(BackendConformance):
    target = "npu"
    unknown_option = None  # they are checked by the version that compiles
