"""The pipeline: which passes run, in which order, how often, and who watches."""

from __future__ import annotations

import hashlib
import inspect
import logging
from collections.abc import Callable, Sequence

from xpu_graph.config import XpuGraphConfig
from xpu_graph.errors import ConfigError, NotCacheable, PassError, XpuGraphError, unknown_name
from xpu_graph.hooks import Hook
from xpu_graph.passes.base import Pass, Phase
from xpu_graph.passes.constants import drop_unused_constants
from xpu_graph.passes.rewriter import Rewriter
from xpu_graph.passes.verify import Verifier
from xpu_graph.stage import Stage, Unit
from xpu_graph.torch_compat import DYNAMO_CONTROL_FLOW

log = logging.getLogger(__name__)

MAX_ROUNDS = 16
"""More rounds than any sound set of passes needs; reaching it means two passes undo each other."""


class Pipeline:
    """Runs passes over a unit, in rounds, until none of them finds anything.

    Every pass runs in every round; from the second round on it visits only what was touched.

    Args:
        passes: the passes to choose from.
        config: decides which of them run.
        more: gives further ones, which may change from graph to graph.

    Raises:
        PassError: two passes have one name, or an ordering constraint cannot be met.
        ConfigError: the configuration skips or includes a name that nothing here has.
    """

    def __init__(
        self,
        passes: Sequence[type[Pass]],
        config: XpuGraphConfig,
        more: Callable[[], Sequence[type[Pass]]] = tuple,
    ) -> None:
        self._config = config
        self._verify = "each" if config.debug else config.verify
        self._more = more
        patterns = [pass_.name for pass_ in more()]
        known = [*(pass_.name for pass_ in passes), *patterns]
        _check_names("skip_patterns", config.skip_patterns, known)
        _check_names("include_patterns", config.include_patterns, patterns)
        self._given = list(passes)
        self._passes = self._wanted(ordered(passes))

    def passes_for(self, unit: Unit) -> list[type[Pass]]:
        """The passes that serve the unit's stage, in order."""
        return self._passes_at(unit.stage)

    def serves(self, stage: Stage) -> bool:
        """Whether a pass would run in a stage."""
        return bool(self._passes_at(stage))

    def _passes_at(self, stage: Stage) -> list[type[Pass]]:
        more = [
            pass_
            for pass_ in self._more()
            if not self._config.include_patterns or pass_.name in self._config.include_patterns
        ]
        passes = ordered(self._wanted([*self._given, *more])) if more else self._passes
        return [pass_ for pass_ in passes if stage in pass_.stages]

    def _wanted(self, passes: Sequence[type[Pass]]) -> list[type[Pass]]:
        config = self._config
        return [
            pass_
            for pass_ in passes
            if pass_.level <= config.opt_level
            and pass_.name not in config.skip_patterns
            and pass_.enabled(config)
        ]

    def identity(self, unit: Unit) -> str:
        """The passes that serve a unit, for a cache key: names in order, and what they are made of.

        Raises:
            NotCacheable: a pass from outside this package has no source to identify it by.
        """
        return "; ".join(_identity(pass_) for pass_ in self.passes_for(unit))

    def run(self, unit: Unit, hooks: Sequence[Hook] = (), *, finish: bool = True) -> int:
        """Optimise a unit in place.

        Args:
            unit: the graph; every node must carry its fake value in ``meta["val"]``.
            hooks: who watches; the verifier that the configuration asks for comes last.
            finish: whether the passes of phase ``finish`` follow; else ``finish`` runs them later.

        Returns:
            How many rounds were run.

        Raises:
            PassError: a pass failed, broke a rule, or the rounds did not come to an end.
        """
        watching = self._watching(unit, hooks)
        passes = [p(self._config) for p in self.passes_for(unit) if p.phase != Phase.finish]
        for hook in watching:
            hook.pipeline_started(unit)
        rounds = 0
        done: list[str] = []
        changed = bool(passes)
        while changed and rounds < MAX_ROUNDS:
            rounds += 1
            changes = [_run_pass(pass_, unit, watching, done) for pass_ in passes]
            changed = any(changes)
        if changed:
            message = f"the passes did not settle in {MAX_ROUNDS} rounds on {unit.name}"
            if self._verify == "each":
                raise PassError(message)
            log.warning("%s; the graph so far is used", message)
        if finish:
            self._finish(unit, watching, done)
        drop_unused_constants(unit.gm)
        for hook in watching:
            hook.pipeline_finished(unit, rounds)
        return rounds

    def finish(self, unit: Unit, hooks: Sequence[Hook] = ()) -> None:
        """Run the passes of phase ``finish`` over a unit that was cut after ``run``.

        Args:
            unit: what is left of it; it is not going to be changed any more.
            hooks: who watches.

        Raises:
            PassError: a pass failed or broke a rule.
        """
        told = unit.rewriter
        watching = self._watching(unit, hooks)
        unit.rewriter.continue_counts(told)
        verifiers = [hook for hook in watching if isinstance(hook, Verifier)]
        for verifier in verifiers:
            verifier.pipeline_started(unit)
        self._finish(unit, watching, [])
        for verifier in verifiers:
            verifier.pipeline_finished(unit, 1)

    def _finish(self, unit: Unit, watching: Sequence[Hook], done: list[str]) -> None:
        for pass_ in self.passes_for(unit):
            if pass_.phase == Phase.finish:
                _run_pass(pass_(self._config), unit, watching, done)

    def _watching(self, unit: Unit, hooks: Sequence[Hook]) -> list[Hook]:
        """Give the unit a rewriter that asks the hooks, and add the verifier to them."""
        watching = list(hooks)
        if self._verify != "off":
            watching.append(Verifier(self._verify))
        unit.rewriter = Rewriter(
            unit, lambda unit, name: all(hook.allow_rewrite(unit, name) for hook in watching)
        )
        return watching


