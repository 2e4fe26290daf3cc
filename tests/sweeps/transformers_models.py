"""Models of ``transformers`` with small random weights, against eager, in inference and training.

    python -m tests.sweeps.transformers_models --log models.jsonl
    python -m tests.sweeps.transformers_models --summary models.jsonl
    python -m tests.sweeps.transformers_models --only llama --steps training --jobs 0

A case is an architecture, its steps are inference and training. Each is compiled at level2 without
a vendor's compiler, with every rule verified, and compared with eager within tolerances: what the
model returns, signs of zeros, dtype, shape, stride, shared memory, inputs and buffers written to,
and in training the gradients of its parameters. Graph breaks are allowed, and counted in the log.
"""

from __future__ import annotations

import copy
import dataclasses
import fnmatch
import functools
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch._dynamo.utils import counters

from xpu_graph import XpuGraph, XpuGraphConfig

from . import progress
from .architectures import ALL
from .outcomes import (
    Attempt,
    Outcome,
    attempt,
    difference,
    fill_new_memory,
    judge,
    layout_difference,
    short,
)
from .sweep import Sweep, parser_of, some_of
from .workers import Task

STEPS = ("inference", "training")
FIELDS = ("architecture", "step")
TOLERANCES = {"rtol": 1e-3, "atol": 1e-5}


@dataclasses.dataclass(frozen=True)
class Case:
    """An architecture."""

    architecture: str

    def row(self, step: str, status: str, message: str, **facts: Any) -> progress.Row:
        labels = {"architecture": self.architecture, "step": step}
        return {**labels, "status": status, "message": message, **facts}


class Program:
    """A model called once, in inference or in training.

    Attributes:
        eager: what eager gives.
        steady: whether eager gives the same with other numbers in memory that nobody wrote.
    """

    def __init__(self, name: str, step: str) -> None:
        self._training = step == "training"
        self._model = ALL[name].build().train(self._training)
        self._arguments = ALL[name].arguments(self._model, training=self._training)
        self.eager = self.run(None)
        fill_new_memory(0)
        again = self.run(None)
        fill_new_memory(1)
        self.steady = (
            isinstance(self.eager, Outcome)
            and isinstance(again, Outcome)
            and difference(again, self.eager, bitwise=True) is None
        )

    def run(self, backend: Any) -> Attempt:
        """What a copy of the model gives with a backend; None for eager."""
        model = copy.deepcopy(self._model)
        call = model
        if backend is not None:
            torch.compiler.reset()
            call = torch.compile(model, backend=backend, dynamic=False)
        return attempt(
            lambda given: call(**given),
            [self._arguments],
            grad=self._training,
            state=[*model.parameters(), *model.buffers()],
        )


def check(program: Program) -> tuple[str, str, dict[str, int]]:
    """Status, message and counts of a model that eager can run."""
    ours = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False, verify="each"))
    counters.clear()
    got = program.run(ours)
    graphs = [graph for report in ours.reports for graph in report.graphs]
    facts = {
        "graphs": len(graphs),
        "graph_breaks": sum(counters["graph_break"].values()),
        "rewrites": sum(one.applied for graph in graphs for one in graph.passes.values()),
    }
    compare = functools.partial(difference, bitwise=False, **TOLERANCES)
    status, message = judge(
        got,
        program.eager,
        functools.cache(lambda: program.run("aot_eager")),
        compare if program.steady else layout_difference,
    )
    if status == progress.SAME and not graphs:
        status = progress.NOT_COMPILED
    elif status == progress.SAME and not program.steady:
        status = progress.NONDETERMINISTIC
    return status, message, facts


def work(task: Task) -> Iterator[progress.Row]:
    """The rows of an architecture, one a step."""
    case: Case = task.case
    fill_new_memory(1)
    for step in list(task.steps):
        start = time.monotonic()
        program = Program(case.architecture, step)
        facts: dict[str, int] = {}
        if isinstance(program.eager, Exception):
            status, message = progress.EAGER_FAILS, short(repr(program.eager))
        elif task.blamed is not None:
            program.run("aot_eager")
            status, message = task.blamed
            task.blamed = None
        else:
            status, message, facts = check(program)
        seconds = round(time.monotonic() - start, 2)
        yield case.row(step, status, message, **facts, seconds=seconds)


def command(row: progress.Row) -> str:
    """What shows a row again."""
    return (
        "python -m tests.sweeps.transformers_models --jobs 0"
        f" --only {shlex.quote(row['architecture'])} --steps {row['step']}"
    )


SWEEP = Sweep(work, FIELDS, ("step",), command)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = parser_of(__doc__, jobs=1, limit_s=600)
    parser.add_argument("--only", action="append", default=[], help="a name, or a pattern of them")
    parser.add_argument("--steps", type=some_of(STEPS), default=STEPS)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    chosen = [
        name
        for name in ALL
        if not options.only or any(fnmatch.fnmatchcase(name, only) for only in options.only)
    ]
    tasks = [Task(Case(name), list(options.steps)) for name in chosen]
    return SWEEP.main(tasks, options)


if __name__ == "__main__":
    sys.exit(main())
