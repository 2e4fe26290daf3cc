"""Stages, and the unit that is handed down."""

import torch

from xpu_graph import FxStage, Stage
from xpu_graph.stage import Unit


def test_the_stages():
    assert FxStage is Stage
    assert {stage.value for stage in Stage} == {
        "pregrad",
        "joint",
        "forward",
        "backward",
        "inference",
    }
    assert all(Stage(stage.value) is stage for stage in Stage)


def test_units_share_nothing():
    gm = torch.fx.symbolic_trace(lambda x: x + 1)
    one, other = Unit(Stage.inference, gm, []), Unit(Stage.inference, gm, [])
    one.frozen["p"] = torch.ones(1)
    one.not_frozen["q"] = "reason"
    assert other.frozen == {}
    assert other.not_frozen == {}
