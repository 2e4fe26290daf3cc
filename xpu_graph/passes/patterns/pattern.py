"""A declared pattern, and the pass that applies one.

A pattern is a shape, conditions and a replacement. It never touches the graph:
``PatternPass`` finds it, asks the conditions, and lets the rewriter make the change, which checks
what it checks for every pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.config import OptLevel, XpuGraphConfig
from xpu_graph.errors import NotCacheable
from xpu_graph.passes.base import Pass, Phase
from xpu_graph.passes.drafts import Call, Draft, DraftRefused
from xpu_graph.passes.patterns.conversion import in_dtype, in_layout
from xpu_graph.passes.patterns.replacement import Replacements, call_again
from xpu_graph.passes.patterns.shape import Match, Shape, why_not_whole
from xpu_graph.passes.rewriter import Rewriter
from xpu_graph.stage import Stage, Unit
from xpu_graph.target import Target

Condition = Callable[..., str | None]
"""Given what stands at each input, fake tensors and literals: why it does not fit, or None."""


@dataclass(eq=False)
class Pattern:
    """What to look for, when it fits, and what takes its place.

    Attributes:
        name: its handle in reports, dumps and ``skip_patterns``.
        shapes: makes what it is looked for in, special before general, for one graph.
        identity: one text for equal patterns, the same in every process; None where there is none.
        replacement: a function of the pattern's inputs, with its outputs; None where the shapes
            say what is built.
        conditions: all of them must fit.
        target: the only target it is for; None for all.
        level: the lowest level it is used at.
        stages: the stages it is looked for in.
        benefit: patterns of more benefit come first.
        priority: the same among patterns of one benefit.
        literals: values of the inputs that are neither tensors nor captured, by position.
        converts: whether results in other strides are taken, which what reads them then follows,
            and results in a wider dtype, which are cast.
        wanted: whether a configuration wants it at all.
    """

    name: str
    shapes: Callable[[], Sequence[Shape]]
    identity: str | None
    replacement: Callable[..., Any] | None = None
    conditions: list[Condition] = field(default_factory=list)
    target: Target | None = None
    level: OptLevel = OptLevel.level1
    stages: frozenset[Stage] = frozenset({Stage.inference})
    benefit: int = 0
    priority: int = 0
    literals: dict[int, Any] = field(default_factory=dict)
    converts: bool = False
    wanted: Callable[[XpuGraphConfig], bool] = lambda config: True


class PatternPass(Pass):
    """Looks for one pattern; a subclass a pattern, see ``pass_of``.

    Left alone, each with its reason: a match with a value inside that something else reads or
    writes to; one that a condition refuses; one whose replacement gives another dtype, shape,
    stride or aliasing, or would need a guard on a size.
    """

    name = "pattern"
    phase = Phase.match
    pattern: ClassVar[Pattern]

    def __init__(self, config: XpuGraphConfig) -> None:
        super().__init__(config)
        self._shapes = self.pattern.shapes()
        self._traced = Replacements(self.pattern.name, self.pattern.replacement)
        self._seen_until = -1
        self._told: set[tuple[str, str]] = set()

    @override
    @classmethod
    def enabled(cls, config: XpuGraphConfig) -> bool:
        return cls.pattern.target in (None, config.target) and cls.pattern.wanted(config)

    @override
    @classmethod
    def identity(cls) -> str:
        if cls.pattern.identity is None:
            raise NotCacheable(f"pattern {cls.name!r} has no source to identify it by")
        return cls.pattern.identity

    @override
    def run(self, unit: Unit) -> bool:
        rewriter = unit.rewriter
        if rewriter.clock == self._seen_until:
            return False
        before = rewriter.applied
        self._traced.pre_dispatch = unit.stage is Stage.pregrad
        for shape in self._shapes:
            for node in shape.candidates(rewriter):
                if rewriter.is_alive(node):
                    rewriter.visiting = node
                    self._visit(node, shape, rewriter)
        rewriter.visiting = None
        changed = rewriter.applied > before
        # what it made may be found in turn
        self._seen_until = -1 if changed else rewriter.clock
        return changed

    def _visit(self, node: fx.Node, shape: Shape, rewriter: Rewriter) -> None:
        reasons = []
        for match in shape.find(node):
            reason = (
                why_not_whole(match, rewriter)
                or _why_not_there(match, rewriter)
                or self._why_not_again(match, rewriter)
                or self._why_not(match, rewriter)
            )
            if reason is None:
                self._replace(match, rewriter)
                return
            reasons.append(reason)
        if reasons:
            self._refuse(reasons[0], node, rewriter)
        elif shape.nearest[0] > 1:
            self._refuse(f"found in part: {shape.nearest[1]}", node, rewriter)

    def _why_not_again(self, match: Match, rewriter: Rewriter) -> str | None:
        """An implementation may hold what it implements, which then stays."""
        found = (*match.outputs, *match.inner)
        if self.pattern.converts and all(rewriter.was_made_by(one, self.name) for one in found):
            return "it is what this pattern made"
        return None

    def _refuse(self, reason: str, node: fx.Node, rewriter: Rewriter) -> None:
        """Say so once: what was refused in one round is looked at in the next one, too."""
        if (node.name, reason) not in self._told:
            self._told.add((node.name, reason))
            rewriter.refuse(reason)

    def _replace(self, match: Match, rewriter: Rewriter) -> None:
        """Put the replacement in place; in the layout that was found, where no other will do."""
        region = rewriter.regions.at(match.outputs[0])
        for converts in (False, True) if self.pattern.converts else (False,):

            def build(draft: Draft, converts: bool = converts) -> list[Call | fx.Node]:
                built = self._build(match, draft)
                return in_layout(built, match.outputs, draft) if converts else built

            rewriter.maker = self.name if self.pattern.converts else None
            with region.entered():
                made = rewriter.replace_several(
                    match.outputs, build, relayout=self.pattern.converts, inner=match.inner
                )
            rewriter.maker = None
            if made is not None:
                return

    def _given(self, match: Match) -> list[Any]:
        """What stands at each input: nodes, numbers and other literals."""
        return [
            self.pattern.literals.get(position, found)
            for position, found in enumerate(match.inputs)
        ]

    def _why_not(self, match: Match, rewriter: Rewriter) -> str | None:
        if not self.pattern.conditions:
            return None
        given = self._given(match)
        values = fx.map_arg(given, lambda node: node.meta["val"])
        if match.call is not None:
            try:
                values = [*self._traced.operands(match.call, given, rewriter.fake_mode)]
            except DraftRefused as refusal:
                return str(refusal)
        for condition in self.pattern.conditions:
            reason = condition(*values)
            if reason is not None:
                return reason
        return None

    def _build(self, match: Match, draft: Draft) -> list[Call | fx.Node]:
        if match.build is not None:
            return match.build(draft)
        given = self._given(match)
        nodes: list[fx.Node] = []
        fx.map_arg(given, nodes.append)
        graph = self._traced.graph(given, match.call, draft.fake_mode)
        made: dict[fx.Node, Any] = dict(zip(graph.find_nodes(op="placeholder"), nodes, strict=True))
        for node in graph.nodes:
            if node.op == "call_function":
                args, kwargs = fx.map_arg((node.args, node.kwargs), made.__getitem__)
                made[node] = call_again(node, args, kwargs, draft)
        (output,) = graph.find_nodes(op="output")
        returned = output.args[0]
        results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        if len(results) != len(match.outputs):
            raise DraftRefused(
                f"the replacement gives {len(results)} results, the pattern {len(match.outputs)}"
            )
        if not all(isinstance(result, fx.Node) for result in results):
            raise DraftRefused("the replacement gives something that is no tensor")
        built = [made[result] for result in results]
        found = [*match.outputs, *match.inner]
        if self.pattern.converts and _computing(draft.calls) == _computing(found):
            raise DraftRefused("it is computed in this way already")
        if not self.pattern.converts:
            return built
        return [
            in_dtype(result, old, draft) for result, old in zip(built, match.outputs, strict=True)
        ]


def _computing(calls: Iterable[Call | fx.Node]) -> set[Any]:
    """The operators of some calls, but for those that give a view."""
    return {call.target for call in calls if not _is_view(call.target)}


def _is_view(target: Any) -> bool:
    return isinstance(target, torch._ops.OpOverload) and any(
        returned.alias_info is not None for returned in target._schema.returns
    )


def _why_not_there(match: Match, rewriter: Rewriter) -> str | None:
    """Before differentiation, what needs no gradient is left to the stages behind it."""
    if rewriter.unit.stage is not Stage.pregrad:
        return None
    is_on = rewriter.regions.at(match.outputs[0]).gradients
    return None if is_on else "gradients are off there"


def pass_of(pattern: Pattern) -> type[PatternPass]:
    """The pass that applies a pattern."""
    attributes = {
        "pattern": pattern,
        "name": pattern.name,
        "level": pattern.level,
        "stages": pattern.stages,
        "benefit": pattern.benefit,
        "priority": pattern.priority,
        "__doc__": f"Applies the pattern {pattern.name!r}.",
    }
    return type("PatternPass", (PatternPass,), attributes)
