"""Structures: what the compiler finds in programs, and who implements it.

A structure, such as RMSNorm, says what it computes (``reference``) and the forms it is written in.
An implementation is a function of its operands for one target. Where a target has one, what was
found is replaced by it; where it has none, the graph stays as it was, and nothing is looked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.config import OptLevel, XpuGraphConfig
from xpu_graph.fx import aten
from xpu_graph.passes.patterns.forms import form
from xpu_graph.passes.patterns.match import Matcher
from xpu_graph.passes.patterns.pattern import Condition
from xpu_graph.passes.patterns.shape import Match, Shape
from xpu_graph.passes.patterns.template import Template
from xpu_graph.target import Target

BUILT_IN_PRIORITY = -100
"""Of the implementations that the package brings: what users register comes first."""


@dataclass(frozen=True, eq=False)
class Form:
    """One way in which a structure is written.

    Attributes:
        traced: a declared form. Those of its parameters that have the name of an operand are it;
            operands that it lacks are None.
        why_not: given what stands at all its parameters, fake tensors and literals: why it is not
            the structure, or None.
        call: where operands have to be made of what was found: called with an implementation and
            with what stands at each parameter, returns what it gives for them.
        is_fused: whether it is one operator of torch that computes the structure.
    """

    traced: Callable[..., Any]
    why_not: Condition | None = None
    call: Callable[..., Any] | None = None
    is_fused: bool = False

    @cached_property
    def template(self) -> Template:
        """The traced form."""
        return form(self.traced)


@dataclass(frozen=True, eq=False)
class Structure:
    """A structure.

    Attributes:
        name: what it is registered for by.
        reference: what it computes, in plain torch; its parameters are the operands, None where
            it may lack one.
        forms: what it is looked for in, special before general.
        coded: shapes that cannot be traced, made anew for each graph.
        conditions: what the operands must fulfil, whoever implements it.
        examples: gives operands to try an implementation on.
        benefit: of two structures of which one holds the other, the larger one has more.
    """

    name: str
    reference: Callable[..., Any]
    examples: Callable[[], Sequence[Any]]
    forms: tuple[Form, ...] = ()
    coded: tuple[Callable[[], Shape], ...] = ()
    conditions: tuple[Condition, ...] = ()
    benefit: int = 0

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """The names of the operands."""
        return tuple(inspect.signature(self.reference).parameters)

    def shapes(self) -> list[Shape]:
        """What to look for in one graph."""
        traced = [_FormMatcher(one, self.operands) for one in self.forms]
        return [*(make() for make in self.coded), *traced]

    def unfused_shapes(self) -> list[Shape]:
        """The same without torch's own operators, for what is made of these."""
        return [shape for shape in self.shapes() if not shape.is_fused]


@dataclass(frozen=True, eq=False)
class Implementation:
    """What computes a structure on a target.

    Attributes:
        structure: the name of the structure.
        target: the target.
        function: of the structure's operands; it may return a result in any layout.
        check: given fake operands, says whether they fit: True or None where they do; False, or
            the reason, where they do not.
        priority: of two that fit, the one with more is taken.
        level: the lowest level it is used at.
        takes_fused: whether torch's own operator for the structure is replaced, too.
        label: tells it from others of the same structure.
        wanted: whether a configuration wants it; where it does not pay, it says no.
    """

    structure: str
    target: Target
    function: Callable[..., Any]
    check: Callable[..., Any] | None = None
    priority: int = 0
    level: OptLevel = OptLevel.level2
    takes_fused: bool = True
    label: str = ""
    wanted: Callable[[XpuGraphConfig], bool] = field(default=lambda config: True)

    @property
    def name(self) -> str:
        """Its handle in reports, dumps and ``skip_patterns``."""
        return f"{self.structure}-{self.label}"


class _FormMatcher(Matcher):
    """Gives what was found as operands of the structure."""

    def __init__(self, one: Form, operands: Sequence[str]) -> None:
        super().__init__(one.template)
        self._form = one
        self.is_fused = one.is_fused
        names = list(inspect.signature(one.traced).parameters)
        self._given = None
        if one.call is None and names != list(operands):
            self._given = [names.index(name) if name in names else None for name in operands]

    @override
    def result(self, known: Any) -> Match:
        match = super().result(known)
        match.refusal = match.refusal or _why_not_sums(match.inner)
        if match.refusal is None and self._form.why_not is not None:
            values = fx.map_arg(match.inputs, lambda node: node.meta["val"])
            match.refusal = self._form.why_not(*values)
        if self._given is not None:
            match.inputs = [None if i is None else match.inputs[i] for i in self._given]
        match.call = self._form.call
        return match


def _why_not_sums(calls: Sequence[fx.Node]) -> str | None:
    """Why means matter that are no intermediate results for an implementation."""
    if any(node.target in _MEANS and node.meta["val"].dtype == torch.float16 for node in calls):
        return "a mean is computed in float16, where squares overflow"
    return None


_MEANS = frozenset({aten.mean.dim, aten.var.correction})
