"""Fuel: rewriting stops after a number of rewrites, so that a wrong one is found by halving.

XPUGRAPH_FUEL=0 python serve.py      # right?  then a rewrite is at fault
XPUGRAPH_FUEL=40 python serve.py     # still right?  then it is a later one; and so on
"""

from __future__ import annotations

import threading

from typing_extensions import override

from xpu_graph.hooks import Hook
from xpu_graph.stage import Unit


class Fuel(Hook):
    """Allows a number of rewrites, over all graphs of one backend.

    Args:
        amount: how many.
    """

    def __init__(self, amount: int) -> None:
        self.left = amount
        self._lock = threading.Lock()

    @override
    def allow_rewrite(self, unit: Unit, pass_name: str) -> bool:
        with self._lock:
            if self.left <= 0:
                return False
            self.left -= 1
            return True
