"""Patterns: a shape, conditions and a replacement each; see ``pattern.py`` and ``plugin.py``."""

from xpu_graph.passes.patterns.pattern import Pattern, PatternPass, pass_of
from xpu_graph.passes.patterns.plugin import (
    deregister_plugin_patterns,
    enable_plugin_patterns,
    plugin_patterns,
    register_plugin_pattern,
    register_this_as_pattern_constraint,
    register_this_as_plugin_pattern,
)

__all__ = [
    "Pattern",
    "PatternPass",
    "deregister_plugin_patterns",
    "enable_plugin_patterns",
    "pass_of",
    "plugin_patterns",
    "register_plugin_pattern",
    "register_this_as_pattern_constraint",
    "register_this_as_plugin_pattern",
]
