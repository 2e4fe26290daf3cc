"""The backends that whole programs are tried on."""

import pytest

from xpu_graph import XpuGraph, XpuGraphConfig


@pytest.fixture(params=("level1", "level2"))
def backend(request):
    return XpuGraph(XpuGraphConfig(opt_level=request.param, enable_cache=False))
