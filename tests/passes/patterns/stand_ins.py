"""An operator for each structure, which computes what the structure means: it can be counted."""

from contextlib import contextmanager

import torch

from xpu_graph import register_structure, unregister_structure
from xpu_graph.passes.patterns.structure import STRUCTURES

_SCHEMAS = {
    "AddLayerNorm": "(Tensor x, Tensor residual, Tensor weight, Tensor bias, float eps) "
    "-> (Tensor, Tensor)",
    "AddN": "(Tensor[] tensors) -> Tensor",
    "AddRMSNorm": "(Tensor x, Tensor residual, Tensor weight, float eps) -> (Tensor, Tensor)",
    "DenseLayer": "(Tensor x, Tensor weight, Tensor? bias, str activation) -> Tensor",
    "DenseTower": "(Tensor x, Tensor[] weights, Tensor?[] biases, str[] activations) -> Tensor",
    "EmbeddingBundle": "(Tensor[] tables, Tensor[] ids, int[]? columns) -> Tensor",
    "GEGLU": "(Tensor gate, Tensor up, str approximate) -> Tensor",
    "GELU": "(Tensor x, str approximate) -> Tensor",
    "LayerNorm": "(Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor",
    "ParallelLinears": "(Tensor x, Tensor[] weights, Tensor?[] biases) -> Tensor[]",
    "RMSNorm": "(Tensor x, Tensor? weight, float eps) -> Tensor",
    "RoPE": "(Tensor x, Tensor cos, Tensor sin) -> Tensor",
    "SDPA": "(Tensor query, Tensor key, Tensor value, Tensor? mask, float scale, bool is_causal) "
    "-> Tensor",
    "SliceCat": "(Tensor x, int[] starts, int[] stops, int dim) -> Tensor",
    "SliceStackSum": "(Tensor x, int[] starts, int width, int dim) -> Tensor",
    "SwiGLU": "(Tensor gate, Tensor up) -> Tensor",
}
_library = torch.library.Library("stand_in", "FRAGMENT")


def operator(name):
    """The operator that stands in for a structure."""
    return getattr(torch.ops.stand_in, name).default


for _name, _schema in _SCHEMAS.items():
    _reference = STRUCTURES[_name].reference
    _library.define(f"{_name}{_schema}", tags=[torch.Tag.pt2_compliant_tag])
    _library.impl(_name, _reference, "CompositeExplicitAutograd")
    torch.library.register_fake(f"stand_in::{_name}", _reference, lib=_library)


@contextmanager
def implemented(*names, target="none", **more):
    """Let the stand-ins implement some structures, all by default."""
    names = names or tuple(_SCHEMAS)
    for name in names:
        register_structure(name, target, operator(name), **more)
    try:
        yield
    finally:
        for name in names:
            unregister_structure(name, target, operator(name))
