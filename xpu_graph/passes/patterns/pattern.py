"""A declared pattern, and the pass that applies one.

A pattern is a shape (a traced function), conditions and a replacement. It never touches the graph:
``PatternPass`` finds it, asks the conditions, and lets the rewriter make the change, which checks
what it checks for every pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.config import OptLevel, XpuGraphConfig
from xpu_graph.errors import NotCacheable, PassError
from xpu_graph.passes.base import Pass, Phase
from xpu_graph.passes.drafts import FAKE_ERRORS, Call, Draft, DraftRefused
from xpu_graph.passes.patterns.match import Match, Matcher, why_not_whole
from xpu_graph.passes.patterns.template import Template, pure_graph, writes
from xpu_graph.stage import Stage, Unit
from xpu_graph.target import Target
from xpu_graph.torch_compat import NeedsGuard, refused_guards, traced_on_fakes

Condition = Callable[..., str | None]
"""Given what stands at each input, fake tensors and numbers: why it does not fit, or None."""


@dataclass(eq=False)
class Pattern:
    """What to look for, when it fits, and what takes its place.

    Attributes:
        name: its handle in reports, dumps and ``skip_patterns``.
        templates: the forms it is looked for in.
        replacement: a function of the pattern's inputs, with its outputs.
        identity: one text for equal patterns, the same in every process; None where there is none.
        conditions: all of them must fit.
        target: the only target it is for; None for all.
        level: the lowest level it is used at.
        stages: the stages it is looked for in.
        benefit: patterns of more benefit come first.
        literals: values of the inputs that are neither tensors nor captured, by position.
        ignore_literals: whether any number fits where the pattern has one.
    """

    name: str
    templates: Sequence[Template]
    replacement: Callable[..., Any]
    identity: str | None
    conditions: list[Condition] = field(default_factory=list)
    target: Target | None = None
    level: OptLevel = OptLevel.level1
    stages: frozenset[Stage] = frozenset({Stage.inference})
    benefit: int = 0
    literals: dict[int, Any] = field(default_factory=dict)
    ignore_literals: bool = False


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
        ignore = self.pattern.ignore_literals
        self._matchers = [Matcher(t, ignore_literals=ignore) for t in self.pattern.templates]
        self._seen_until = -1

    @override
    @classmethod
    def enabled(cls, config: XpuGraphConfig) -> bool:
        return cls.pattern.target in (None, config.target)

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
        for matcher in self._matchers:
            numbers = () if self.pattern.ignore_literals else matcher.template.numbers
            if rewriter.has_calls(matcher.template.targets, numbers):
                self._look_for(matcher, unit)
        rewriter.visiting = None
        self._seen_until = rewriter.clock
        return rewriter.applied > before

    def _look_for(self, matcher: Matcher, unit: Unit) -> None:
        rewriter, template = unit.rewriter, matcher.template
        for node in rewriter.calls_reading(template.root, template.operands):
            if not rewriter.is_alive(node):
                continue
            rewriter.visiting = node
            match = matcher.find(node)
            if match is not None:
                self._apply(match, unit)
            elif matcher.nearest[0] > 1:
                rewriter.refuse(f"found in part: {matcher.nearest[1]}")

    def _apply(self, match: Match, unit: Unit) -> None:
        reason = why_not_whole(match, unit) or self._why_not(match)
        if reason is not None:
            unit.rewriter.refuse(reason)
            return
        region = unit.rewriter.regions.at(match.outputs[0])
        if unit.stage is Stage.pregrad and not region.gradients:
            unit.rewriter.refuse("gradients are off there")
            return
        with region.entered():
            unit.rewriter.replace_several(
                match.outputs, lambda draft: self._build(match, draft, unit)
            )

    def _given(self, match: Match) -> list[Any]:
        """What stands at each input: nodes, numbers and other literals."""
        return [
            self.pattern.literals.get(position, found)
            for position, found in enumerate(match.inputs)
        ]

    def _why_not(self, match: Match) -> str | None:
        values = [g.meta["val"] if isinstance(g, fx.Node) else g for g in self._given(match)]
        for condition in self.pattern.conditions:
            reason = condition(*values)
            if reason is not None:
                return reason
        return None

    def _build(self, match: Match, draft: Draft, unit: Unit) -> list[Call | fx.Node]:
        given = self._given(match)
        nodes = [value for value in given if isinstance(value, fx.Node)]
        graph = self._traced(given, unit)
        made: dict[fx.Node, Any] = dict(zip(graph.find_nodes(op="placeholder"), nodes, strict=True))
        for node in graph.nodes:
            if node.op == "get_attr":
                raise DraftRefused("the replacement holds a tensor of its own")
            if writes(node):
                raise DraftRefused(f"the replacement calls {node.target}, which writes")
            if node.op == "call_function":
                args, kwargs = fx.map_arg((node.args, node.kwargs), made.__getitem__)
                made[node] = draft(node.target, *args, **kwargs)
        (output,) = graph.find_nodes(op="output")
        returned = output.args[0]
        results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        if len(results) != len(match.outputs):
            raise DraftRefused(
                f"the replacement gives {len(results)} results, the pattern {len(match.outputs)}"
            )
        if not all(isinstance(result, fx.Node) for result in results):
            raise DraftRefused("the replacement gives something that is no tensor")
        return [made[result] for result in results]

    def _traced(self, given: list[Any], unit: Unit) -> fx.Graph:
        """The graph of the replacement, for what stands at the inputs."""
        places = [i for i, value in enumerate(given) if isinstance(value, fx.Node)]

        def of_tensors(*tensors: torch.Tensor) -> Any:
            arguments = list(given)
            for place, tensor in zip(places, tensors, strict=True):
                arguments[place] = tensor
            return self.pattern.replacement(*arguments)

        fakes = [given[place].meta["val"] for place in places]
        mode = unit.rewriter.fake_mode
        assert mode is not None
        try:
            if unit.stage is Stage.pregrad:
                gm = traced_on_fakes(of_tensors, fakes, mode)
            else:
                with mode, refused_guards(mode), torch.no_grad():
                    gm = pure_graph(of_tensors, fakes)
        except NeedsGuard as error:
            raise DraftRefused("it would need a guard on a size") from error
        except FAKE_ERRORS as error:
            raise PassError(
                f"the replacement of pattern {self.name!r} failed on what was found, "
                f"{[tuple(fake.shape) for fake in fakes]}: {type(error).__name__}: {error}"
            ) from error
        gm.graph.eliminate_dead_code()
        return gm.graph


def pass_of(pattern: Pattern) -> type[PatternPass]:
    """The pass that applies a pattern."""
    attributes = {
        "pattern": pattern,
        "name": pattern.name,
        "level": pattern.level,
        "stages": pattern.stages,
        "benefit": pattern.benefit,
        "__doc__": f"Applies the pattern {pattern.name!r}.",
    }
    return type("PatternPass", (PatternPass,), attributes)
