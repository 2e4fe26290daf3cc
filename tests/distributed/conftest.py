"""Two processes on gloo, kept for all tests of a test process."""

import pytest
import torch.distributed as dist

from tests.distributed.pair import Pair


@pytest.fixture(scope="session")
def _pairs(tmp_path_factory):
    pairs = []

    def ready():
        if not pairs or not pairs[-1].is_usable:
            pairs.append(Pair(tmp_path_factory.mktemp("pair")))
        return pairs[-1]

    yield ready
    for pair in pairs:
        pair.close()


@pytest.fixture
def pair(_pairs):
    """The pair; a new one if the last was broken."""
    return _pairs()


def pytest_collection_modifyitems(items):
    """Skip what needs processes where there is nothing to connect them with."""
    if dist.is_available() and dist.is_gloo_available():
        return
    for item in items:
        if "tests/distributed/" in item.nodeid:
            item.add_marker(pytest.mark.skip(reason="torch has no gloo here"))
