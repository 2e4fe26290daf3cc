"""Where captures are made."""

from __future__ import annotations

from typing import Any

from xpu_graph.backends.device_graph.device import GraphDevice, shared_stream


class Place:
    """Where captures are made: the device, its memory pool, and the stream that goes with it.

    Args:
        device: what captures.
        index: of the device.
        pool: a pool that graphs share; None: a pool of its own.
    """

    def __init__(self, device: GraphDevice, index: int | None, pool: Any = None) -> None:
        self.device = device
        self.index = index
        self._shared = pool is not None
        self.pool = pool
        self.stream: Any = None
        self.renew()

    def renew(self) -> None:
        """Take a new pool, since a failed capture can leave one unusable; not for a shared one."""
        if self._shared:
            self.stream = shared_stream(self.device, self.index, self.pool)
        else:
            self.pool = self.device.pool_handle()
            self.stream = self.device.stream(self.index)
