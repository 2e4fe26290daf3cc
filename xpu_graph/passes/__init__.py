"""Device-independent optimisation: FX in, FX out. The rules are in README.md beside this file."""

from xpu_graph.passes.base import Pass, Phase, RewritePass
from xpu_graph.passes.canonicalize_views import CanonicalizeViews
from xpu_graph.passes.constant_folding import ConstantFolding
from xpu_graph.passes.constant_split import ConstantSplit, split_constant_part
from xpu_graph.passes.cse import CommonSubexpressions
from xpu_graph.passes.dead_code import DeadCode
from xpu_graph.passes.eliminate_cat import EliminateCat
from xpu_graph.passes.fold_arithmetic import FoldArithmetic
from xpu_graph.passes.fold_assertions import FoldAssertions
from xpu_graph.passes.fold_casts import FoldCasts
from xpu_graph.passes.fold_cat import FoldCat
from xpu_graph.passes.fold_copies import FoldCopies
from xpu_graph.passes.fold_noops import FoldNoops
from xpu_graph.passes.fold_reductions import FoldReductions
from xpu_graph.passes.fold_repeats import FoldRepeats
from xpu_graph.passes.fold_scatters import FoldScatters
from xpu_graph.passes.fold_sizes import FoldSizes
from xpu_graph.passes.fold_slices import FoldSlices
from xpu_graph.passes.fold_split import FoldSplit
from xpu_graph.passes.fold_where import FoldWhere
from xpu_graph.passes.pipeline import Pipeline
from xpu_graph.passes.propagate_fills import PropagateFills
from xpu_graph.passes.reinplace import Reinplace
from xpu_graph.passes.sink_views import SinkViews

DEFAULT_PASSES: tuple[type[Pass], ...] = (
    CanonicalizeViews,
    CommonSubexpressions,
    ConstantFolding,
    DeadCode,
    EliminateCat,
    FoldArithmetic,
    FoldAssertions,
    FoldCasts,
    FoldCat,
    FoldCopies,
    FoldNoops,
    FoldReductions,
    FoldRepeats,
    FoldScatters,
    FoldSizes,
    FoldSlices,
    FoldSplit,
    FoldWhere,
    PropagateFills,
    Reinplace,
    SinkViews,
)
"""Every pass that runs by default; the order is theirs to declare, not this tuple's."""

__all__ = [
    "DEFAULT_PASSES",
    "ConstantSplit",
    "Pass",
    "Phase",
    "Pipeline",
    "RewritePass",
    "split_constant_part",
]
