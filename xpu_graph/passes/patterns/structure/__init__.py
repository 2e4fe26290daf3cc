"""Structures: what is found in programs, each in a file of its own; see ``base.py``."""

from xpu_graph.passes.patterns.structure.add_layer_norm import ADD_LAYER_NORM
from xpu_graph.passes.patterns.structure.add_rms_norm import ADD_RMS_NORM
from xpu_graph.passes.patterns.structure.base import Form, Implementation, Structure
from xpu_graph.passes.patterns.structure.gelu import GELU
from xpu_graph.passes.patterns.structure.layer_norm import LAYER_NORM
from xpu_graph.passes.patterns.structure.rms_norm import RMS_NORM
from xpu_graph.passes.patterns.structure.rope import ROPE
from xpu_graph.passes.patterns.structure.sdpa import SDPA
from xpu_graph.passes.patterns.structure.swiglu import GEGLU, SWIGLU

_ALL = (ADD_LAYER_NORM, ADD_RMS_NORM, GEGLU, GELU, LAYER_NORM, RMS_NORM, ROPE, SDPA, SWIGLU)

STRUCTURES: dict[str, Structure] = {one.name: one for one in _ALL}
"""Every structure, by name."""

__all__ = ["STRUCTURES", "Form", "Implementation", "Structure"]
