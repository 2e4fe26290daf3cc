"""The shape of a pattern: what a function looks like once it is traced.

A function is traced on example inputs whose sizes are symbols, so that sizes that it takes from its
inputs are compared with those of the graph, and sizes that it writes down are literals. Numbers
among the inputs are captured: the function is traced twice, with different numbers, and what
differs is where a captured number stands.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from xpu_graph import effects
from xpu_graph.errors import ConfigError
from xpu_graph.fx import placeholders
from xpu_graph.passes.patterns.words import WORDS, either
from xpu_graph.stage import Stage, Unit
from xpu_graph.torch_compat import functionalized
from xpu_graph.torch_compat import pre_dispatch as make_fx_before_autograd

Simplify = Callable[[Unit], object]
"""Brings a traced graph into the form that graphs have when patterns are looked for."""


@dataclass(frozen=True)
class Captured:
    """Stands in a template where a number that is an input was used.

    Attributes:
        position: which input it is.
    """

    position: int


@dataclass
class Template:
    """A traced function.

    Attributes:
        inputs: for each input its placeholder; None for what is no tensor.
        captured: positions of the inputs that are numbers and stand somewhere.
        outputs: what it returns.
        is_sequence: whether it returns a sequence of these, and not one alone.
        calls: the calls, in order; sizes are computed by some of them.
        is_open: whether it is a declared form, whose inputs fit anything; see ``forms.py``.
    """

    inputs: list[fx.Node | None]
    captured: frozenset[int]
    outputs: list[fx.Node]
    is_sequence: bool
    calls: list[fx.Node] = field(default_factory=list)
    is_open: bool = False
    orders: dict[fx.Node, list[list[Any]]] = field(default_factory=dict)
    """For the matcher: the arguments of each call, in each order that will do."""

    @cached_property
    def sizes(self) -> frozenset[fx.Node]:
        """The calls that compute with sizes."""
        return frozenset(node for node in self.calls if is_size(node))

    @cached_property
    def operator_calls(self) -> list[fx.Node]:
        """The calls of operators."""
        return [n for n in self.calls if n not in self.sizes and n.target not in WORDS]

    @cached_property
    def root(self) -> Any:
        """The operator whose calls are candidates: that of the last output to be computed."""
        return max(self.outputs).target

    @cached_property
    def operands(self) -> list[Any]:
        """The operators whose results the root reads."""
        read = [node for node in max(self.outputs).all_input_nodes if not is_size(node)]
        return list(dict.fromkeys(node.target for node in read if node in self.required))

    @cached_property
    def numbers(self) -> list[tuple[Any, float]]:
        """Its operators with the numbers that they are called with, where these have no default."""
        return [
            (node.target, number)
            for node in self.required
            if isinstance(node.target, torch._ops.OpOverload)
            for number, argument in zip(
                arguments_of(node)[0], node.target._schema.arguments, strict=False
            )
            if is_number(number) and not argument.has_default_value()
        ]

    @cached_property
    def targets(self) -> list[Any]:
        """The operators that a graph with a match has."""
        return list(dict.fromkeys(node.target for node in self.required))

    @cached_property
    def required(self) -> dict[fx.Node, None]:
        """The calls of operators that stand in every match."""
        known: dict[fx.Node, dict[fx.Node, None]] = {}
        for node in self.calls:  # arguments come before what reads them
            below = [known[used] for used in node.all_input_nodes if used in known]
            if node.target is either:
                ways = [known.get(way, {}) for way in node.all_input_nodes]
                known[node] = {one: None for one in ways[0] if all(one in way for way in ways)}
            else:
                own = {} if is_size(node) or node.target in WORDS else {node: None}
                known[node] = {**own, **{one: None for part in below for one in part}}
        return {one: None for output in self.outputs for one in known[output]}


def is_number(value: object) -> bool:
    """Whether an input is captured: integers and floating-point numbers are, booleans are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def templates_of(
    function: Callable[..., Any],
    examples: Sequence[Any],
    simplify: Simplify | None,
    where: str,
    pre_dispatch: bool = False,
) -> list[Template]:
    """The forms that a function is looked for in: as it is traced, and simplified.

    Args:
        function: of the examples' number of arguments; it returns a tensor or some of them.
        examples: tensors; numbers, which are captured; anything else stands for itself.
        simplify: see ``Simplify``; None for the traced form alone.
        where: begins the messages.
        pre_dispatch: whether it is looked for before autograd, where composite operators are whole.

    Raises:
        ConfigError: the function cannot be traced, or is nothing that could be looked for.
    """
    plain = _template(function, examples, None, where, pre_dispatch)
    forms = [plain]
    if simplify is not None:
        try:
            forms.insert(0, _template(function, examples, simplify, where, pre_dispatch))
        except ConfigError:  # what is left when simplified is nothing to look for
            return forms
        if _text(forms[0]) == _text(plain):
            forms.pop()
    return forms


