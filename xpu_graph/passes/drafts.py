"""Calls that a pass would like to add: made on fake values, before anything is touched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from xpu_graph import fx as graph_facts
from xpu_graph.fakes import call_fake
from xpu_graph.torch_compat import FakeTensor, FakeTensorMode, NeedsGuard, fake_like

FAKE_ERRORS = (RuntimeError, ValueError, TypeError, IndexError)
"""What operators raise on arguments they do not take."""


@dataclass(frozen=True, eq=False)
class Call:
    """A call that is not in the graph yet.

    Attributes:
        target: the operator.
        args: its arguments; nodes of the graph and other calls among them.
        kwargs: the same by name.
        value: what it gives on fake values.
    """

    target: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    value: Any


@dataclass
class Draft:
    """Collects calls. Calling it with an operator and its arguments adds one.

    Attributes:
        fake_mode: the mode the values belong to.
        calls: what was collected, in order.
        read: the nodes of the graph that the calls read.
    """

    fake_mode: FakeTensorMode | None
    calls: list[Call] = field(default_factory=list)
    read: list[fx.Node] = field(default_factory=list)

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> Call:
        """Add a call.

        Args:
            target: an operator.
            args: nodes, calls of this draft, literals, and lists of them.
            kwargs: the same by name.

        Raises:
            DraftRefused: the operator does not take these arguments, or it would have to ask about
                a size that is not known.
        """
        self.map((args, kwargs), self._reads, lambda call: call)
        try:
            value = call_fake(
                target,
                self.map(args, lambda node: node.meta["val"], lambda call: call.value),
                self.map(kwargs, lambda node: node.meta["val"], lambda call: call.value),
                self.fake_mode,
                ask=False,
            )
        except NeedsGuard as error:
            raise DraftRefused("it would need a guard on a size") from error
        except FAKE_ERRORS as error:
            name = type(error).__name__
            raise DraftRefused(f"{target} does not take these arguments ({name})") from error
        call = Call(target, args, kwargs, value)
        self.calls.append(call)
        return call

    def again(self, target: Any, args: Any, kwargs: Any, known: Any) -> Call:
        """Add a call like one that was made before, on operands alike.

        Args:
            target: an operator.
            args: its arguments.
            kwargs: the same by name.
            known: what the other call gave: a tensor of static sizes in memory of its own, or a
                sequence of such tensors.
        """
        assert self.fake_mode is not None
        self.map((args, kwargs), self._reads, lambda call: call)
        if isinstance(known, FakeTensor):
            value: Any = fake_like(known, self.fake_mode)
        else:
            value = tuple(fake_like(entry, self.fake_mode) for entry in known)
        call = Call(target, args, kwargs, value)
        self.calls.append(call)
        return call

    def _reads(self, node: fx.Node) -> fx.Node:
        if graph_facts.is_unbacked(node):
            raise DraftRefused("a size is known at run time only")
        self.read.append(node)
        return node

    @classmethod
    def map(
        cls, value: Any, of_node: Callable[[fx.Node], Any], of_call: Callable[[Call], Any]
    ) -> Any:
        """Arguments with something in place of each node and each call."""
        if isinstance(value, fx.Node):
            return of_node(value)
        if isinstance(value, Call):
            return of_call(value)
        if isinstance(value, (list, tuple)):
            return type(value)(cls.map(entry, of_node, of_call) for entry in value)
        if isinstance(value, dict):
            return {key: cls.map(entry, of_node, of_call) for key, entry in value.items()}
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise DraftRefused("sizes are symbolic")  # a graph holds them as nodes only
        return value


class DraftRefused(Exception):
    """A call of a draft cannot be made; the message is the reason. It never leaves the rewriter."""
