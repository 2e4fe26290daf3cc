"""Target none: no vendor compiler."""

import pytest

from xpu_graph import ConfigError, SerializableGraphModule
from xpu_graph.backends import none
from xpu_graph.conformance import BackendConformance


class TestNone(BackendConformance):
    target = "none"
    bitwise = True

    def test_the_graph_runs_as_it_is(self):
        (made,) = self.check(lambda x, y: x + y, self.inputs)
        assert type(made) is SerializableGraphModule


def test_any_option_is_refused():
    with pytest.raises(ConfigError, match="'compiler'"):
        none.check_options({"compiler": "inductor"})
