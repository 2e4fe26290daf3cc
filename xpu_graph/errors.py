"""The errors xpu_graph raises, one family, and the sentence for an unknown name.

Every message names the value that was given, the place it was given at and what would have been
legal there. Under ``torch.compile`` Dynamo wraps them in ``BackendCompilerFailed``; the original
is its ``inner_exception``.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class XpuGraphError(RuntimeError):
    """Base of every error that xpu_graph raises on purpose."""


class ConfigError(XpuGraphError, ValueError):
    """A configuration value, option or environment variable is not legal."""


class PassError(XpuGraphError):
    """A pass broke one of the rules of ``passes/README.md``, or failed while it ran."""


class BackendError(XpuGraphError):
    """A vendor compiler failed, or was handed a graph that is not for its device."""


class BackendUnavailable(BackendError):
    """The target cannot be used on this machine; the message is one sentence that says why."""


class CacheError(XpuGraphError):
    """A cache was used in a way that cannot work (never raised for a bad entry: that is a miss)."""


class NotCacheable(CacheError):
    """What was compiled cannot be kept; the message is the reason. Caught by the compiler."""


def unknown_name(
    what: str, given: object, known: Iterable[object], where: str = "", legal: str = ""
) -> str:
    """One sentence for a name nobody knows.

    Args:
        what: kind of the name, for example ``"target"``.
        given: what was given.
        known: the legal names.
        where: where it was given, for example ``"XpuGraphConfig"``.
        legal: what to say is legal, where listing ``known`` would be too long.

    Returns:
        A message that names the value, the nearest legal name and all legal names.
    """
    names = sorted(str(name) for name in known)
    lowered = {name.lower(): name for name in reversed(names)}
    near = difflib.get_close_matches(str(given).lower(), lowered, n=1, cutoff=0.7)
    hint = f"; did you mean {lowered[near[0]]!r}?" if near else "."
    place = f" for {where}" if where else ""
    listed = legal or ", ".join(names) or "(none)"
    return f"unknown {what} {given!r}{place}{hint} Legal: {listed}"