def _check_names(field: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise ConfigError(unknown_name("name", name, known, f"XpuGraphConfig.{field}"))


def _run_pass(pass_: Pass, unit: Unit, hooks: Sequence[Hook], done: list[str]) -> bool:
    unit.rewriter.pass_name = pass_.name
    for hook in hooks:
        hook.pass_started(unit, pass_)
    try:
        changed = pass_.run(unit)
    except DYNAMO_CONTROL_FLOW:
        raise
    except XpuGraphError:
        raise
    except Exception as error:
        before = ", ".join(done) or "nothing"
        raise PassError(
            f"pass {pass_.name!r} failed on {unit.name}: {type(error).__name__}: {error} "
            f"(ran before: {before})"
        ) from error
    for hook in hooks:
        hook.pass_finished(unit, pass_, changed)
    done.append(pass_.name)
    return changed


def _identity(pass_: type[Pass]) -> str:
    name = f"{pass_.name}={pass_.__module__}.{pass_.__qualname__}{pass_.identity()}"
    if pass_.__module__.startswith("xpu_graph."):
        return name  # the digest of the package covers it
    try:
        source = inspect.getsource(inspect.getmodule(pass_) or pass_)
    except (OSError, TypeError) as error:
        raise NotCacheable(f"pass {pass_.name!r} has no source") from error
    return f"{name}@{hashlib.sha256(source.encode()).hexdigest()[:16]}"


def ordered(passes: Sequence[type[Pass]]) -> list[type[Pass]]:
    """Sort passes by phase, their ``after`` constraints, their benefit and priority, and by name.

    Raises:
        PassError: names repeat, or a constraint goes in a circle or names no pass of the phase.
    """
    names = [pass_.name for pass_ in passes]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise PassError(f"two passes are called {sorted(repeated)}")
    result: list[type[Pass]] = []
    for phase in Phase:
        here_first = sorted((p for p in passes if p.phase == phase), key=lambda p: p.name)
        waiting = sorted(here_first, key=lambda p: (-p.benefit, -p.priority))
        here = {pass_.name for pass_ in waiting}
        for pass_ in waiting:
            missing = [name for name in pass_.after if name not in here]
            if missing:
                raise PassError(
                    f"pass {pass_.name!r} must run after {missing}, not in phase {phase.name!r}"
                )
        while waiting:
            placed = {pass_.name for pass_ in result}
            ready = next((p for p in waiting if set(p.after) <= placed), None)
            if ready is None:
                raise PassError(f"ordering goes in a circle: {[p.name for p in waiting]}")
            result.append(ready)
            waiting.remove(ready)
    return result
