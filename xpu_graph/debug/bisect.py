"""Torch's CompilerBisector finds the rewrite that is wrong.

    from torch._inductor.compiler_bisector import CompilerBisector
    from xpu_graph.debug.bisect import register_with_bisector

    register_with_bisector()
    print(CompilerBisector.do_bisect(lambda: is_right(torch.compile(f, backend="xpu_graph"))))

It tries torch's own backends first, then this one, and halves the number of its rewrites.
"""

from __future__ import annotations

from typing_extensions import override

from xpu_graph.hooks import Hook
from xpu_graph.stage import Unit
from xpu_graph.torch_compat.bisector import bisector_stops, is_bisecting, register_subsystem

BACKEND = "xpu_graph"
SUBSYSTEM = "rewrites"

__all__ = ["Bisection", "is_bisecting", "register_with_bisector"]


def register_with_bisector() -> None:
    """Add backend ``xpu_graph`` and its subsystem ``rewrites`` to torch's ``CompilerBisector``.

    Without it the environment variables ``TORCH_BISECT_BACKEND=xpu_graph``,
    ``TORCH_BISECT_SUBSYSTEM=rewrites`` and ``TORCH_BISECT_MAX=n`` work all the same.
    """
    register_subsystem(BACKEND, SUBSYSTEM)


class Bisection(Hook):
    """Asks torch's bisector before each rewrite."""

    @override
    def allow_rewrite(self, unit: Unit, pass_name: str) -> bool:
        return not bisector_stops(BACKEND, SUBSYSTEM, lambda: f"{pass_name} in {unit.name}")
