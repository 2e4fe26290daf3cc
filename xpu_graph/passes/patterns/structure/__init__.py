"""Structures: what is found in programs, each in a file of its own; see ``base.py``."""

from xpu_graph.passes.patterns.structure.add_layer_norm import ADD_LAYER_NORM
from xpu_graph.passes.patterns.structure.add_n import ADD_N
from xpu_graph.passes.patterns.structure.add_rms_norm import ADD_RMS_NORM
from xpu_graph.passes.patterns.structure.base import Form, Implementation, Structure
from xpu_graph.passes.patterns.structure.dense_layer import DENSE_LAYER
from xpu_graph.passes.patterns.structure.dense_tower import DENSE_TOWER
from xpu_graph.passes.patterns.structure.embedding_bundle import EMBEDDING_BUNDLE
from xpu_graph.passes.patterns.structure.gelu import GELU
from xpu_graph.passes.patterns.structure.layer_norm import LAYER_NORM
from xpu_graph.passes.patterns.structure.parallel_linears import PARALLEL_LINEARS
from xpu_graph.passes.patterns.structure.rms_norm import RMS_NORM
from xpu_graph.passes.patterns.structure.rope import ROPE
from xpu_graph.passes.patterns.structure.sdpa import SDPA
from xpu_graph.passes.patterns.structure.slice_cat import SLICE_CAT
from xpu_graph.passes.patterns.structure.slice_stack_sum import SLICE_STACK_SUM
from xpu_graph.passes.patterns.structure.swiglu import GEGLU, SWIGLU

_ALL = (
    ADD_LAYER_NORM,
    ADD_N,
    ADD_RMS_NORM,
    DENSE_LAYER,
    DENSE_TOWER,
    EMBEDDING_BUNDLE,
    GEGLU,
    GELU,
    LAYER_NORM,
    PARALLEL_LINEARS,
    RMS_NORM,
    ROPE,
    SDPA,
    SLICE_CAT,
    SLICE_STACK_SUM,
    SWIGLU,
)

STRUCTURES: dict[str, Structure] = {one.name: one for one in _ALL}
"""Every structure, by name."""

__all__ = ["STRUCTURES", "Form", "Implementation", "Structure"]
