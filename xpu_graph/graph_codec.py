"""FX graphs as JSON: what an artifact stores and what a cache key is made of.

Nothing in the text is executed when it is read. Only operators of ``torch.ops``, functions of
``operator``, ``math`` and the ``torch.sym_*`` family, and plain arguments have a form; anything
else is refused with its name, which makes the graph not cacheable. Nodes are numbered, so that
two graphs that differ in names only have one text.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Hashable
from typing import Any

import torch
from torch import fx

from xpu_graph.errors import CacheError, NotCacheable
from xpu_graph.fx import attribute

VERSION = 1

_FUNCTIONS: dict[str, Any] = {
    **{
        f"operator.{name}": getattr(operator, name)
        for name in operator.__all__
        if name not in ("attrgetter", "call", "itemgetter", "methodcaller")  # reach any attribute
    },
    **{
        f"math.{name}": getattr(math, name)
        for name in dir(math)
        if not name.startswith("_") and callable(getattr(math, name))
    },
    **{f"torch.{name}": getattr(torch, name) for name in dir(torch) if name.startswith("sym_")},
}
_FUNCTION_NAMES = {function: name for name, function in _FUNCTIONS.items()}
_SETTINGS: dict[str, type] = {
    "dtype": torch.dtype,
    "layout": torch.layout,
    "memory_format": torch.memory_format,
}
_HIGHER_ORDER = frozenset(
    {
        *("cond", "while_loop", "while_loop_stack_output", "scan", "associative_scan"),
        *("map_impl", "invoke_subgraph", "out_dtype"),
        *("auto_functionalized", "auto_functionalized_v2", "with_effects"),
        *("flex_attention", "flex_attention_backward"),
        *("run_and_save_rng_state", "run_with_rng_state"),
    }
)
"""Those whose arguments say all they do; others keep something elsewhere, Triton kernels do."""
_NAME = re.compile(r"(graph|tensor)[0-9]+")


def encode_graph(gm: fx.GraphModule) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Turn a graph into JSON data and the tensors it owns.

    Returns:
        The data, and the tensors by the name the data calls them.

    Raises:
        NotCacheable: the graph holds something that has no form here.
    """
    numbers: dict[fx.Node, int] = {}
    tensors: dict[str, torch.Tensor] = {}
    names: dict[str, str] = {}
    subgraphs: dict[str, Any] = {}
    nodes = []
    for node in gm.graph.nodes:
        entry: dict[str, Any] = {"op": node.op}
        if node.op == "call_function":
            entry["target"] = _encode_target(node.target)
            entry["args"] = _encode(node.args, numbers)
            if node.kwargs:
                entry["kwargs"] = _encode(dict(node.kwargs), numbers)
        elif node.op == "get_attr":
            value = attribute(gm, str(node.target))
            if isinstance(value, fx.GraphModule):
                name = names.setdefault(str(node.target), f"graph{len(subgraphs)}")
                if name not in subgraphs:
                    data, inner = encode_graph(value)
                    subgraphs[name] = data
                    tensors |= {f"{name}.{key}": tensor for key, tensor in inner.items()}
            elif isinstance(value, torch.Tensor):
                name = names.setdefault(str(node.target), f"tensor{len(names)}")
                tensors[name] = value
            else:
                raise NotCacheable(f"the graph holds a {type(value).__name__} ({node.target})")
            entry["name"] = name
        elif node.op == "output":
            entry["args"] = _encode(node.args, numbers)
        elif node.op != "placeholder":
            raise NotCacheable(f"node {node.name} is a {node.op}")
        numbers[node] = len(numbers)
        nodes.append(entry)
    data = {"version": VERSION, "nodes": nodes}
    if subgraphs:
        data["subgraphs"] = subgraphs
    return data, tensors


