"""Worker processes that do the tasks of a sweep.

A task is one case and its steps, each of which gives one row of the log. A worker that dies or
takes too long ends neither the sweep nor the task: the step is done again with ``aot_eager`` in our
place, which tells whose fault it is, and the other steps follow.
"""

from __future__ import annotations

import collections
import dataclasses
import multiprocessing
import multiprocessing.connection
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from .progress import AOT_TOO, CRASHED, FAULT, TIMEOUT, Row

CASES_PER_WORKER = 200
"""Torch keeps something of every compilation; a worker is replaced after so many cases."""

_processes = multiprocessing.get_context("fork")


class Case(Protocol):
    """What a task is about; it can be pickled."""

    def row(self, step: str, status: str, message: str, **facts: Any) -> Row:
        """The row of a step: the fields of its key, these, and facts."""


@dataclasses.dataclass
class Task:
    """What is left to do of a case.

    Attributes:
        case: the case.
        steps: what to do with it, in this order, one row each.
        blamed: status and message of the worker that was lost at the first step, if one was.
    """

    case: Case
    steps: list[str]
    blamed: tuple[str, str] | None = None


Work = Callable[[Task], Iterator[Row]]


def run(tasks: Sequence[Task], work: Work, jobs: int, limit_s: float) -> Iterator[Row]:
    """The rows of tasks, as they come.

    Args:
        tasks: what to do.
        work: as in ``Sweep``.
        jobs: the number of workers; with 0, everything is done in this process.
        limit_s: the time a step may take.
    """
    if not jobs:
        for task in tasks:
            yield from work(task)
        return
    waiting = collections.deque(tasks)
    workers: list[_Worker] = []
    try:
        while waiting or workers:
            for worker in [one for one in workers if one.task is None]:
                if not waiting or worker.cases >= CASES_PER_WORKER:
                    worker.end()
                    workers.remove(worker)
                else:
                    worker.give(waiting.popleft(), limit_s)
            while waiting and len(workers) < jobs:
                workers.append(_Worker(work))
                workers[-1].give(waiting.popleft(), limit_s)
            for worker in _ready(workers):
                rows, loss = worker.collect(limit_s)
                yield from rows
                if loss is not None:
                    workers.remove(worker)
                    worker.kill()
                if loss is not None and worker.task is not None:
                    yield from _after_loss(worker.task, loss)
                    if worker.task.steps:
                        waiting.appendleft(worker.task)
    finally:
        for worker in workers:
            worker.kill()


def _after_loss(task: Task, loss: tuple[str, str]) -> Iterator[Row]:
    """Blame the step that lost a worker, or clear it if ``aot_eager`` lost one there too."""
    if task.blamed is None:
        task.blamed = loss
        return
    message = f"{task.blamed[1]}; with aot_eager: {loss[1]}"
    yield task.case.row(task.steps.pop(0), AOT_TOO, message)
    task.blamed = None


class _Worker:
    """A process that does one task after the other."""

    def __init__(self, work: Work) -> None:
        self.pipe, theirs = _processes.Pipe()
        self.process = _processes.Process(target=_serve, args=(theirs, work), daemon=True)
        self.process.start()
        theirs.close()  # so that the end of the process shows on the pipe
        self.task: Task | None = None
        self.cases = 0
        self.deadline = 0.0

    def give(self, task: Task, limit_s: float) -> None:
        self.task, self.deadline = task, time.monotonic() + limit_s
        self.cases += 1
        self.pipe.send(task)

    def collect(self, limit_s: float) -> tuple[list[Row], tuple[str, str] | None]:
        """Rows that came, and how the worker was lost, if it was."""
        rows: list[Row] = []
        try:
            while self.pipe.poll():
                row = self.pipe.recv()
                self.deadline = time.monotonic() + limit_s
                if row is None:
                    self.task = None
                    return rows, None
                assert self.task is not None
                self.task.steps.pop(0)
                self.task.blamed = None
                rows.append(row)
        except (EOFError, ConnectionError):
            self.process.join()
            return rows, (CRASHED, f"the process ended: {_how_ended(self.process.exitcode)}")
        if self.task is not None and time.monotonic() > self.deadline:
            self.kill()
            return rows, (TIMEOUT, f"no result within {limit_s:.0f} s")
        return rows, None

    def end(self) -> None:
        self.pipe.send(None)
        self.process.join(10)
        self.kill()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def _ready(workers: Sequence[_Worker]) -> list[_Worker]:
    """The workers that have something to tell, or are out of time; waits until there is one."""
    soonest = min((worker.deadline for worker in workers if worker.task), default=0)
    pipes = {worker.pipe: worker for worker in workers}
    multiprocessing.connection.wait(list(pipes), max(0.0, soonest - time.monotonic()) + 0.01)
    now = time.monotonic()
    return [
        worker
        for worker in workers
        if worker.pipe.poll() or (worker.task is not None and now > worker.deadline)
    ]


def _how_ended(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"


def _serve(pipe: multiprocessing.connection.Connection, work: Work) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers itself
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # warnings of thousands of programs would bury the progress line
        os.dup2(nowhere, stream)
    while (task := pipe.recv()) is not None:
        left = list(task.steps)
        try:
            for row in work(task):
                left.pop(0)
                pipe.send(row)
        except Exception as error:  # one case that cannot be judged must not end the sweep
            for step in left:
                pipe.send(task.case.row(step, FAULT, repr(error)[:300]))
        pipe.send(None)
