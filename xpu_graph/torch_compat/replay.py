"""Running a Dynamo graph on fake values, and recording the operators that it calls."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator
from torch.amp.autocast_mode import _enter_autocast, _exit_autocast
from torch.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_proxy_mode,
    track_tensor_tree,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from typing_extensions import override

set_grad_enabled: Any = torch._C._set_grad_enabled
enter_autocast: Any = _enter_autocast
exit_autocast: Any = _exit_autocast

CHECKPOINT: Any = torch.ops.higher_order.tag_activation_checkpoint


class NotLowered(Exception):
    """A graph cannot be traced without a doubt; the message is the reason, as half a sentence."""


SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
NUMBERS = (bool, int, float, complex, *SYMBOLIC)


class Runner(fx.Interpreter):
    """Runs a Dynamo graph on fake values."""

    def __init__(self, gm: fx.GraphModule) -> None:
        super().__init__(gm)
        self._autocasts: list[torch.autocast] = []
        self._current: fx.Node

    def finish(self, *arguments: Any) -> Any:
        """Run the graph, and leave autocast as it was.

        Raises:
            NotLowered: the graph itself does not.
        """
        try:
            returned = self.run(*arguments)
            if self._autocasts:
                raise NotLowered("it leaves autocast switched on")
            return returned
        finally:
            while self._autocasts:
                self._autocasts.pop().__exit__(None, None, None)

    @override
    def run_node(self, n: fx.Node) -> Any:
        self._current = n
        return super().run_node(n)

    @override
    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(target, HigherOrderOperator):
            return self._opaque(target, args, kwargs)
        if target is enter_autocast:  # under a tracing mode it would be recorded, and not done
            self._autocasts.append(torch.autocast(*args, **kwargs))
            return self._autocasts[-1].__enter__()  # type: ignore[no-untyped-call]
        if target is exit_autocast:
            if not self._autocasts or args[0] is not self._autocasts[-1]:
                raise NotLowered("autocast regions overlap")
            return self._autocasts.pop().__exit__(None, None, None)
        if "functorch" in (getattr(target, "__module__", None) or ""):
            raise NotLowered(f"it calls {_name_of(target)}")
        return super().call_function(target, args, kwargs)

    @override
    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise NotLowered(f"it calls the module {target}")

    @override
    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value = super().get_attr(target, args, kwargs)
        if not isinstance(value, fx.GraphModule):
            raise NotLowered(f"it holds {target}, a {type(value).__name__}")
        return value

    def _opaque(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Results of a higher-order operator, laid out as Dynamo says."""
        node = self._current
        example = _example_of(node)
        if any(is_traceable_wrapper_subclass(tensor) for tensor in _tensors(example)):
            raise NotLowered(f"{target} returns a tensor of another kind")
        given = _tensors([_example_of(used) for used in node.all_input_nodes])
        memory = {tensor.untyped_storage()._cdata for tensor in given}
        if any(tensor.untyped_storage()._cdata in memory for tensor in _tensors(example)):
            raise NotLowered(f"{target} returns a view of what it is given")
        return pytree.tree_map_only(torch.Tensor, _like, example)


class Tracer(Runner):
    """Does it under a tracing mode, so that everything is recorded."""

    @override
    def run_node(self, n: fx.Node) -> Any:
        recorded = _proxy_mode().tracer.graph
        before = len(recorded.nodes)
        result = super().run_node(n)
        if n.op in ("call_function", "call_method") and len(recorded.nodes) == before:
            leaves = pytree.tree_leaves(result)
            if not any(isinstance(leaf, (torch.Tensor, *NUMBERS)) for leaf in leaves):
                raise NotLowered(f"{_name_of(n.target)} would leave no trace")
        return result

    @override
    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        value = super().get_attr(target, args, kwargs)
        _proxy_mode().tracer.root.register_module(target, value)
        return value

    @override
    def _opaque(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tracer = _proxy_mode().tracer
        proxies = pytree.tree_map(tracer.unwrap_proxy, (args, kwargs))
        proxy = tracer.create_proxy("call_function", target, *proxies)
        with disable_proxy_modes_tracing():
            result = super()._opaque(target, args, kwargs)
        return track_tensor_tree(result, proxy, constant=None, tracer=tracer)


def _proxy_mode() -> Any:
    mode = get_proxy_mode()
    assert mode is not None  # it is traced
    return mode


def _example_of(node: fx.Node) -> Any:
    return node.meta.get("example_value")


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _like(example: torch.Tensor) -> torch.Tensor:
    """A tensor of that geometry and memory of its own, not a leaf where it has a gradient."""
    if example.layout != torch.strided:
        raise NotLowered("a higher-order operator returns a sparse tensor")
    made = torch.empty_strided(
        example.shape, example.stride(), dtype=example.dtype, device=example.device
    )
    if not example.requires_grad:
        return made
    with torch.enable_grad():
        one = torch.ones((), dtype=example.dtype, device=example.device, requires_grad=True)
        return made.copy_(one)


def _name_of(target: Any) -> str:
    module = getattr(target, "__module__", None)
    name = getattr(target, "__name__", None) or str(target)
    return f"{module}.{name}" if module else name
