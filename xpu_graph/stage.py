"""The stages a program is compiled in, and the unit of work that is handed down.

A ``Unit`` goes down from dispatch through the passes to a vendor; an artifact comes back up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule

    from xpu_graph.passes.rewriter import Rewriter


class Stage(Enum):
    """Where in the life of a program a graph was captured."""

    pregrad = "pregrad"
    joint = "joint"
    forward = "forward"
    backward = "backward"
    inference = "inference"


FxStage = Stage


@dataclass
class Unit:
    """One graph to compile.

    Attributes:
        stage: where the graph comes from.
        gm: the ATen graph, in FX. Passes change it in place.
        fake_inputs: one fake tensor, SymInt or plain number a placeholder, in placeholder order.
        frozen: real tensors of the placeholders whose value may be folded, by placeholder name.
        not_frozen: why a parameter or buffer is not in ``frozen``, by placeholder name.
        name: a short name for reports and dumps.
        rewriter: what passes change the graph through; set by the pipeline.
    """

    stage: Stage
    gm: GraphModule
    fake_inputs: list[Any]
    frozen: dict[str, torch.Tensor] = field(default_factory=dict)
    not_frozen: dict[str, str] = field(default_factory=dict)
    name: str = "graph"
    rewriter: Rewriter = field(init=False, repr=False)
