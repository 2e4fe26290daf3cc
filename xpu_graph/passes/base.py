"""What a pass is.

A pass declares its name, the stages it serves, the level it needs, its phase and what it must run
after; ``run`` changes the graph through ``unit.rewriter`` and tells the truth about whether it did.
Most passes are a ``RewritePass``: they look at one node at a time and name the operators they want.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import IntEnum
from typing import Any, ClassVar

from torch import fx
from typing_extensions import override

from xpu_graph.config import OptLevel, XpuGraphConfig
from xpu_graph.stage import Stage, Unit


class Phase(IntEnum):
    """When in a round a pass runs; within a phase, ``after`` and then the name decide.

    Passes of phase ``finish`` run once, after the rounds, and after what depends on frozen
    parameters was taken out.
    """

    canonicalize = 1
    simplify = 2
    fold = 3
    match = 4
    clean = 5
    finish = 6


ATEN_STAGES = frozenset({Stage.inference, Stage.forward, Stage.backward, Stage.joint})
"""The stages whose graphs AOTAutograd made: functional, of ATen operators."""


class Pass(ABC):
    """One transformation. A new object is made for every graph, so it may keep state of its own.

    Attributes:
        name: the handle for reports, dumps, ``skip_patterns`` and ordering.
        stages: the stages it may run in.
        level: the lowest level it runs at.
        phase: when in a round it runs.
        after: names of passes of the same phase that must have run before it.
        benefit: within a phase, what has more of it runs earlier.
        priority: the same for passes of one benefit.
    """

    name: ClassVar[str]
    stages: ClassVar[frozenset[Stage]] = ATEN_STAGES
    level: ClassVar[OptLevel] = OptLevel.level1
    phase: ClassVar[Phase] = Phase.simplify
    after: ClassVar[tuple[str, ...]] = ()
    benefit: ClassVar[int] = 0
    priority: ClassVar[int] = 0

    def __init__(self, config: XpuGraphConfig) -> None:
        self.config = config

    @classmethod
    def enabled(cls, config: XpuGraphConfig) -> bool:
        """Whether a configuration wants this pass at all."""
        return True

    @classmethod
    def identity(cls) -> str:
        """What the pass does beyond what its source says: one text for equal things.

        Raises:
            NotCacheable: there is no such text.
        """
        return ""

    @abstractmethod
    def run(self, unit: Unit) -> bool:
        """Change the graph; return whether it was changed."""


class RewritePass(Pass):
    """A pass that visits nodes one by one, in graph order, and rewrites some of them.

    In the first round it visits every node whose target it names; afterwards only those that were
    touched since it last ran.

    Attributes:
        targets: call targets to visit; None for every node.
    """

    targets: ClassVar[frozenset[Any] | None] = None

    def __init__(self, config: XpuGraphConfig) -> None:
        super().__init__(config)
        self._seen_until = 0

    @override
    def run(self, unit: Unit) -> bool:
        rewriter = unit.rewriter
        before = rewriter.applied
        seen_until, self._seen_until = self._seen_until, rewriter.clock
        for node in self.candidates(unit, seen_until):
            if rewriter.is_alive(node):
                rewriter.visiting = node
                self.visit(node, unit)
        rewriter.visiting = None
        return rewriter.applied > before

    def candidates(self, unit: Unit, since: int) -> Iterable[fx.Node]:
        """The nodes to visit, in graph order."""
        if self.targets is None:
            return unit.rewriter.touched_since(since)
        return unit.rewriter.calls_of(self.targets, since)

    @abstractmethod
    def visit(self, node: fx.Node, unit: Unit) -> None:
        """Rewrite the node through ``unit.rewriter``, refuse it with a reason, or leave it."""
