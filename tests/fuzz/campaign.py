"""Check a run of seeds, and count."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.builder import Unfit
from tests.fuzz.check import LEVELS, check, plan
from tests.fuzz.generate import generate
from tests.fuzz.rebuild import rebuild
from tests.fuzz.script import script
from tests.fuzz.shrink import Shrinker
from xpu_graph.passes import DEFAULT_PASSES


@dataclass(frozen=True)
class Settings:
    """What to run on each graph.

    Attributes:
        passes: names of the passes; () for all.
        levels: levels to run them at; () for both.
        thorough: whether every graph sees every level and every pass alone, not some in turn.
        themes: what the graphs are made of; () for everything.
        keep: a directory for the programs of failing graphs, or None.
    """

    passes: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    thorough: bool = False
    themes: tuple[str, ...] = ()
    keep: Path | None = None

    def trials(self, case):
        chosen = tuple(p for p in DEFAULT_PASSES if p.name in self.passes) or DEFAULT_PASSES
        return plan(case, chosen, levels=self.levels or LEVELS, thorough=self.thorough)


@dataclass
class Tally:
    """Counts over many graphs.

    Attributes:
        graphs: how many were checked.
        symbolic: in how many of them a size varies.
        calls: how many calls they have.
        skipped: graphs that were not checked, by reason.
        applied: rewrites by pass.
        operators: calls by operator.
        lies: operators left out because their fake value was not like the real one.
        failures: a line for every failure.
    """

    graphs: int = 0
    symbolic: int = 0
    calls: int = 0
    skipped: Counter = field(default_factory=Counter)
    applied: Counter = field(default_factory=Counter)
    operators: Counter = field(default_factory=Counter)
    lies: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other):
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def summary(self):
        """The counts as text."""
        applied = ", ".join(f"{name} {times}" for name, times in self.applied.most_common())
        lies = ", ".join(f"{name} {times}" for name, times in self.lies.most_common(8))
        lines = [
            f"graphs      {self.graphs}, of {self.calls / max(1, self.graphs):.1f} calls",
            f"symbolic    {self.symbolic}",
            f"skipped     {sum(self.skipped.values())}",
            *(f"            {times}: {reason}" for reason, times in self.skipped.most_common(8)),
            f"rewrites    {applied or 'none'}",
            f"operators   {len(self.operators)}",
            f"fake values unlike the real ones, left out: {lies or 'none'}",
            f"failures    {len(self.failures)}",
        ]
        return "\n".join(lines) + "\n"


def run_seeds(seeds, settings):
    """Check the graphs of some seeds."""
    tally = Tally()
    for seed in seeds:
        case = generate(seed, settings.themes)
        report = check(case, settings.trials(case))
        tally.graphs += 1
        tally.symbolic += case.hint is not None
        tally.lies += case.lies
        tally.applied += report.applied
        calls = [node for node in case.gm.graph.nodes if node.op == "call_function"]
        tally.calls += len(calls)
        tally.operators.update(str(node.target) for node in calls)
        if report.skipped:
            tally.skipped[report.skipped[:80]] += 1
        if report.failure is not None:
            _take_in(case, report.failure, settings, tally)
    return tally


def _take_in(case, failure, settings, tally):
    """Shrink a failing case and write it down."""
    try:
        case, failure = confirmed(case, failure)
    except Unfit as error:
        tally.skipped[str(error)[:80]] += 1
        return
    shrinker = Shrinker(case, failure)
    shrinker.shrink()
    small, failure = shrinker.case, shrinker.failure
    calls = [node for node in small.gm.graph.nodes if node.op == "call_function"]
    tally.failures.append(
        f"{case.about}: {failure.trial}: {failure.kind}, {len(calls)} calls: {failure.text[:300]}"
    )
    if settings.keep is not None:
        settings.keep.mkdir(parents=True, exist_ok=True)
        name = f"{case.about.replace(' ', '_')}.py"
        (settings.keep / name).write_text(script(small, failure))


def confirmed(case, failure):
    """A failing case with the fake values that operators give, which is what passes get to see.

    Raises:
        Unfit: it does not fail then.
    """
    if case.has_operators_values:
        return case, failure
    case = rebuild(case)
    again = check(case, [failure.trial]).failure
    if again is None:
        raise Unfit("fails only with fake values that operators do not give")
    return case, again
