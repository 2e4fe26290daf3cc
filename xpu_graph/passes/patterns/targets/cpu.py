"""On the CPU torch's own fused operators are taken where they pay."""

from xpu_graph.passes.patterns.targets._aten import implementations
from xpu_graph.target import Target

IMPLEMENTATIONS = implementations(Target.cpu)
