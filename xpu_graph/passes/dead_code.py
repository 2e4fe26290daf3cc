"""Dead code: what nobody reads goes.

    a = sin(x); b = cos(x); return b    ->    b = cos(x); return b

Left alone: random operators (dropping one would shift the stream that later ones draw from),
operators that write to memory, effects, assertions, and what binds an unbacked symbol.
"""

from __future__ import annotations

from typing_extensions import override

from xpu_graph.passes.base import Pass, Phase
from xpu_graph.stage import Unit


class DeadCode(Pass):
    """Removes unused nodes, from the end of the graph to its start."""

    name = "dead_code"
    phase = Phase.clean

    @override
    def run(self, unit: Unit) -> bool:
        rewriter = unit.rewriter
        changed = False
        for node in reversed(unit.gm.graph.nodes):
            if not node.users and node.op not in ("placeholder", "output"):
                changed |= rewriter.erase(node)
        return changed
