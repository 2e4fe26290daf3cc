"""The options of captured device graphs; the same names on every target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DeviceGraphOptions:
    """How a graph is captured and replayed. The caller has checked the values.

    Attributes:
        force_eager: run operator by operator; nothing is captured.
        force_recapture: capture at every call; tells a fault of replaying from one of capturing.
        capture_limit: how many keys each piece may have; one more, and the graph runs eagerly.
        use_graph_pool: the memory pool to capture in, shared with other graphs; a handle of the
            device's ``graph_pool_handle()``. By default each graph has its own.
        clone_input: copy inputs into memory of the graph at each call. Otherwise their addresses
            are part of the key; nothing is ever written into a caller's tensor.
        clone_output: return copies, which no later call overwrites.
        frozen_parameter: static inputs never move. Their addresses are not looked at, except where
            ``XPUGRAPH_DEBUG`` is set, and they are kept alive.
        capture_error_mode: what fails while a capture is under way: unsafe calls of any thread
            (``"global"``), of this thread (``"thread_local"``), none (``"relaxed"``).
    """

    force_eager: bool = False
    force_recapture: bool = False
    capture_limit: int = 64
    use_graph_pool: tuple[int, int] | None = None
    clone_input: bool = True
    clone_output: bool = False
    frozen_parameter: bool = False
    capture_error_mode: str = "global"
