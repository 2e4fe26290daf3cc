"""Patterns: a shape, conditions and a replacement each.

``plugin.py`` has those of users, ``structure/`` what is found in programs and implemented by
targets, ``common/`` what serves every target.
"""

from xpu_graph.passes.base import Pass
from xpu_graph.passes.patterns.common import COMMON
from xpu_graph.passes.patterns.pattern import Pattern, PatternPass, pass_of
from xpu_graph.passes.patterns.plugin import (
    deregister_plugin_patterns,
    enable_plugin_patterns,
    plugin_patterns,
    register_plugin_pattern,
    register_this_as_pattern_constraint,
    register_this_as_plugin_pattern,
)
from xpu_graph.passes.patterns.structure import STRUCTURES
from xpu_graph.passes.patterns.structure.registry import (
    implementations,
    register_structure,
    register_this_as_structure,
    structure_patterns,
    unregister_structure,
)
from xpu_graph.target import Target


def patterns_for(target: Target) -> list[type[Pass]]:
    """The passes of all patterns that may serve a target; they may change from call to call."""
    return [*plugin_patterns(), *structure_patterns(target), *COMMON]


__all__ = [
    "COMMON",
    "STRUCTURES",
    "Pattern",
    "PatternPass",
    "deregister_plugin_patterns",
    "enable_plugin_patterns",
    "implementations",
    "pass_of",
    "patterns_for",
    "plugin_patterns",
    "register_plugin_pattern",
    "register_structure",
    "register_this_as_pattern_constraint",
    "register_this_as_plugin_pattern",
    "register_this_as_structure",
    "unregister_structure",
]
