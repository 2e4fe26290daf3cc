"""What may watch the pipeline: timing, dumping, counting and verifying are not inside passes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xpu_graph.stage import Unit

if TYPE_CHECKING:
    from xpu_graph.passes.base import Pass


class Hook:
    """Base of a hook; every method does nothing unless overridden.

    Hooks are called in the order they were given. They must not change the graph.
    """

    def pipeline_started(self, unit: Unit) -> None:
        """Called once, before the first pass."""

    def pass_started(self, unit: Unit, pass_: Pass) -> None:
        """Called before each run of a pass."""

    def pass_finished(self, unit: Unit, pass_: Pass, changed: bool) -> None:
        """Called after each run of a pass; ``changed`` is what the pass reported."""

    def pipeline_finished(self, unit: Unit, rounds: int) -> None:
        """Called once, after the last pass; ``rounds`` is how often the passes were run."""

    def allow_rewrite(self, unit: Unit, pass_name: str) -> bool:
        """Asked before each application of a rewrite; False stops it (see ``debug/fuel.py``)."""
        return True
