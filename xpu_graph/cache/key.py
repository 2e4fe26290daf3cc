"""The key of an artifact: a list of named factors, each of which changes what is compiled.

A factor that is forgotten is a wrong artifact, so every field of the configuration is listed below:
as one that counts, or as one that does not. A test holds the two lists against the fields.
A value without an identity makes the graph not cacheable; nothing is guessed.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import pathlib
import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import fx

from xpu_graph.config import OptLevel, Target, XpuGraphConfig
from xpu_graph.errors import NotCacheable
from xpu_graph.fx import marks, placeholders
from xpu_graph.graph_codec import canonical_text, encode_graph
from xpu_graph.identity import identity_text
from xpu_graph.stage import Stage
from xpu_graph.tensor_codec import layout_of, raw_bytes, span_of
from xpu_graph.torch_compat import (
    opaque_kind,
    process_state,
    shape_facts,
    symbol_ranges,
    torch_identity,
)

FORMAT = 1
"""Grows when the meaning of a stored artifact changes."""

KEYED_FIELDS = (
    "constant_folding",
    "fold_limit_bytes",
    "folding_freezed_params",
    "freeze",
    "include_patterns",
    "opt_level",
    "skip_patterns",
    "target",
    "vendor_compiler_config",
)
"""Fields of the configuration that change what is compiled."""

UNKEYED_FIELDS = (
    "cache_wait_s",
    "debug",
    "dump_dir",
    "dump_graph",
    "enable_cache",
    "enable_interceptor",
    "fallback",
    "fallback_legacy_dispatch",
    "fuel",  # a graph that was rewritten under fuel is never stored
    "is_training",
    "partition_fn",  # acts before a graph gets here: the graph itself differs
    "verify",
)
"""Fields that do not."""


@dataclass(frozen=True)
class CacheKey:
    """Named factors, in a fixed order.

    Attributes:
        factors: (name, value) pairs.
    """

    factors: tuple[tuple[str, str], ...]

    @functools.cached_property
    def digest(self) -> str:
        """SHA-256 over all factors, in hexadecimal."""
        return hashlib.sha256(json.dumps(self.factors).encode()).hexdigest()

    def diff(self, other: CacheKey) -> dict[str, tuple[str | None, str | None]]:
        """The factors that differ, each with this key's value and the other's."""
        mine, theirs = dict(self.factors), dict(other.factors)
        names = [*mine, *(name for name in theirs if name not in mine)]
        return {
            name: (mine.get(name), theirs.get(name))
            for name in names
            if mine.get(name) != theirs.get(name)
        }

    def __str__(self) -> str:
        return self.digest


def build_key(
    gm: fx.GraphModule,
    fake_inputs: Sequence[Any],
    config: XpuGraphConfig,
    stage: Stage,
    *,
    frozen: Mapping[str, torch.Tensor] | None = None,
    identities: Mapping[str, str] | None = None,
) -> CacheKey:
    """The key of a graph that is about to be compiled.

    Args:
        gm: the graph, before any pass.
        fake_inputs: fake tensors, SymInts and plain numbers, in placeholder order.
        config: the configuration in force.
        stage: where the graph comes from.
        frozen: the tensors whose values may be folded, by placeholder name.
        identities: further factors that this layer cannot know: passes, vendor compiler.

    Raises:
        NotCacheable: something has no identity; the message says what.
    """
    data, constants = encode_graph(gm)
    text = canonical_text(data)
    calls = Counter(str(n.target) for n in gm.graph.nodes if n.op == "call_function")
    order = {node.name: str(i) for i, node in enumerate(gm.graph.find_nodes(op="placeholder"))}
    factors = {
        "format": str(FORMAT),
        "graph": hashlib.sha256(text.encode()).hexdigest(),
        "graph size": f"{len(gm.graph.nodes)} nodes, {len(calls)} operators",
        "inputs": _describe_inputs(fake_inputs),
        "marks": canonical([marks(node) for node in placeholders(gm.graph)], "marks"),
        "guards": " and ".join(shape_facts(fake_inputs)),
        "custom operators": _custom_operators(gm.graph),
        "constants": _content({name: constants[name] for name in sorted(constants)}),
        "frozen": _content({order[name]: tensor for name, tensor in (frozen or {}).items()}),
        "stage": stage.value,
        **{f"config.{name}": canonical(getattr(config, name), name) for name in KEYED_FIELDS},
        **(identities or {}),
        "package": package_identity(),
        "torch": torch_identity(),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        **{f"process.{name}": value for name, value in process_state().items()},
        **{f"process.{name}": value for name, value in _kernel_choice().items()},
    }
    return CacheKey(tuple(factors.items()))


def _custom_operators(graph: fx.Graph) -> str:
    """Schemas of the operators that are not torch's own: another package may change them."""
    found = {
        str(node.target._schema)
        for node in graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
        and node.target.namespace not in ("aten", "prims")
    }
    return "; ".join(sorted(found))


