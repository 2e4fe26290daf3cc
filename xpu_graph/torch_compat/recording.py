"""The operators that a function calls on fake tensors, recorded as a graph.

``make_fx`` does the same for everything there is, and takes some ten milliseconds a function.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode


class NotRecorded(Exception):
    """The function does something that is not recorded here, such as writing in place."""


def recorded(function: Callable[..., Any], tensors: Sequence[torch.Tensor]) -> fx.Graph:
    """The graph of a function, for tensors of static sizes.

    Args:
        function: of these tensors.
        tensors: fake tensors; their mode is active.

    Raises:
        NotRecorded: it writes in place, or uses a tensor that it was not given.
    """
    graph = fx.Graph()
    recorder = _Recorder(graph)
    for tensor in tensors:
        node = graph.placeholder(f"given_{len(graph.nodes)}")
        node.meta["val"] = tensor
        recorder.learn(tensor, node)
    with recorder:
        returned = function(*tensors)
    graph.output(recorder.nodes_of(returned))
    return graph


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, graph: fx.Graph) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._graph = graph
        self._known: dict[int, tuple[torch.Tensor, fx.Node]] = {}

    def learn(self, tensor: torch.Tensor, node: fx.Node) -> None:
        """Remember which node a tensor is the value of."""
        self._known[id(tensor)] = tensor, node

    def nodes_of(self, value: Any) -> Any:
        """A nest of values with nodes in the place of tensors."""
        return pytree.tree_map_only(torch.Tensor, self._node, value)

    def _node(self, tensor: torch.Tensor) -> fx.Node:
        if id(tensor) not in self._known:
            raise NotRecorded("it uses a tensor that it was not given")
        return self._known[id(tensor)][1]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func._schema.is_mutable:
            raise NotRecorded("it writes in place")
        result = func(*args, **(kwargs or {}))
        args, kwargs = self.nodes_of((args, kwargs or {}))
        node = self._graph.call_function(func, args, kwargs)
        node.meta["val"] = result
        if isinstance(result, torch.Tensor):
            self.learn(result, node)
        elif isinstance(result, (list, tuple)):
            for position, entry in enumerate(result):
                if isinstance(entry, torch.Tensor):
                    item = self._graph.call_function(operator.getitem, (node, position))
                    item.meta["val"] = entry
                    self.learn(entry, item)
        return result
