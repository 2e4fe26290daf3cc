"""The oracle: what the passes make of a graph does what the graph does, operator by operator."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field
from unittest.mock import patch

import torch

from tests.fuzz import oracle
from xpu_graph.errors import XpuGraphError
from xpu_graph.fx import tensors_in
from xpu_graph.passes import DEFAULT_PASSES, reinplace
from xpu_graph.testing import run_passes

LEVELS = ("level1", "level2")


@dataclass(frozen=True)
class Trial:
    """One way to run the passes.

    Attributes:
        passes: the passes.
        level: the level to run them at.
        verify: see ``XpuGraphConfig``.
        as_code: whether to run the result as Python code, not operator by operator.
    """

    passes: tuple
    level: str = "level1"
    verify: str = "each"
    as_code: bool = False

    def __str__(self):
        names = [pass_.name for pass_ in self.passes]
        return f"{names[0] if len(names) == 1 else f'{len(names)} passes'} at {self.level}"


@dataclass
class Failure:
    """A difference, or an error.

    Attributes:
        trial: what was run.
        kind: what failures with one cause have in common.
        text: all about it.
        size: the varying size it was seen at.
    """

    trial: Trial
    kind: str
    text: str
    size: int | None = None


@dataclass
class Report:
    """What became of one graph.

    Attributes:
        failure: the first failure, or None.
        skipped: why the graph was not checked, or None.
        applied: rewrites by pass.
    """

    failure: Failure | None = None
    skipped: str | None = None
    applied: Counter = field(default_factory=Counter)


def plan(case, passes=DEFAULT_PASSES, *, levels=LEVELS, alone=1, thorough=False):
    """The trials of a case.

    Args:
        case: the case; its seed decides whose turn it is.
        passes: what to run together, and some of it alone.
        levels: the levels; one of them in turn, the first more often.
        alone: how many passes to run alone, in turn.
        thorough: every level, and every pass alone.
    """
    verify = "each" if case.has_operators_values else "final"
    turn = [levels[0], *levels] if len(levels) > 1 else levels
    as_code = case.seed % 4 == 0
    trials = [
        Trial(tuple(passes), level, verify, as_code)
        for level in (levels if thorough else [turn[case.seed % len(turn)]])
    ]
    if len(passes) > 1:
        for number in range(len(passes) if thorough else alone):
            pass_ = passes[(case.seed + number) % len(passes)]
            trials.append(Trial((pass_,), max(levels), verify))
    return trials


def check(case, trials):
    """Run every trial on a case, and compare with the graph as it is; stops at a failure."""
    report = Report()
    wanted = {}
    for size in case.sizes:
        try:
            wanted[size] = run(case, case, size)
        except Exception as error:  # whatever an operator raises on real values
            if size == case.sizes[0]:
                report.skipped = f"{type(error).__name__}: {error}"
                return report
    for trial in trials:
        report.failure = _failure(case, trial, wanted, report.applied)
        if report.failure is not None:
            break
    return report


def run(case, graph, size, how=oracle.execute):
    """What can be seen of one run of ``graph`` on the inputs of ``case``."""
    constants = case.real_constants(size)
    return oracle.observe(
        lambda inputs: how(graph.gm, inputs, constants),
        case.real_inputs(size),
        constants,
        case.seed,
    )


def transformed(case, trial):
    """A copy of a case that the passes of a trial have changed, and what they did."""
    copy = case.copied()
    with patch.object(reinplace, "MIN_BYTES", 1):  # or it leaves graphs this small alone
        done = run_passes(trial.passes, copy.unit(), opt_level=trial.level, verify=trial.verify)
    return copy, done


def _failure(case, trial, wanted, applied):
    try:
        copy, done = transformed(case, trial)
    except XpuGraphError as error:
        return Failure(trial, f"PassError: {_rule(str(error))}", str(error), case.hint)
    applied.update(done.applied)
    how = oracle.run_code if trial.as_code else oracle.execute
    for size, want in wanted.items():
        try:
            got = run(case, copy, size, how)
        except Exception as error:  # whatever a wrong graph raises
            return Failure(trial, f"raises {type(error).__name__}", str(error), size)
        found = oracle.difference(got, want, bitwise=trial.level == "level1")
        if found is not None and not (trial.level != "level1" and _is_sensitive(case, size, found)):
            return Failure(trial, *found, size)
    return None


def _rule(text):
    """What is fixed in the text of a PassError."""
    parts = text.split("'")
    return f"{parts[0]}'{parts[3]}'" if len(parts) > 3 and "breaks the rule" in text else parts[0]


def _is_sensitive(case, size, found):
    """Whether rounding alone, in the graph as it is, makes a difference of this kind."""
    if not found[0].endswith((": values", ": NaN", ": infinity", ": sign of zero")):
        return False
    want = run(case, case, size)
    noise = torch.Generator().manual_seed(0)

    def disturbed(node, value):
        returns = getattr(getattr(node.target, "_schema", None), "returns", ())
        if returns and not any(result.alias_info for result in returns):
            for tensor in tensors_in(value):
                if tensor.dtype.is_floating_point:
                    rounding = torch.finfo(tensor.dtype).eps * torch.randn(
                        tensor.shape, generator=noise
                    )
                    tensor.copy_(tensor * (1 + rounding))
        return value

    how = functools.partial(oracle.execute, also=disturbed)
    for _ in range(4):
        try:
            if oracle.difference(run(case, case, size, how), want, bitwise=False) is not None:
                return True
        except RuntimeError:  # a probability above 1
            return True
    return False