def canonical(value: Any, where: str) -> str:
    """One text for equal settings.

    Raises:
        NotCacheable: the value is of a kind that has no identity.
    """
    if value is None or type(value) in (bool, int, str):
        return json.dumps(value)
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, (OptLevel, Target)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        inner = ",".join(canonical(entry, where) for entry in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, Mapping):
        pairs = sorted(
            (canonical(key, where), canonical(value[key], f"{where}[{key!r}]")) for key in value
        )
        return "{" + ",".join(f"{key}:{entry}" for key, entry in pairs) + "}"
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    return identity_text(value, where)


def _kernel_choice() -> dict[str, str]:
    """What decides the rounding of operators that run while compiling: constants are folded."""
    mkldnn = torch.backends.mkldnn
    return {
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "mkldnn_deterministic": str(mkldnn.deterministic),
        "mkldnn_precision": ",".join(
            str(part.fp32_precision)
            for part in (mkldnn, mkldnn.matmul, mkldnn.conv, mkldnn.rnn)  # type: ignore[attr-defined]
        ),
    }


@functools.cache
def package_identity() -> str:
    """The version of this package and a digest of its sources."""
    digest = hashlib.sha256()
    root = pathlib.Path(__file__).resolve().parent.parent
    for path in sorted(root.rglob("*.py")):
        digest.update(str(path.relative_to(root)).encode())
        digest.update(path.read_bytes())
    try:
        version = importlib.metadata.version("xpu_graph")
    except importlib.metadata.PackageNotFoundError:
        version = "source"
    return f"{version} {digest.hexdigest()[:16]}"


def _content(tensors: Mapping[str, torch.Tensor]) -> str:
    """A digest of names, dtypes, layouts and bytes."""
    if not tensors:
        return "none"
    digest = hashlib.sha256()
    for name, tensor in tensors.items():
        digest.update(f"{name} {tensor.dtype} {sorted(layout_of(tensor).items())}".encode())
        digest.update(raw_bytes(span_of(tensor)))
    return f"{len(tensors)} tensors {digest.hexdigest()}"


def _describe_inputs(values: Sequence[Any]) -> str:
    """Types, layouts and symbols of the inputs; symbols are renamed in order of appearance."""
    names: dict[Any, sympy.Symbol] = {}
    ranges: list[str] = []

    def size(value: Any) -> str:
        if not isinstance(value, torch.SymInt):
            return str(value)
        expression = value.node.expr
        for symbol, lower, upper in symbol_ranges(value):
            if symbol not in names:
                names[symbol] = sympy.Symbol(f"d{len(names)}", integer=True)
                ranges.append(f"{names[symbol]} in [{lower}, {upper}]")
        return str(expression.xreplace(names))

    parts = []
    for value in values:
        if isinstance(value, torch.Tensor):
            layout = [
                tuple(map(size, value.shape)),
                tuple(map(size, value.stride())) if value.layout == torch.strided else (),
                size(value.storage_offset()) if value.layout == torch.strided else "",
            ]
            parts.append(
                f"{type(value).__name__} {value.dtype} {value.device} {value.layout} {layout} "
                f"{value.requires_grad} {value.is_conj()} {value.is_neg()}"
            )
        elif isinstance(value, torch.SymInt):
            parts.append(f"SymInt {size(value)}")
        elif value is None or type(value) in (bool, int, float, str):
            parts.append(f"{type(value).__name__} {value!r}")
        elif (kind := opaque_kind(value)) is not None:
            parts.append(f"opaque {kind}")  # handed on at run time; nothing is compiled for it
        else:
            raise NotCacheable(f"an input is a {type(value).__name__}, which has no identity")
    return "; ".join([*parts, *ranges])
