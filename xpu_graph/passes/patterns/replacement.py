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

from xpu_graph.errors import PassError
from xpu_graph.fx import is_static
from xpu_graph.passes.drafts import FAKE_ERRORS, DraftRefused
from xpu_graph.passes.patterns.template import pure_graph, writes
from xpu_graph.torch_compat import FakeTensorMode, NeedsGuard, refused_guards, traced_on_fakes

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

    def operands(
        self, call: Call, values: Sequence[Any], mode: FakeTensorMode | None
    ) -> tuple[Any, ...]:
        """What a replacement is called with, for conditions to look at.

        Args:
            call: calls the function that it is given, with operands it makes of what was found.
            values: fake values and literals of what was found.
            mode: the mode of the fake values.

        Raises:
            DraftRefused: the operands cannot be made.
        """
        found: list[tuple[Any, ...]] = []

        def keep(*operands: Any) -> Any:
            found.append(operands)
            raise _Kept

        def run() -> None:
            call(keep, *values)

        with contextlib.suppress(_Kept):
            self._in(mode, run, values)
        (operands,) = found
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
            gm = self._checked(lambda: traced_on_fakes(of_tensors, fakes, mode), fakes)
        else:
            gm = self._in(mode, lambda: pure_graph(of_tensors, fakes), fakes)
        gm.graph.eliminate_dead_code()
        for node in gm.graph.nodes:
            if node.op == "get_attr":
                raise DraftRefused("the replacement holds a tensor of its own")
            if writes(node):
                raise DraftRefused(f"the replacement calls {node.target}, which writes")
        return gm.graph  # type: ignore[no-any-return]

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
        except FAKE_ERRORS as error:
            shapes = [tuple(value.shape) for value in values if isinstance(value, torch.Tensor)]
            raise PassError(
                f"the replacement of pattern {self._name!r} failed on what was found, "
                f"{shapes}: {type(error).__name__}: {error}"
            ) from error


class _Kept(Exception):
    """Ends a call whose operands are known."""


def _kind(given: Sequence[Any], call: Call | None) -> Hashable | None:
    """Equal for inputs that give equal graphs; None where that is not known."""
    kinds: list[Hashable] = [call]
    for value in given:
        if not isinstance(value, fx.Node):
            nested: list[fx.Node] = []
            fx.map_arg(value, nested.append)
            if nested:
                return None
            kinds.append(f"{type(value).__name__} {value!r}")
            continue
        fake = value.meta["val"]
        if not isinstance(fake, torch.Tensor) or not is_static(fake) or fake.is_sparse:
            return None
        kinds.append((fake.shape, fake.stride(), fake.storage_offset(), fake.dtype, fake.device))
    same = [given.index(value) for value in given]
    return (*kinds, *same)
