"""The settings that every kind of fault is tried under."""

import itertools

import pytest

from xpu_graph import XpuGraph, XpuGraphConfig

SETTINGS = [
    pytest.param({"opt_level": level, "freeze": freeze}, id=f"{level}{'-freeze' if freeze else ''}")
    for level, freeze in itertools.product(("level1", "level2"), (False, True))
]


@pytest.fixture(params=SETTINGS)
def backend(request):
    return XpuGraph(XpuGraphConfig(enable_cache=False, **request.param))


@pytest.fixture(params=[False, True], ids=["static", "dynamic"])
def dynamic(request):
    return request.param
