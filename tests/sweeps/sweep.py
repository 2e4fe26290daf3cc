"""What the sweeps share beside their cases: options, resuming, the exit code."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Callable, Sequence

from . import progress
from .workers import Task, Work, run


@dataclasses.dataclass
class Sweep:
    """A kind of sweep.

    Attributes:
        work: does what is left of a task, and gives its rows in the order of the steps. Where one
            was blamed, it does the first step with ``aot_eager`` instead of ours, and the row has
            the status and the message given: it comes only if ``aot_eager`` survives.
        fields: the fields that make up a row's key.
        columns: those of them by which the summary counts.
        command: gives the command that does a row again.
    """

    work: Work
    fields: Sequence[str]
    columns: Sequence[str]
    command: Callable[[progress.Row], str]

    def main(self, tasks: Sequence[Task], options: argparse.Namespace) -> int:
        """Do what the options of ``parser_of`` ask for, and give the exit code."""
        if not tasks:
            sys.exit("nothing to do: no case has such a name and is of such a kind")
        log = progress.Log(options.summary or options.log, self.fields)
        try:
            if not options.summary:
                self._run_missing(log, tasks, options)
        finally:
            log.close()
        rows = list(log.rows.values())
        sys.stdout.write(progress.summary(rows, self.columns, self.command) + "\n")
        return int(any(row["status"] in progress.FAILURES for row in rows))

    def _run_missing(
        self, log: progress.Log, tasks: Sequence[Task], options: argparse.Namespace
    ) -> None:
        missing = []
        for task in tasks:
            keys = {step: log.key(task.case.row(step, "", "")) for step in task.steps}
            steps = [step for step in task.steps if not log.has(keys[step], options.again)]
            if steps:
                missing.append(dataclasses.replace(task, steps=steps))
        line = progress.Progress(sum(len(task.steps) for task in missing))
        try:
            for row in run(missing, self.work, options.jobs, options.limit):
                log.add(row)
                line.update(row, " ".join(log.key(row)))
        finally:
            line.close()


def parser_of(text: str, jobs: int, limit_s: float) -> argparse.ArgumentParser:
    """The options that all sweeps have; ``jobs`` and ``limit_s`` are defaults."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--log", type=pathlib.Path, help="keep rows here, and do not do again those that are there")
    add("--summary", type=pathlib.Path, help="sum up this log, and do nothing else")
    add(
        "--again",
        action="append",
        default=[],
        choices=progress.MEANINGS,
        help="do rows of a status again",
    )
    add("--jobs", type=int, default=jobs, help="worker processes; 0: in this process")
    add("--limit", type=float, default=limit_s, help="seconds that a row may take")
    return parser


def some_of(legal: Sequence[str]) -> Callable[[str], list[str]]:
    """The type of an option that takes names, with commas between."""

    def parse(text: str) -> list[str]:
        given = text.split(",")
        if wrong := [name for name in given if name not in legal]:
            raise argparse.ArgumentTypeError(f"{wrong[0]!r} is none of {', '.join(legal)}")
        return given

    return parse
