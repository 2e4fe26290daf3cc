"""What a sweep tells: rows in a log that a second run continues, a progress line, a summary."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

SAME = "same"
NOT_COMPILED = "not compiled"
NONDETERMINISTIC = "nondeterministic"
EAGER_FAILS = "eager fails"
NO_SAMPLE = "no sample"
AOT_TOO = "aot_eager too"
OURS = "ours"
CRASHED = "crashed"
TIMEOUT = "timeout"
FAULT = "sweep fault"
MEANINGS = {
    SAME: "equal to eager",
    NOT_COMPILED: "equal to eager, and no graph came to the backend",
    NONDETERMINISTIC: "eager differs from eager; all but the values is equal",
    EAGER_FAILS: "eager raises for every sample",
    NO_SAMPLE: "there is no sample, or none is small enough",
    AOT_TOO: "fails, and aot_eager fails in the same way",
    OURS: "differs from eager or raises, and aot_eager does not, or otherwise",
    CRASHED: "ends the process, and aot_eager does not",
    TIMEOUT: "takes too long, and aot_eager does not",
    FAULT: "the sweep itself raised",
}
FAILURES = (OURS, CRASHED, TIMEOUT, FAULT)
"""The statuses that make a sweep fail."""

Row = dict[str, Any]


class Log:
    """Rows of a sweep, kept in a file of JSON lines where a path is given.

    A line that an interrupted run left half written is dropped. A later row stands in for an
    earlier one of the same key.

    Args:
        path: the file; it need not exist.
        fields: the fields that make up a row's key.
    """

    def __init__(self, path: pathlib.Path | None, fields: Sequence[str]) -> None:
        self.fields = tuple(fields)
        self.rows: dict[tuple[str, ...], Row] = {}
        self._file: TextIO | None = None
        if path is None:
            return
        if path.exists():
            text = path.read_text(encoding="utf-8")
            whole = text[: text.rfind("\n") + 1]
            if whole != text:
                os.truncate(path, len(whole.encode("utf-8")))
            for line in whole.splitlines():
                row = json.loads(line)
                self.rows[self.key(row)] = row
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", encoding="utf-8")

    def key(self, row: Row) -> tuple[str, ...]:
        return tuple(row[field] for field in self.fields)

    def has(self, key: tuple[str, ...], again: Iterable[str] = ()) -> bool:
        """Whether there is a row of this key whose status is not one to be done again."""
        return key in self.rows and self.rows[key]["status"] not in again

    def add(self, row: Row) -> None:
        self.rows[self.key(row)] = row
        if self._file is not None:
            self._file.write(json.dumps(row) + "\n")
            self._file.flush()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class Progress:
    """A line on a terminal, redrawn; elsewhere a line a minute.

    Args:
        total: how many rows will come.
        stream: where to write.
    """

    def __init__(self, total: int, stream: TextIO = sys.stderr) -> None:
        self.total, self.done = total, 0
        self.counts: collections.Counter[str] = collections.Counter()
        self._stream = stream
        self._redraws = stream.isatty()
        self._start = self._last = time.monotonic()

    def update(self, row: Row, what: str) -> None:
        """Count a row; ``what`` names it."""
        self.done += 1
        self.counts[row["status"]] += 1
        now = time.monotonic()
        if now - self._last < (0.2 if self._redraws else 60) and self.done < self.total:
            return
        self._last = now
        left = (now - self._start) / self.done * (self.total - self.done)
        bad = sum(self.counts[status] for status in FAILURES)
        filled = 24 * self.done // self.total
        line = (
            f"[{'#' * filled}{'.' * (24 - filled)}] {self.done}/{self.total}"
            f"  {clock(now - self._start)} gone, {clock(left)} left  {bad} failures  {what}"
        )
        print(
            f"\r{line[:119]:<119}" if self._redraws else line,
            end="" if self._redraws else "\n",
            file=self._stream,
            flush=True,
        )

    def close(self) -> None:
        if self._redraws:
            print(file=self._stream)


def clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}"


def summary(rows: Sequence[Row], columns: Sequence[str], command: Callable[[Row], str]) -> str:
    """Counts by status, and every failure with the command that shows it again.

    Args:
        rows: the rows.
        columns: the fields by which the counts are told apart.
        command: gives the command for a row.
    """

    def group(row: Row) -> str:
        return " ".join(row[column] for column in columns)

    groups = sorted({group(row) for row in rows})
    counts = collections.Counter((row["status"], group(row)) for row in rows)
    width = max([len(name) for name in groups] + [6])
    lines = [f"{len(rows)} rows", ""]
    lines.append("  ".join([f"{'status':<17}", *(f"{name:>{width}}" for name in groups), "   all"]))
    for status, meaning in MEANINGS.items():
        of_status = [counts[status, name] for name in groups]
        if any(of_status):
            cells = [f"{count:>{width}}" for count in of_status]
            lines.append(
                "  ".join([f"{status:<17}", *cells, f"{sum(of_status):>6}", f" {meaning}"])
            )
    failed = [row for row in rows if row["status"] in FAILURES]
    lines += ["", f"{len(failed)} failures" + (":" if failed else "")]
    for row in failed:
        lines += [f"- {row['status']}: {row['message']}", f"  {command(row)}"]
    return "\n".join(lines)
