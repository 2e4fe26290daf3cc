"""What AOTAutograd, and through it Dynamo, gets back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xpu_graph.artifact import SerializableArtifact


def boxed_entry(artifact: SerializableArtifact) -> Callable[[list[Any]], Any]:
    """The artifact as a function of one list that says it is one.

    AOTAutograd passes the inputs as a list, without keeping them alive, only to functions with the
    attribute ``_boxed_call``. A method takes it from its function, so that no call is added.
    """
    entry = artifact.entry()
    function: Any = getattr(entry, "__func__", entry)
    function._boxed_call = True
    return entry
