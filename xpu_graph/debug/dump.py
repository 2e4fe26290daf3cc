"""Writes graphs as text: before the pipeline, after every pass that changed one, and at the end."""

from __future__ import annotations

import itertools
import os
import pathlib
from typing import TYPE_CHECKING

from typing_extensions import override

from xpu_graph.hooks import Hook
from xpu_graph.stage import Unit

if TYPE_CHECKING:
    from xpu_graph.passes.base import Pass

_graphs = itertools.count()


class Dumper(Hook):
    """Writes ``<directory>/<process>/<graph>/<number>_<step>.txt``.

    Args:
        directory: made when the first graph is written.
    """

    def __init__(self, directory: str) -> None:
        self._root = pathlib.Path(directory) / f"process_{os.getpid()}"
        self._place = self._root
        self._number = 0

    @override
    def pipeline_started(self, unit: Unit) -> None:
        self._place = self._root / f"{next(_graphs):03d}_{unit.name}"
        self._number = 0
        self._write(unit, "before")

    @override
    def pass_finished(self, unit: Unit, pass_: Pass, changed: bool) -> None:
        if changed:
            self._write(unit, pass_.name)

    @override
    def pipeline_finished(self, unit: Unit, rounds: int) -> None:
        self._write(unit, "after")

    def _write(self, unit: Unit, step: str) -> None:
        self._place.mkdir(parents=True, exist_ok=True)
        unit.gm.recompile()
        text = unit.gm.print_readable(print_output=False)
        (self._place / f"{self._number:03d}_{step}.txt").write_text(text)
        self._number += 1
