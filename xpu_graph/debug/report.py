"""What a compilation did: nodes before and after, what each pass did, where the time went."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torch import fx
from typing_extensions import override

from xpu_graph.hooks import Hook
from xpu_graph.stage import Unit

if TYPE_CHECKING:
    from xpu_graph.passes.base import Pass

KEPT_REPORTS = 64
"""How many compilations ``recent_reports`` remembers."""


PARTS_ARE_KEPT = "not kept, since its two parts are"
"""What ``GraphReport.cache`` says of a graph that forward and backward are made of."""


@dataclass
class PassRecord:
    """What one pass did to one graph.

    Attributes:
        runs: how often it ran.
        seconds: time spent in it.
        applied: rewrites it applied.
        refused: rewrites it refused, by reason.
        misses: by reason the first node it was about, and where the user's program made it.
    """

    runs: int = 0
    seconds: float = 0.0
    applied: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    misses: dict[str, str] = field(default_factory=dict)


@dataclass
class GraphReport:
    """What happened to one graph.

    Attributes:
        name: the graph.
        stage: where it comes from.
        before: calls by operator, before the passes.
        after: the same, after them.
        passes: what each pass did, by name, in the order they ran.
        rounds: how often the passes were run.
        cache: ``"hit"``, ``"miss"``, ``"off"``, or ``"not read, ..."`` and ``"not cacheable: ..."``
            with the reason.
        key: digest of the cache key; "" without one.
        notes: further sentences for people, such as why a parameter was not folded.
        seconds: time by step: key, load, passes, vendor, store.
    """

    name: str
    stage: str
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    passes: dict[str, PassRecord] = field(default_factory=dict)
    rounds: int = 0
    cache: str = "off"
    key: str = ""
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Add the time of the block to a step."""
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.seconds[step] = self.seconds.get(step, 0.0) + spent

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.stage}), cache: {self.cache}"]
        if self.passes:
            total = f"{self.before.total()} -> {self.after.total()}"
            lines.append(f"  calls by operator, {total} in all:")
            names = sorted({*self.before, *self.after})
            width = max(map(len, names), default=0)
            for name in names:
                old, new = self.before[name], self.after[name]
                change = f" -> {new:5d}" if old != new else ""
                lines.append(f"    {name:{width}s} {old:5d}{change}")
            lines.append(f"  passes, in {self.rounds} round{'s' * (self.rounds != 1)}:")
        for name, record in self.passes.items():
            lines.append(
                f"    {name:20s} {record.seconds * 1e3:8.2f} ms, {record.applied:3d} rewrites"
                f"{f', {record.refused.total()} refused' if record.refused else ''}"
            )
            for reason, times in record.refused.most_common(3):
                miss = record.misses.get(reason)
                lines.append(f"      refused {times}x: {reason}")
                if miss is not None:
                    lines.append(f"        {'first at' if times > 1 else 'at'} {miss}")
        if self.cache == "hit":
            lines.append("  passes and vendor compiler: not run, the artifact was there")
        if self.seconds:
            lines.append("  time:")
        lines += [f"    {step:20s} {spent * 1e3:8.2f} ms" for step, spent in self.seconds.items()]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


@dataclass
class CompileReport:
    """What one call of the backend did; ``str()`` of it is for people.

    Attributes:
        target: name of the target.
        graphs: one report a graph, in the order they were compiled.
        seconds: time of the whole call, dispatch included; a backward graph comes later.
    """

    target: str
    graphs: list[GraphReport] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        head = f"xpu_graph for {self.target}: {self.seconds:.3f} s"
        return "\n".join([head, *map(str, self.graphs)])


_RECENT: deque[CompileReport] = deque(maxlen=KEPT_REPORTS)


def remember(report: CompileReport) -> None:
    """Add a report to the recent ones."""
    _RECENT.append(report)


def recent_reports() -> list[CompileReport]:
    """The reports of the last compilations of this process, oldest first."""
    return list(_RECENT)


def count_calls(gm: fx.GraphModule) -> Counter[str]:
    """Calls of a graph by operator."""
    calls = [node.target for node in gm.graph.nodes if node.op == "call_function"]
    return Counter(
        str(target) if hasattr(target, "_schema") else getattr(target, "__name__", str(target))
        for target in calls
    )


class Recorder(Hook):
    """Fills a ``GraphReport`` while the pipeline runs."""

    def __init__(self, report: GraphReport) -> None:
        self._report = report
        self._started = 0.0

    @override
    def pipeline_started(self, unit: Unit) -> None:
        self._report.before = count_calls(unit.gm)

    @override
    def pass_started(self, unit: Unit, pass_: Pass) -> None:
        self._report.passes.setdefault(pass_.name, PassRecord())
        self._started = time.perf_counter()

    @override
    def pass_finished(self, unit: Unit, pass_: Pass, changed: bool) -> None:
        record = self._report.passes[pass_.name]
        record.seconds += time.perf_counter() - self._started
        record.runs += 1
        record.applied = unit.rewriter.firings[pass_.name]

    @override
    def pipeline_finished(self, unit: Unit, rounds: int) -> None:
        self._report.after = count_calls(unit.gm)
        self._report.rounds = rounds
        for (name, reason), times in unit.rewriter.refusals.items():
            self._report.passes[name].refused[reason] = times
        for (name, reason), miss in unit.rewriter.misses.items():
            self._report.passes[name].misses[reason] = miss
