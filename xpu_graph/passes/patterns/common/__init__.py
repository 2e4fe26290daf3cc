"""Patterns that serve every target, each in a file of its own."""

from xpu_graph.passes.patterns.common.addmm import ADDMM, BADDBMM
from xpu_graph.passes.patterns.common.batch_norm import CONVOLUTION_BATCH_NORM, LINEAR_BATCH_NORM
from xpu_graph.passes.patterns.pattern import PatternPass, pass_of

COMMON: tuple[type[PatternPass], ...] = tuple(
    pass_of(one) for one in (ADDMM, BADDBMM, CONVOLUTION_BATCH_NORM, LINEAR_BATCH_NORM)
)
"""Their passes."""

__all__ = ["COMMON"]
