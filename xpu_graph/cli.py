"""``python -m xpu_graph``: what is there, and what it would do.

python -m xpu_graph patterns                 every structure, and who implements it
python -m xpu_graph patterns --target npu    for one target
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from xpu_graph.errors import XpuGraphError
from xpu_graph.passes.patterns import STRUCTURES, implementations, plugin_patterns
from xpu_graph.passes.patterns.structure import Implementation
from xpu_graph.target import Target


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: what follows the program's name; that of this process by default.

    Returns:
        0, or 1 where a value is not legal; the message went to the standard error stream.
    """
    parser = argparse.ArgumentParser(prog="python -m xpu_graph", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="command", required=True)
    patterns = commands.add_parser("patterns", help="list structures and who implements them")
    patterns.add_argument("--target", help="one target alone; all that are known by default")
    given = parser.parse_args(arguments)
    try:
        print("\n".join(patterns_lines(given.target)))
    except XpuGraphError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def patterns_lines(target: str | None = None) -> list[str]:
    """Structures with their operands, their implementations, and the patterns of users.

    Args:
        target: one target alone; None for all.

    Raises:
        ConfigError: there is no such target.
    """
    found = implementations(target)
    lines = ["Structures (operands), and what implements them: target, pattern, priority, level"]
    for name, structure in sorted(STRUCTURES.items()):
        lines.append(f"  {name} ({', '.join(structure.operands)})")
        for one in sorted(
            (one for one in found if one.structure == name),
            key=lambda one: (one.target.value, -one.priority, one.name),
        ):
            lines.append(f"    {_described(one)}")
    only = None if target is None else Target(target)
    plugins = [one.pattern for one in plugin_patterns() if only in (None, one.pattern.target)]
    lines.append(f"Patterns of this process' plug-ins: {len(plugins) or 'none'}")
    lines += [f"  {one.target.value if one.target else 'all':8} {one.name}" for one in plugins]
    return lines


def _described(one: Implementation) -> str:
    return f"{one.target.value:8} {one.name}  {one.priority:+d}  level{int(one.level)}"
