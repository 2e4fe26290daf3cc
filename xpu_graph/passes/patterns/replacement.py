"""What takes the place of a match: the replacement's graph, for what stands at the inputs.

A model has the same structure many times over, with operands alike: the graph is traced once for
each kind of operands.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import fx

from xpu_graph import effects
from xpu_graph.errors import PassError
from xpu_graph.fx import is_static
from xpu_graph.passes.drafts import FAKE_ERRORS, Draft, DraftRefused
from xpu_graph.passes.drafts import Call as DraftCall
from xpu_graph.passes.memory import storages_in
from xpu_graph.passes.patterns.template import pure_graph, writes
from xpu_graph.torch_compat import (
    FakeTensor,
    FakeTensorMode,
    NeedsGuard,
    refused_guards,
    traced_on_fakes,
)
from xpu_graph.torch_compat.recording import NotRecorded, recorded

Call = Callable[..., Any]


class Replacements:
    """Traces the replacement of one pattern in one graph.

    Args:
        name: of the pattern, for messages.
        function: the replacement; None for a pattern that has none to trace.

    Attributes:
        pre_dispatch: whether composite operators stay whole, to be differentiated.
    """

    def __init__(self, name: str, function: Callable[..., Any] | None) -> None:
        self._name = name
        self._function = function
        self.pre_dispatch = False
        self._known: dict[Hashable, fx.Graph] = {}
        self._operands: dict[Hashable, tuple[Any, ...]] = {}

    def operands(
        self, call: Call, given: Sequence[Any], mode: FakeTensorMode | None
    ) -> tuple[Any, ...]:
        """What a replacement is called with, for conditions to look at.

        Args:
            call: calls the function that it is given, with operands it makes of what was found.
            given: nodes and literals that were found.
            mode: the mode of the nodes' fake values.

        Raises:
            DraftRefused: the operands cannot be made.
        """
        kind = _kind(given, call)
        if kind is not None and kind in self._operands:
            return self._operands[kind]
        values = fx.map_arg(list(given), lambda node: node.meta["val"])
        found: list[tuple[Any, ...]] = []

        def keep(*operands: Any) -> Any:
            found.append(operands)
            raise _Kept

        def run() -> None:
            call(keep, *values)

        with contextlib.suppress(_Kept):
            self._in(mode, run, values)
        (operands,) = found
        if kind is not None:
            self._operands[kind] = operands
        return operands

    def graph(
        self, given: Sequence[Any], call: Call | None, mode: FakeTensorMode | None
    ) -> fx.Graph:
        """The graph of a replacement, with a placeholder for each node that is given.

        Args:
            given: nodes and literals.
            call: see ``Match.call``.
            mode: the mode of the nodes' fake values.

        Raises:
            DraftRefused: it cannot take the place of what was found.
            PassError: the replacement failed.
        """
        # What a pre-dispatch graph is depends on what is switched on around it, such as autocast.
        kind = None if self.pre_dispatch else _kind(given, call)
        if kind is None:
            return self._trace(given, call, mode)
        if kind not in self._known:
            self._known[kind] = self._trace(given, call, mode)
        return self._known[kind]

    def _trace(
        self, given: Sequence[Any], call: Call | None, mode: FakeTensorMode | None
    ) -> fx.Graph:
        nodes: list[fx.Node] = []
        fx.map_arg(list(given), nodes.append)
        fakes = [node.meta["val"] for node in nodes]
        function = self._function
        assert function is not None

        def of_tensors(*tensors: torch.Tensor) -> Any:
            in_order = iter(tensors)
            arguments = fx.map_arg(list(given), lambda node: next(in_order))
            if call is not None:
                return call(function, *arguments)
            return function(*arguments)

        if self.pre_dispatch:
            assert mode is not None
            traced = self._checked(lambda: traced_on_fakes(of_tensors, fakes, mode), fakes)
            graph: fx.Graph = traced.graph
        else:
            graph = self._in(mode, lambda: _graph_of(of_tensors, fakes), fakes)
        graph.eliminate_dead_code()
        for node in graph.nodes:
            if node.op == "get_attr":
                raise DraftRefused("the replacement holds a tensor of its own")
            if writes(node):
                raise DraftRefused(f"the replacement calls {node.target}, which writes")
            if effects.is_random(node):
                raise DraftRefused(f"the replacement calls {node.target}, which draws")
        return graph

    def _in(
        self, mode: FakeTensorMode | None, run: Callable[[], Any], values: Sequence[Any]
    ) -> Any:
        assert mode is not None

        def in_mode() -> Any:
            with mode, refused_guards(mode), torch.no_grad():
                return run()

        return self._checked(in_mode, values)

    def _checked(self, run: Callable[[], Any], values: Sequence[Any]) -> Any:
        try:
            return run()
        except NeedsGuard as error:
            raise DraftRefused("it would need a guard on a size") from error
        except (*FAKE_ERRORS, AssertionError) as error:
            shapes = [tuple(value.shape) for value in values if isinstance(value, torch.Tensor)]
            raise PassError(
                f"the replacement of pattern {self._name!r} failed on what was found, "
                f"{shapes}: {type(error).__name__}: {error}"
            ) from error


def _graph_of(function: Callable[..., Any], fakes: Sequence[Any]) -> fx.Graph:
    """The graph of a function of fake values."""
    if all(isinstance(fake, torch.Tensor) and is_static(fake) for fake in fakes):
        with contextlib.suppress(NotRecorded):
            return recorded(function, fakes)
    return pure_graph(function, fakes).graph


def call_again(node: fx.Node, args: Any, kwargs: Any, draft: Draft) -> DraftCall:
    """Add a call of a replacement's graph to a draft.

    Args:
        node: the call in the graph; it remembers what the first one gave, where that is a tensor
            in memory of its own: others are alike.
        args: its arguments in the draft.
        kwargs: the same by name.
        draft: where it is added.
    """
    known = node.meta.get(_FIRST)
    if known is not None:
        return draft.again(node.target, args, kwargs, known)
    call = draft(node.target, *args, **kwargs)
    read: list[Any] = []
    draft.map(
        (args, kwargs),
        lambda one: read.append(one.meta["val"]),
        lambda one: read.append(one.value),
    )
    values = call.value if isinstance(call.value, tuple) else (call.value,)
    own = {storage for value in values for storage in storages_in(value)}
    if all(map(_is_plain, values)) and own.isdisjoint(storages_in(read)):
        node.meta[_FIRST] = call.value
    return call


def _is_plain(value: Any) -> bool:
    """Whether another value like this one can be made of its geometry alone."""
    return (
        type(value) is FakeTensor
        and value.layout == torch.strided
        and is_static(value)
        and value.storage_offset() == 0
    )


_FIRST = "xpu_graph_first_value"


class _Kept(Exception):
    """Ends a call whose operands are known."""


def _kind(given: Sequence[Any], call: Call | None) -> Hashable | None:
    """Equal for inputs that give equal graphs; None where that is not known."""
    places: dict[fx.Node, int] = {}
    try:
        return call, _described(given, places)
    except _Symbolic:
        return None


def _described(value: Any, places: dict[fx.Node, int]) -> Hashable:
    """Equal for values that lead to equal graphs.

    Args:
        value: a node, a literal, or a sequence of these.
        places: the nodes that were seen before, numbered; further ones are added.

    Raises:
        _Symbolic: what comes of a node is not known.
    """
    if isinstance(value, (list, tuple)):
        return tuple(_described(entry, places) for entry in value)
    if not isinstance(value, fx.Node):
        return f"{type(value).__name__} {value!r}"
    fake = value.meta["val"]
    if not isinstance(fake, torch.Tensor) or not is_static(fake) or fake.is_sparse:
        raise _Symbolic
    place = places.setdefault(value, len(places))
    return place, fake.shape, fake.stride(), fake.storage_offset(), fake.dtype, fake.device


class _Symbolic(Exception):
    """Something is symbolic, or no plain tensor."""