def _template(
    function: Callable[..., Any],
    examples: Sequence[Any],
    simplify: Simplify | None,
    where: str,
    pre_dispatch: bool = False,
) -> Template:
    first = traced(function, examples, simplify, where, pre_dispatch)
    numbers = {i: value for i, value in enumerate(examples) if is_number(value)}
    captured: frozenset[int] = frozenset()
    if numbers:
        captured = _capture(first, numbers, function, examples, simplify, where, pre_dispatch)
    return _checked(first, examples, captured, where)


def traced(
    function: Callable[..., Any],
    examples: Sequence[Any],
    simplify: Simplify | None,
    where: str,
    pre_dispatch: bool = False,
) -> fx.GraphModule:
    """The graph of a function; the numbers among its inputs are literals in it."""
    places = [i for i, value in enumerate(examples) if isinstance(value, torch.Tensor)]

    def of_tensors(*tensors: torch.Tensor) -> Any:
        given = list(examples)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        return function(*given)

    tensors = [examples[place].detach() for place in places]
    try:
        with torch.no_grad():
            trace = make_fx_before_autograd if pre_dispatch else pure_graph
            gm = trace(of_tensors, tensors, tracing_mode="symbolic")
    except Exception as error:  # it is the user's function: anything may come out of it
        raise ConfigError(
            f"{where} cannot be traced with the example inputs: {type(error).__name__}: {error}"
        ) from error
    gm.graph.eliminate_dead_code()
    if simplify is not None:
        fakes = [node.meta["val"] for node in placeholders(gm.graph)]
        simplify(Unit(Stage.inference, gm, fakes, name="pattern"))
    return gm


def pure_graph(
    function: Callable[..., Any], tensors: Sequence[torch.Tensor], **how: Any
) -> fx.GraphModule:
    """Trace a function of tensors; what it writes to memory of its own becomes plain calls.

    Args:
        function: the function.
        tensors: what it is called with.
        how: keyword arguments of ``make_fx``.
    """
    gm = make_fx(function, **how)(*tensors)
    if any(map(writes, gm.graph.nodes)):
        gm = make_fx(functionalized(function), **how)(*tensors)
    return gm


