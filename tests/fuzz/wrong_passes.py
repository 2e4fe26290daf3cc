"""Passes that are wrong on purpose: the fuzzer has to find that out."""

from tests.fuzz.case import aten
from tests.fuzz.recipes.pointwise import UNARY
from xpu_graph.passes import Pass, RewritePass


class ForgetsNegativeZero(RewritePass):
    """x + 0 -> x, though -0.0 + 0 is +0.0."""

    name = "forgets_negative_zero"
    targets = frozenset({aten.add.Tensor})

    def visit(self, node, unit):
        if isinstance(node.args[1], (int, float)) and str(node.args[1]) in ("0", "0.0"):
            unit.rewriter.replace(node, node.args[0])


class MergesAcrossWrites(RewritePass):
    """Equal calls become one, whatever is written to in between."""

    name = "merges_across_writes"

    def __init__(self, config):
        super().__init__(config)
        self._known = {}

    def visit(self, node, unit):
        if node.target in UNARY:
            earlier = self._known.setdefault((node.target, node.args), node)
            if earlier is not node and unit.rewriter.is_alive(earlier):
                unit.rewriter.replace(node, earlier)


class DropsRandomNumbers(Pass):
    """Random numbers that nobody reads are not drawn, so that others get them."""

    name = "drops_random_numbers"

    def run(self, unit):
        unread = [
            node
            for node in unit.gm.graph.nodes
            if node.target in (aten.rand.default, aten.rand_like.default) and not node.users
        ]
        for node in unread:
            unit.gm.graph.erase_node(node)
        return bool(unread)


WRONG = {
    ForgetsNegativeZero: "arithmetic",
    MergesAcrossWrites: "writes",
    DropsRandomNumbers: "randomness",
}
"""Each with the theme of the graphs that show it."""
