"""What AOTAutograd, and through it Dynamo, gets back: a callable, or an error of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from xpu_graph.artifact import SerializableArtifact
from xpu_graph.errors import XpuGraphError
from xpu_graph.torch_compat import DYNAMO_CONTROL_FLOW


def boxed_entry(artifact: SerializableArtifact) -> Callable[[list[Any]], Any]:
    """The artifact as a function of one list that says it is one.

    AOTAutograd passes the inputs as a list, without keeping them alive, only to functions with the
    attribute ``_boxed_call``. A method takes it from its function, so that no call is added.
    """
    entry = artifact.entry()
    function: Any = getattr(entry, "__func__", entry)
    function._boxed_call = True
    return entry


@contextmanager
def named_errors(what: str, kind: type[XpuGraphError]) -> Iterator[None]:
    """Let only errors of ours out, each naming what failed, with the original as its cause.

    Dynamo has its own reading of some errors: an IndexError is the user's, a FakeTensor's error
    breaks the graph and runs it eagerly.
    """
    try:
        yield
    except DYNAMO_CONTROL_FLOW:
        raise
    except XpuGraphError:
        raise
    except Exception as error:
        raise kind(f"{what} failed: {type(error).__name__}: {error}") from error
