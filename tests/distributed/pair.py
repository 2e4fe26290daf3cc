"""A pair of processes that stays alive over many tests, since starting one takes seconds."""

import inspect
import os
import pathlib
import subprocess
import sys
import time
from multiprocessing import Pipe
from multiprocessing.connection import wait

WORKER = pathlib.Path(__file__).with_name("worker.py")
ROOT = WORKER.parent.parent.parent


class RankError(AssertionError):
    """A rank raised, died or did not answer; says which, with its traceback and what it wrote."""


class Pair:
    """Processes that are the ranks of one group on gloo.

    Args:
        root: a directory of its own.
        collective_s: seconds after which a collective gives up.
        environment: variables to set in the ranks.
    """

    def __init__(self, root, collective_s=60.0, size=2, **environment):
        self._logs = [root / f"rank{rank}.log" for rank in range(size)]
        self._connections = []
        self._processes = []
        for rank, log in enumerate(self._logs):
            mine, other = Pipe()
            variables = {
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PYTHONPATH": str(ROOT),
                "XPUGRAPH_CACHE_DIR": str(root / "cache"),
                "XPUGRAPH_VERIFY": "each",
                **environment,
            }
            command = [sys.executable, str(WORKER), str(rank), str(size), str(root / "store")]
            with log.open("w") as file:
                process = subprocess.Popen(
                    [*command, str(collective_s), str(other.fileno())],
                    pass_fds=[other.fileno()],
                    stdout=file,
                    stderr=file,
                    env=variables,
                )
            other.close()
            self._connections.append(mine)
            self._processes.append(process)

    def run(self, function, *arguments, seconds=120.0):
        """Call a function of a test file on all ranks; gives one result a rank.

        Args:
            function: of the top level of its file.
            arguments: plain data.
            seconds: how long it may take.

        Raises:
            RankError: a rank failed; the pair cannot be used any more.
        """
        answers = self.answers(function, *arguments, seconds=seconds)
        failed = [rank for rank, (ok, _) in answers.items() if not ok]
        if failed:
            self.close()
            raise RankError("\n".join(self._story(rank, answers[rank][1]) for rank in failed))
        return [answers[rank][1] for rank in sorted(answers)]

    def answers(self, function, *arguments, seconds=120.0, grace_s=5.0):
        """The same, with (True, result) or (False, what happened) for every rank.

        Args:
            function: as for ``run``.
            arguments: as for ``run``.
            seconds: as for ``run``.
            grace_s: how long a rank may go on after the other one failed; it may wait for that one.
        """
        path = inspect.getfile(function)
        for connection in self._connections:
            connection.send((path, function.__name__, arguments))
        deadline = time.monotonic() + seconds
        answers = {}
        waiting = dict(enumerate(self._connections))
        while waiting:
            ready = wait(waiting.values(), max(0.0, deadline - time.monotonic()))
            if not ready:
                why = "gave no answer in time"
                answers.update(dict.fromkeys(waiting, (False, why)))
                break
            for rank, connection in [*waiting.items()]:
                if connection in ready:
                    del waiting[rank]
                    answers[rank] = self._answer(rank, connection)
                    if not answers[rank][0]:
                        deadline = min(deadline, time.monotonic() + grace_s)
        return answers

    def _answer(self, rank, connection):
        try:
            return connection.recv()
        except EOFError:
            return (False, f"died with code {self._processes[rank].wait()}")

    def _story(self, rank, what):
        return f"rank {rank}: {what}\n{self._logs[rank].read_text()[-3000:]}"

    @property
    def is_usable(self):
        """Whether all ranks are there."""
        return bool(self._processes)

    def close(self):
        """End the processes."""
        for connection in self._connections:
            connection.close()
        for process in self._processes:
            process.kill()
            process.wait()
        self._connections, self._processes = [], []
