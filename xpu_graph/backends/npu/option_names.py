"""The sentences for an option that nobody knows, and for one given where it has no effect."""

from __future__ import annotations

import difflib

from xpu_graph.backends.npu.option_table import (
    GE_MODES,
    LEGACY,
    OPPOSITES,
    OPTIONS,
    SYNONYMS,
    TORCHAIR_MODES,
    OptionSpec,
)
from xpu_graph.backends.npu.torchair_groups import LEAVES, TOP_GROUPS, TWINS


def where_it_works(modes: frozenset[str]) -> str:
    """The modes and compilers that take an option, for the end of a sentence."""
    names = [f"mode {mode!r}" for mode in GE_MODES if mode in modes]
    names += [f"compiler {other!r}" for other in sorted(modes.difference(GE_MODES))]
    return " or ".join(names)


def not_here(name: str, engine: str, modes: frozenset[str], what: str = "option") -> str:
    """The message for a known option that has no effect with an engine."""
    kind = "in mode" if engine in GE_MODES else "with compiler"
    return (
        f"{what} {name!r} of Target.npu is not available {kind} {engine!r}; use "
        f"{where_it_works(modes)}"
    )


def unknown_option(given: object, engine: str, where: str) -> str:
    """The message for an option that nobody knows: names the nearest ones and where they work.

    Args:
        given: the key.
        engine: the mode or compiler it was given with.
        where: the place, for the message.
    """
    legal = [name for name, option in OPTIONS.items() if engine in option.modes]
    if engine in TORCHAIR_MODES:
        legal += sorted({path.partition(".")[0] for path in LEAVES if not LEAVES[path].refused})
    hints = dict.fromkeys(map(_hint, _near(str(given))))
    near = f"; did you mean {', or '.join(hints)}?" if hints else "."
    return (
        f"unknown option {given!r} for {where}{near} Legal: compiler, mode, allow_unsafe, "
        f"{', '.join(legal)}"
    )


def _near(given: str) -> list[str]:
    known = {name.lower(): name for name in (*OPTIONS, *SYNONYMS, *LEGACY, *TOP_GROUPS)}
    known.update({path.lower(): path for path in LEAVES})
    known.update({path.rpartition(".")[2].lower(): path for path in LEAVES if path not in TWINS})
    known.update({name.lower(): name for name in (*SYNONYMS, *OPTIONS)})
    if given.lower() in known:
        return [known[given.lower()]]
    near = difflib.get_close_matches(given.lower(), known, n=3, cutoff=0.6)
    return [known[name] for name in near]


def _hint(name: str) -> str:
    """What to give instead of a known name, and where that works."""
    path = name if name in LEAVES else ""
    if path in TWINS:
        name = TWINS[path]
    option = SYNONYMS.get(name) or LEGACY.get(name) or name
    opposite = ", which says the opposite," if name in OPPOSITES else ""
    spec: OptionSpec | None = OPTIONS.get(option) or LEAVES.get(option)
    if spec is None:
        return f"{option!r} (a group of torchair: {where_it_works(frozenset(TORCHAIR_MODES))})"
    if option in LEAVES:
        group, _, leaf = option.rpartition(".")
        return f"{leaf!r} in group {group!r} of torchair ({where_it_works(spec.modes)})"
    return f"{option!r}{opposite} ({where_it_works(spec.modes)})"
