"""Without a target nothing but torch's operators is there; they are taken on the CPU alone."""

from xpu_graph.passes.patterns.targets._aten import implementations
from xpu_graph.target import Target

IMPLEMENTATIONS = implementations(Target.none)
