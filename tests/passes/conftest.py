"""Graphs that AOTAutograd would not make: writes to intermediates, random operators in place."""

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from xpu_graph.passes import Pass
from xpu_graph.stage import Stage, Unit


@pytest.fixture
def trace():
    """Trace a function as it is written, without functionalising it."""

    def trace(function, *inputs):
        mode = FakeTensorMode()
        fakes = [mode.from_tensor(t) for t in inputs]
        with mode:
            gm = make_fx(function)(*fakes)
        for node in gm.graph.nodes:
            node.meta.setdefault("stack_trace", f"trace of {node.name}")
        return Unit(Stage.inference, gm, fakes, name="traced")

    return trace


@pytest.fixture
def node_of():
    """The only node of a unit whose name starts so."""

    def node_of(unit, name):
        (node,) = [n for n in unit.gm.graph.nodes if n.name == name]
        return node

    return node_of


@pytest.fixture
def make_pass():
    """A pass class from a function of the unit."""

    def make_pass(run, name="probe", **attributes):
        return type(
            "Probe", (Pass,), {"run": lambda self, unit: run(unit), "name": name, **attributes}
        )

    return make_pass
