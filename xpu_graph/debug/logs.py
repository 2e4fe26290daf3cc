"""``XPUGRAPH_LOGS``: what to say while working, by area, for a run without code of its own.

XPUGRAPH_LOGS=passes,cache python serve.py      # what was rewritten, refused, kept
"""

from __future__ import annotations

import logging
import os

from typing_extensions import override

from xpu_graph.errors import ConfigError, unknown_name
from xpu_graph.hooks import Hook
from xpu_graph.stage import Unit

AREAS = {
    "all": "xpu_graph",
    "backends": "xpu_graph.backends",
    "cache": "xpu_graph.cache",
    "compiler": "xpu_graph.compiler",
    "dispatch": "xpu_graph.dispatch",
    "passes": "xpu_graph.passes",
}
"""Name of an area -> its logger."""

log = logging.getLogger(AREAS["passes"])


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to the standard error what no handler of the program's own shows."""

    @override
    def filter(self, record: logging.LogRecord) -> bool:
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return False
            logger = logger.parent if logger.propagate else None
        return bool(super().filter(record))


def configure_logs() -> None:
    """Do what ``XPUGRAPH_LOGS`` says; nothing where it is not set.

    Raises:
        ConfigError: it names an area that there is not.
    """
    text = os.environ.get("XPUGRAPH_LOGS")
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    for name in names:
        if name not in AREAS:
            where = f"environment variable XPUGRAPH_LOGS={text!r}"
            raise ConfigError(unknown_name("area", name, AREAS, where))
    for name in names:
        logging.getLogger(AREAS[name]).setLevel(logging.DEBUG)
    package = logging.getLogger(AREAS["all"])
    if names and not any(isinstance(handler, _Handler) for handler in package.handlers):
        handler = _Handler()
        handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
        package.addHandler(handler)


class RewriteLog(Hook):
    """Logs, at the end of a pipeline, what was rewritten and what was refused and why."""

    @override
    def pipeline_finished(self, unit: Unit, rounds: int) -> None:
        for name, times in unit.rewriter.firings.items():
            log.debug("%s: %s fired %d times", unit.name, name, times)
        for (name, reason), times in unit.rewriter.refusals.items():
            log.debug("%s: %s refused %d times: %s", unit.name, name, times, reason)
