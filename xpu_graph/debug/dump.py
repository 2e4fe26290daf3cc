"""Writes graphs as text: before the pipeline, after every pass that changed one, and at the end."""

from __future__ import annotations

import functools
import itertools
import logging
import os
import pathlib
from typing import TYPE_CHECKING

from typing_extensions import override

from xpu_graph.hooks import Hook
from xpu_graph.stage import Unit

if TYPE_CHECKING:
    from xpu_graph.passes.base import Pass

log = logging.getLogger(__name__)
_graphs = itertools.count()


@functools.cache
def _warn_once(directory: str, reason: str) -> None:
    log.warning("no graphs are dumped, since dump_dir %r cannot be used: %s", directory, reason)


class Dumper(Hook):
    """Writes ``<directory>/<process>/<graph>/<number>_<step>.txt``.

    Args:
        directory: made when the first graph is written. Where it cannot be written, there is one
            warning, and nothing else is disturbed.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
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
        unit.gm.recompile()
        text = unit.gm.print_readable(print_output=False)
        try:
            self._place.mkdir(parents=True, exist_ok=True)
            (self._place / f"{self._number:03d}_{step}.txt").write_text(text)
        except OSError as error:
            _warn_once(self._directory, error.strerror or type(error).__name__)
        self._number += 1
