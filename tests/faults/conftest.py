"""The settings that every kind of fault is tried under."""

import pytest

from xpu_graph import XpuGraph, XpuGraphConfig

SETTINGS = [
    pytest.param({"opt_level": "level1"}, id="level1"),
    pytest.param({"opt_level": "level2", "freeze": True}, id="level2-freeze"),
]


@pytest.fixture(params=SETTINGS)
def backend(request):
    return XpuGraph(XpuGraphConfig(enable_cache=False, **request.param))


@pytest.fixture(params=[False, True], ids=["static", "dynamic"])
def dynamic(request):
    return request.param
