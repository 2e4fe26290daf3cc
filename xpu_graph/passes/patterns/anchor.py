"""Where a declared form might be: from its rarest operator along the readers to its root.

A form's root is as a rule an addition or a product, of which a graph has very many; its softmax or
its ``tanh`` is rare.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from xpu_graph.passes.patterns.passing import is_passed
from xpu_graph.passes.patterns.template import Template
from xpu_graph.passes.patterns.words import WORDS, casted, either
from xpu_graph.passes.rewriter import Rewriter


def candidates(template: Template, rewriter: Rewriter) -> list[fx.Node]:
    """The nodes that might be the last output of a match, in graph order.

    Args:
        template: of a declared form.
        rewriter: of the graph.
    """
    if not template.required:
        return rewriter.calls_of(_roots(max(template.outputs)), 0)
    anchor = min(template.required, key=lambda node: rewriter.count_calls(node.target))
    root = max(template.outputs)
    found: dict[fx.Node, None] = {}
    pending = [(anchor, call) for call in rewriter.calls_of((anchor.target,), 0)]
    seen = set(pending)

    def reach(mine: fx.Node, theirs: fx.Node) -> None:
        if (mine, theirs) not in seen:
            seen.add((mine, theirs))
            pending.append((mine, theirs))

    while pending:
        mine, theirs = pending.pop()
        if mine is root:
            found[theirs] = None
        if mine.target in WORDS and mine.target is not either:
            _pass(mine, theirs, reach)
        for user in mine.users:
            if user.target is casted:
                _pass(user, theirs, reach)
            elif user.target in WORDS:
                reach(user, theirs)
            elif user.op == "call_function":
                for reader in theirs.users:
                    if reader.target is user.target:
                        reach(user, reader)
    return sorted(found)


def _roots(node: fx.Node) -> list[Any]:
    """The operators that may stand at the root."""
    if node.target is not either:
        return [node.target]
    return [target for way in node.all_input_nodes for target in _roots(way)]


def _pass(word: fx.Node, theirs: fx.Node, reach: Callable[[fx.Node, fx.Node], None]) -> None:
    """Go on to what a word of the form lets stand in between."""
    for reader in theirs.users:
        if reader.op == "call_function" and is_passed(word.target, reader):
            reach(word, reader)
