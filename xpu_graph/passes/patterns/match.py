"""Finding a template in a graph: from a candidate for its root, backwards along the arguments."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten, same_size
from xpu_graph.passes.patterns import anchor
from xpu_graph.passes.patterns.passing import is_passed
from xpu_graph.passes.patterns.shape import Match, Shape
from xpu_graph.passes.patterns.template import (
    Captured,
    Template,
    arguments_of,
    is_size,
    traced,
)
from xpu_graph.passes.patterns.words import ANY, WORDS, casted, either
from xpu_graph.passes.rewriter import Rewriter

COMMUTATIVE = frozenset(
    {
        aten.add.Tensor,
        aten.bitwise_and.Tensor,
        aten.bitwise_or.Tensor,
        aten.bitwise_xor.Tensor,
        aten.eq.Tensor,
        aten.logical_and.default,
        aten.logical_or.default,
        aten.logical_xor.default,
        aten.maximum.default,
        aten.minimum.default,
        aten.mul.Tensor,
        aten.ne.Tensor,
    }
)
"""Operators of two tensors that may be found in either order; ``add`` where alpha is 1."""


@dataclass
class _Binding:
    """What is known so far of one attempt."""

    nodes: dict[fx.Node, Any] = field(default_factory=dict)
    numbers: dict[int, Any] = field(default_factory=dict)
    sizes: tuple[tuple[Any, Any], ...] = ()
    passed: tuple[fx.Node, ...] = ()
    """Casts and reshapes that were seen through."""
    words: dict[fx.Node, Any] = field(default_factory=dict)
    """What stands for outputs that are words."""

    def with_node(self, mine: fx.Node, theirs: Any) -> _Binding:
        nodes = {**self.nodes, mine: theirs}
        return _Binding(nodes, self.numbers, self.sizes, self.passed, self.words)


class Matcher(Shape):
    """Looks for one template.

    Args:
        template: what to look for.
        ignore_literals: whether any number fits where the template has one.
    """

    def __init__(self, template: Template, *, ignore_literals: bool = False) -> None:
        self.template = template
        self._any_number = ignore_literals
        self._sizes = template.sizes
        self._orders = orders_of(template)
        self._calls = template.operator_calls
        self._inputs = {node: i for i, node in enumerate(template.inputs) if node is not None}
        # the last output is the root; the others hang on what it has in common with them
        self._roots = sorted(template.outputs, reverse=True)

    @override
    def candidates(self, rewriter: Rewriter) -> Iterable[fx.Node]:
        template = self.template
        if not rewriter.has_calls(template.targets, () if self._any_number else template.numbers):
            return ()
        if template.is_open:
            return anchor.candidates(template, rewriter)
        return rewriter.calls_reading(template.root, template.operands)

    @override
    def find(self, candidate: fx.Node) -> Iterator[Match]:
        self.nearest = (0, "")
        for binding in self._match(self._roots[0], candidate, _Binding()):
            for whole in self._others(self._roots[1:], binding):
                if self._sizes_agree(whole):
                    yield self.result(whole)

    # --- structure ----------------------------------------------------------------------------

    def _match(self, mine: fx.Node, theirs: Any, known: _Binding) -> Iterator[_Binding]:
        if mine in known.nodes:
            if _same(known.nodes[mine], theirs):
                yield known
            return
        if mine.target in WORDS:
            yield from self._match_word(mine, theirs, known)
            return
        if mine in self._inputs:
            if self.template.is_open or _is_tensor(theirs):
                yield known.with_node(mine, theirs)
            return
        if not isinstance(theirs, fx.Node):
            return
        if theirs.op != "call_function" or theirs.target is not mine.target:
            self._note(known, mine, theirs)
            return
        if theirs in known.nodes.values():
            return  # two calls of a template are two nodes
        right = _named(theirs, theirs.args, theirs.kwargs)
        bound_here = known.with_node(mine, theirs)
        found = False
        for order in self._orders[mine]:
            for binding in self._match_all(order, right, bound_here):
                found = True
                yield binding
        if not found:
            self._note(bound_here, mine, theirs)

    def _match_word(self, mine: fx.Node, theirs: Any, known: _Binding) -> Iterator[_Binding]:
        if mine in self._roots and mine not in known.words:
            known = replace(known, words={**known.words, mine: theirs})
        if mine.target is either:
            for way in mine.args:
                yield from self._match_value(way, theirs, known)
            return
        if isinstance(theirs, fx.Node) and is_passed(mine.target, theirs):
            beyond = replace(known, passed=(*known.passed, theirs))
            yield from self._match_word(mine, theirs.args[0], beyond)
            if mine.target is casted:
                yield from self._match_value(mine.args[0], theirs.args[0], beyond)
        if mine.target is not casted:
            yield from self._match_value(mine.args[0], theirs, known)

    def _match_all(
        self, mine: Sequence[Any], theirs: Sequence[Any], known: _Binding
    ) -> Iterator[_Binding]:
        if len(mine) != len(theirs):
            return
        if not mine:
            yield known
            return
        for binding in self._match_value(mine[0], theirs[0], known):
            yield from self._match_all(mine[1:], theirs[1:], binding)

    def _match_value(self, mine: Any, theirs: Any, known: _Binding) -> Iterator[_Binding]:
        if mine is ANY:
            yield known
        elif isinstance(mine, fx.Node):
            if mine in self._sizes:
                yield replace(known, sizes=(*known.sizes, (mine, theirs)))
            else:
                yield from self._match(mine, theirs, known)
        elif isinstance(mine, Captured):
            yield from self._capture(mine.position, theirs, known)
        elif isinstance(mine, (list, tuple)):
            if isinstance(theirs, (list, tuple)):
                yield from self._match_all(mine, theirs, known)
        elif _is_number(mine) and _is_number(theirs):
            if self._any_number or _same_number(mine, theirs):
                yield known
        elif type(mine) is type(theirs) and mine == theirs:
            yield known

    def _capture(self, position: int, theirs: Any, known: _Binding) -> Iterator[_Binding]:
        if not _is_number(theirs):
            return
        before = known.numbers.get(position)
        if before is None:
            yield replace(known, numbers={**known.numbers, position: theirs})
        elif type(before) is type(theirs) and _same_number(before, theirs):
            yield known

    def _others(self, roots: Sequence[fx.Node], known: _Binding) -> Iterator[_Binding]:
        """Match outputs that the root does not depend on, from what they share with it."""
        if not roots:
            yield known
            return
        root, *rest = roots
        if root in known.nodes or root in known.words:
            yield from self._others(rest, known)
            return
        for candidate in self._candidates(root, known):
            for binding in self._match(root, candidate, known):
                yield from self._others(rest, binding)

    def _candidates(self, root: fx.Node, known: _Binding) -> list[fx.Node]:
        """Nodes that may be an output: they are behind what is known of its arguments."""
        path = [root]
        while path[-1] not in known.nodes:
            inputs = [n for n in path[-1].all_input_nodes if not is_size(n)]
            if not inputs:
                return []
            path.append(next((n for n in inputs if n in known.nodes), inputs[0]))
        reached = [known.nodes[path.pop()]]
        while path:
            target = path.pop().target
            readers = dict.fromkeys(user for node in reached for user in node.users)
            reached = [user for user in readers if user.target is target]
        return reached

    # --- sizes --------------------------------------------------------------------------------

    def _sizes_agree(self, known: _Binding) -> bool:
        return all(
            same_size(
                _value_of(mine, known.nodes),
                theirs.meta.get("val") if isinstance(theirs, fx.Node) else theirs,
            )
            for mine, theirs in known.sizes
        )

    # --- telling ------------------------------------------------------------------------------

    def _note(self, known: _Binding, mine: fx.Node, theirs: fx.Node) -> None:
        """Remember the attempt that got furthest."""
        if len(known.nodes) <= self.nearest[0]:
            return
        bound = sum(node in known.nodes for node in self._calls)
        if bound > self.nearest[0]:
            found = theirs.target if theirs.op == "call_function" else f"an input ({theirs.op})"
            wanted = f"{found} stands where {mine.target} should"
            if theirs.target is mine.target:
                wanted = f"{found} has other arguments"
            self.nearest = (bound, wanted)

    def result(self, known: _Binding) -> Match:
        """The match that a binding is."""
        inputs = [
            known.nodes.get(node) if node is not None else known.numbers.get(position)
            for position, node in enumerate(self.template.inputs)
        ]
        outputs = [{**known.nodes, **known.words}[node] for node in self.template.outputs]
        calls = [known.nodes[node] for node in self._calls if node in known.nodes]
        inner = dict.fromkeys(node for node in (*calls, *known.passed) if node not in outputs)
        refusal = _why_not_cast(known.passed, inputs) if self.template.is_open else None
        return Match(inputs, outputs, list(inner), refusal)


def _why_not_cast(passed: Sequence[fx.Node], inputs: Sequence[Any]) -> str | None:
    """Why casts that were seen through matter: to a range that none of the inputs has."""
    given = {node.meta["val"].dtype for node in inputs if _is_tensor(node)}
    for node in passed:
        dtype = node.meta["val"].dtype
        is_cast = dtype != node.all_input_nodes[0].meta["val"].dtype
        if is_cast and dtype in _OTHER_RANGES and dtype not in given:
            return f"it is computed in {dtype}, and no operand is"
    return None


_OTHER_RANGES = frozenset({torch.float16, torch.float64})
"""What overflows in other places than float32 does."""


def contains(
    template: Template,
    function: Callable[..., Any],
    examples: Sequence[Any],
    where: str,
    pre_dispatch: bool = False,
) -> bool:
    """Whether a template is found in what a function computes on example inputs."""
    matcher = Matcher(template)
    graph = traced(function, examples, None, where, pre_dispatch).graph
    return any(any(True for _ in matcher.find(node)) for node in graph.nodes)


def _named(node: fx.Node, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments in the order of the schema, defaults filled in."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return list(args)
    rest = _parameters(target)[len(args) :]
    return [*args, *(kwargs.get(name, default) for name, default in rest)]


_known_parameters: dict[int, tuple[torch._ops.OpOverload, list[tuple[str, Any]]]] = {}
"""By ``id``, as torch hashes operators slowly; an entry holds its operator, so the id stays its."""


def _parameters(target: torch._ops.OpOverload) -> list[tuple[str, Any]]:
    """Names and defaults of an operator's parameters."""
    if id(target) not in _known_parameters:
        given = target._schema.arguments
        _known_parameters[id(target)] = target, [(one.name, one.default_value) for one in given]
    return _known_parameters[id(target)][1]


