"""``GraphRunner``: capture and replay of any function, with copies the caller decides about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import torch
from torch.utils import _pytree as pytree

from xpu_graph.backends.device_graph.device import CapturedGraph, graph_device, record
from xpu_graph.backends.device_graph.place import Place
from xpu_graph.errors import BackendError
from xpu_graph.target import Target


class GraphRunner:
    """Captures a function once and replays it; ``GraphRunner[Target.npu]`` is for one target.

    The captured function is not called again. It reads the tensors that ``capture`` was given, so
    ``copy_param_callback`` has to bring the arguments of each call there. Results are new tensor
    objects at each call, in memory that the next replay writes again.

    Args:
        callable_target: what to capture.
        init_param_callback: takes the arguments of ``capture`` (their copies with ``clone_args``),
            returns the tensors that later calls are copied into, in whatever form
            ``copy_param_callback`` takes. It must return these tensors, not new ones.
        copy_param_callback: takes that, then the arguments of a call; copies them. False says
            that it could not.

    Attributes:
        target: which target it is for; set by ``GraphRunner[target]``.

    Raises:
        BackendError: the class is for no target, or the target has no device graphs.
        BackendUnavailable: what captures them is not installed here.
    """

    target: ClassVar[Target | None] = None
    _for_target: ClassVar[dict[str, type[GraphRunner]]] = {}

    def __class_getitem__(cls, target: Target | str) -> type[GraphRunner]:
        """The class for a target.

        Raises:
            ConfigError: there is no such target.
            BackendError: the target has no device graphs, or what captures them is not here.
        """
        target = Target(target)
        graph_device(target.value)
        if target.value not in cls._for_target:
            name = f"{cls.__name__}[{target.value}]"
            cls._for_target[target.value] = type(name, (cls,), {"target": target})
        return cls._for_target[target.value]

    def __init__(
        self,
        callable_target: Callable[..., Any],
        init_param_callback: Callable[..., Any] | None = None,
        copy_param_callback: Callable[..., Any] | None = None,
    ) -> None:
        if self.target is None:
            raise BackendError("GraphRunner is for no target; write GraphRunner[Target.npu](...)")
        self._device = graph_device(self.target.value)
        self._callable_target = callable_target
        self._init_param_callback = init_param_callback
        self._copy_param_callback = copy_param_callback
        self._forget()

    def _forget(self) -> None:
        self._graph: CapturedGraph | None = None
        self._place: Place | None = None
        self._buffers: Any = None
        self._arguments: Any = None
        self._output: Any = None

    @property
    def mempool(self) -> Any:
        """Handle of the memory pool of the capture; None before it."""
        return self._place.pool if self._place is not None else None

    def capture(
        self, *args: Any, memory_pool: Any = None, clone_args: bool = False, **kwargs: Any
    ) -> None:
        """Capture the function for these arguments. It computes nothing; ``forward`` does.

        Args:
            args: for the function.
            memory_pool: a pool that graphs share; by default one of its own.
            clone_args: capture copies of the tensors, so that replays leave these alone.
            kwargs: for the function.

        Raises:
            BackendError: it has been captured, a capture is under way, or capturing failed; the
                runner is then as new.
        """
        if self._graph is not None:
            raise BackendError("this runner holds a capture; reset() drops it, clone() has none")
        if self._device.is_capturing():
            raise BackendError("a capture cannot be made inside another one")
        if clone_args:
            args, kwargs = pytree.tree_map_only(
                torch.Tensor, lambda tensor: tensor.detach().clone(), (args, kwargs)
            )
        place = Place(self._device, None, memory_pool)
        buffers = self._init_param_callback(*args, **kwargs) if self._init_param_callback else []
        try:
            self._graph, self._output = record(
                self._device,
                None,
                place.pool,
                place.stream,
                "global",
                lambda: self._callable_target(*args, **kwargs),
            )
        except Exception as error:  # the function or the device may raise anything; it is named
            name = getattr(self._callable_target, "__qualname__", repr(self._callable_target))
            raise BackendError(
                f"capturing {name} failed: {type(error).__name__}: {error}"
            ) from error
        self._place, self._buffers, self._arguments = place, buffers, (args, kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Copy the arguments in, replay, and return the results.

        Raises:
            BackendError: nothing is captured, or the arguments could not be copied.
        """
        if self._graph is None:
            raise BackendError("nothing is captured; call capture() first")
        if self._copy_param_callback is not None:
            copied = self._copy_param_callback(self._buffers, *args, **kwargs)
            if copied is False:
                raise BackendError("copy_param_callback could not copy the arguments")
        self._graph.replay()
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, self._output)

    __call__ = forward

    def clone(self) -> Self:
        """A runner of the same function with nothing captured."""
        return type(self)(
            self._callable_target, self._init_param_callback, self._copy_param_callback
        )

    def reset(self) -> Self:
        """Drop the capture and its memory; the runner is as new."""
        if self._graph is not None:
            self._device.synchronize(None)
            self._graph.reset()
        self._forget()
        return self