def decode_graph(data: dict[str, Any], tensors: dict[str, torch.Tensor]) -> fx.GraphModule:
    """Build the graph that ``encode_graph`` was given; metadata is not kept.

    Raises:
        CacheError: the data is of another version, or names something that is not there.
    """
    if data.get("version") != VERSION:
        raise CacheError(f"graph format {data.get('version')!r}, this package reads {VERSION}")
    root: dict[str, Any] = {}
    graph = fx.Graph()
    nodes: list[fx.Node] = []
    for entry in data["nodes"]:
        op = entry["op"]
        if op == "placeholder":
            node = graph.placeholder(f"arg{len(nodes)}")
        elif op == "get_attr":
            name = entry["name"]
            if not _NAME.fullmatch(name):  # it becomes part of the code of the module
                raise CacheError(f"{name!r} is not a name this package gives")
            if name in data.get("subgraphs", {}):
                inner = {
                    key.removeprefix(f"{name}."): tensor
                    for key, tensor in tensors.items()
                    if key.startswith(f"{name}.")
                }
                root[name] = decode_graph(data["subgraphs"][name], inner)
            elif name in tensors:
                root[name] = tensors[name]
            else:
                raise CacheError(f"the tensor {name!r} is missing")
            node = graph.create_node("get_attr", name)
        elif op == "call_function":
            kwargs = _decode(entry["kwargs"], nodes) if "kwargs" in entry else {}
            if not all(name.isidentifier() for name in kwargs):
                raise CacheError(f"{sorted(kwargs)} are not names of arguments")
            node = graph.call_function(
                _decode_target(entry["target"]), _decode(entry["args"], nodes), kwargs
            )
        elif op == "output":
            node = graph.output(_decode(entry["args"], nodes)[0])
        else:
            raise CacheError(f"unknown kind of node {op!r}")
        nodes.append(node)
    holder = torch.nn.Module()
    for name, value in root.items():
        if isinstance(value, torch.Tensor):
            holder.register_buffer(name, value, persistent=False)
        else:
            holder.add_module(name, value)
    return fx.GraphModule(holder, graph)


def canonical_text(data: dict[str, Any]) -> str:
    """One text for equal data."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _encode_target(target: Any) -> str:
    if isinstance(target, torch._ops.OpOverload):
        return f"op:{target.namespace}:{target._schema.name.split('::')[1]}:{target._overloadname}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        if target.__name__ not in _HIGHER_ORDER:
            raise NotCacheable(f"the graph calls {target.__name__}, which has no stored form")
        return f"hop:{target.__name__}"
    name = _FUNCTION_NAMES.get(target) if isinstance(target, Hashable) else None
    if name is None:
        raise NotCacheable(f"the graph calls {target!r}, which has no stored form")
    return name


def _decode_target(text: str) -> Any:
    found: Any = None
    try:
        if text.startswith("op:"):
            _, namespace, name, overload = text.split(":")
            found = getattr(getattr(getattr(torch.ops, namespace), name), overload)
            known = isinstance(found, torch._ops.OpOverload)
        elif text.startswith("hop:"):
            name = text.removeprefix("hop:")
            found = getattr(torch.ops.higher_order, name)
            known = isinstance(found, torch._ops.HigherOrderOperator) and name in _HIGHER_ORDER
        else:
            found, known = _FUNCTIONS[text], True
    except (AttributeError, LookupError, ValueError, RuntimeError) as error:
        raise CacheError(f"the operator {text!r} is not registered in this process") from error
    if not known:
        raise CacheError(f"{text!r} is not an operator")
    return found


def _encode(value: Any, numbers: dict[fx.Node, int]) -> Any:
    if isinstance(value, fx.Node):
        return {"node": numbers[value]}
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [_encode(entry, numbers) for entry in value]}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"dict": {key: _encode(entry, numbers) for key, entry in value.items()}}
    if isinstance(value, slice):
        return {"slice": [_encode(p, numbers) for p in (value.start, value.stop, value.step)]}
    if value is ...:
        return {"ellipsis": None}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    for name, kind_of in _SETTINGS.items():
        if isinstance(value, kind_of):
            return {name: str(value).removeprefix("torch.")}
    if isinstance(value, torch._ops.OpOverload):
        return {"target": _encode_target(value)}
    raise NotCacheable(f"an argument is a {type(value).__name__}, which has no stored form")


def _decode(value: Any, nodes: list[fx.Node]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, held),) = value.items()
    if kind == "node":
        return nodes[held]
    if kind == "float":
        return float.fromhex(held)
    if kind == "complex":
        return complex(*(float.fromhex(part) for part in held))
    if kind == "list":
        return [_decode(entry, nodes) for entry in held]
    if kind == "tuple":
        return tuple(_decode(entry, nodes) for entry in held)
    if kind == "dict":
        return {key: _decode(entry, nodes) for key, entry in held.items()}
    if kind == "slice":
        return slice(*(_decode(part, nodes) for part in held))
    if kind == "ellipsis":
        return ...
    if kind == "device":
        return torch.device(held)
    if kind == "target":
        return _decode_target(held)
    if kind in _SETTINGS:
        setting = getattr(torch, held)
        if isinstance(setting, _SETTINGS[kind]):
            return setting
    raise CacheError(f"unknown kind of argument {kind!r}")