def orders_of(template: Template) -> dict[fx.Node, list[list[Any]]]:
    """The arguments of each call of a template, in the orders in which they may be found."""
    if not template.orders:
        for node in template.operator_calls:
            args, kwargs = arguments_of(node)
            template.orders[node] = list(_orders(node, _named(node, args, kwargs)))
    return template.orders


def _orders(node: fx.Node, args: list[Any]) -> Iterator[list[Any]]:
    yield args
    if node.target not in COMMUTATIVE or not isinstance(args[1], fx.Node):
        return
    if node.target is not aten.add.Tensor or args[2] == 1:
        yield [args[1], args[0], *args[2:]]


def _is_tensor(found: Any) -> bool:
    return isinstance(found, fx.Node) and isinstance(found.meta.get("val"), torch.Tensor)


def _same(left: Any, right: Any) -> bool:
    """Whether what stands at two places is one thing."""
    if isinstance(left, fx.Node) or isinstance(right, fx.Node):
        return left is right
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_same, left, right))
    if _is_number(left) and _is_number(right):
        return _same_number(left, right)
    return type(left) is type(right) and bool(left == right)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same_number(left: float, right: float) -> bool:
    return left == right and math.copysign(1, left) == math.copysign(1, right)


def _value_of(mine: Any, nodes: dict[fx.Node, fx.Node]) -> Any:
    """A size that a template computes, in terms of what was found."""
    if not isinstance(mine, fx.Node):
        return mine
    if mine in nodes:
        return nodes[mine].meta["val"]
    args = [_value_of(argument, nodes) for argument in mine.args]
    if mine.target is aten.sym_size.int:
        return args[0].shape[args[1]] if args[1] < args[0].dim() else None
    if None in args:
        return None
    return _ARITHMETIC[mine.target](*args) if mine.target in _ARITHMETIC else None


_ARITHMETIC: dict[Any, Any] = {
    operator.add: operator.add,
    operator.sub: operator.sub,
    operator.mul: operator.mul,
    operator.floordiv: operator.floordiv,
    operator.mod: operator.mod,
    operator.neg: operator.neg,
}
"""Arithmetic with sizes that is followed; it adds no guard."""