def writes(node: fx.Node) -> bool:
    """Whether a node calls an operator that writes to an argument."""
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _capture(
    gm: fx.GraphModule,
    numbers: dict[int, Any],
    function: Callable[..., Any],
    examples: Sequence[Any],
    simplify: Simplify | None,
    where: str,
    pre_dispatch: bool,
) -> frozenset[int]:
    """Put ``Captured`` where numbers among the inputs stand; returns which ones were found."""
    others = {
        i: value + 1 if isinstance(value, int) else value * 1.25 + 0.0625
        for i, value in numbers.items()
    }
    changed = [others.get(i, value) for i, value in enumerate(examples)]
    twin = traced(function, changed, simplify, where, pre_dispatch)
    found: set[int] = set()
    nodes, twins = list(gm.graph.nodes), list(twin.graph.nodes)
    same = {other: node for node, other in zip(nodes, twins, strict=False)}

    def compare(mine: Any, theirs: Any) -> Any:
        if isinstance(mine, fx.Node):
            if same.get(theirs) is not mine:
                raise ConfigError(_OTHER_GRAPH.format(where))
            return mine
        if isinstance(mine, (list, tuple)):
            return type(mine)(compare(m, t) for m, t in zip(mine, theirs, strict=True))
        if type(mine) is type(theirs) and (mine == theirs or mine is theirs):
            return mine
        for position, value in numbers.items():
            if type(mine) is type(value) and mine == value and theirs == others[position]:
                found.add(position)
                return Captured(position)
        raise ConfigError(
            f"{where}: a number among the inputs is not used as it is ({mine!r} was computed from "
            "one); compute it in the replacement, and take the result as an input of the pattern"
        )

    if len(nodes) != len(twins):
        raise ConfigError(_OTHER_GRAPH.format(where))
    for node, other in zip(nodes, twins, strict=True):
        if (node.op, node.target) != (other.op, other.target) and node.op != "placeholder":
            raise ConfigError(_OTHER_GRAPH.format(where))
        args = compare(node.args, other.args)
        kwargs = {name: compare(node.kwargs[name], other.kwargs[name]) for name in node.kwargs}
        # A graph takes nothing but its own kinds of arguments; the template is not run.
        node.meta["args"], node.meta["kwargs"] = args, kwargs
    return frozenset(found)


_OTHER_GRAPH = (
    "{}: another number among the inputs gives another graph; write such a number into the function"
)


def arguments_of(node: fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a call of a template, with ``Captured`` among them."""
    return node.meta.get("args", node.args), node.meta.get("kwargs", node.kwargs)


def _checked(
    gm: fx.GraphModule, examples: Sequence[Any], captured: frozenset[int], where: str
) -> Template:
    """A template, if there is anything that could be found, and that may be replaced."""
    tensors = iter(placeholders(gm.graph))
    inputs = [next(tensors) if isinstance(v, torch.Tensor) else None for v in examples]
    (output,) = gm.graph.find_nodes(op="output")
    returned = output.args[0]
    is_sequence = isinstance(returned, (list, tuple))
    outputs: list[Any] = pytree.tree_leaves(returned)
    calls = [node for node in gm.graph.nodes if node.op not in ("placeholder", "output")]
    for node in calls:
        if node.op == "get_attr":
            raise ConfigError(f"{where} holds a tensor of its own; make it an input")
        known = isinstance(node.target, torch._ops.OpOverload)
        if not known and not effects.is_size_arithmetic(node):
            raise ConfigError(f"{where} calls {node.target}, which cannot be looked for")
        if known and not effects.is_deterministic(node):
            raise ConfigError(
                f"{where} calls {node.target}, which draws random numbers, writes or has another "
                "effect; such calls are not replaced"
            )
    computed = [node for node in outputs if isinstance(node, fx.Node) and node in set(calls)]
    if not computed or len(computed) != len(outputs):
        raise ConfigError(f"{where} returns something that it does not compute")
    if len(set(outputs)) != len(outputs):
        raise ConfigError(f"{where} returns one tensor twice")
    if any(isinstance(node.meta["val"], (torch.SymInt, int)) for node in outputs):
        raise ConfigError(f"{where} returns a size")
    used = {node for call in calls for node in call.all_input_nodes}
    idle = [i for i, node in enumerate(inputs) if node is not None and node not in used]
    idle += [i for i, v in enumerate(examples) if is_number(v) and i not in captured]
    if idle:
        raise ConfigError(
            f"{where} does not use its input {idle[0]}, so nothing could be found for it"
        )
    return Template(inputs, captured, outputs, is_sequence, calls)


def is_size(node: fx.Node) -> bool:
    """Whether a node of a template computes with sizes."""
    value = node.meta.get("val")
    return isinstance(value, (int, torch.SymInt)) or (
        effects.is_size_arithmetic(node) and node.target is not operator.getitem
    )


def _text(template: Template) -> str:
    return str(template.calls[0].graph) if template.calls else ""
