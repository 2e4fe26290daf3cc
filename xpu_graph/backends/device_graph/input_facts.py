"""What a graph was traced for, to be compared with what it is called with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class InputFacts:
    """What the graph was traced for, of one tensor input; None stands for a symbolic number."""

    dtype: str
    device: str
    shape: list[int | None]
    stride: list[int | None]

    def difference(self, tensor: torch.Tensor) -> str | None:
        """What of a tensor is not as it was traced; None for nothing."""
        for name, have in (("dtype", str(tensor.dtype)), ("device", str(tensor.device))):
            if have != getattr(self, name):
                return f"{name} {have}, traced with {getattr(self, name)}"
        have_shape = list(tensor.shape)
        if len(have_shape) != len(self.shape) or _differ(have_shape, self.shape):
            return f"shape {have_shape}, traced with {self.shape}"
        matter = [n for n, size in enumerate(have_shape) if size > 1 and 0 not in have_shape]
        strides = [tensor.stride(n) for n in matter]
        if _differ(strides, [self.stride[n] for n in matter]):
            return f"stride {list(tensor.stride())}, traced with {self.stride}"
        return None


def _differ(have: Sequence[int], wanted: Sequence[int | None]) -> bool:
    return any(w is not None and h != w for h, w in zip(have, wanted, strict=True))


def facts_of(tensor: torch.Tensor) -> InputFacts:
    """What a fake tensor says that the real ones will be."""

    def numbers(sizes: Sequence[Any]) -> list[int | None]:
        return [size if isinstance(size, int) else None for size in sizes]

    return InputFacts(
        str(tensor.dtype), str(tensor.device), numbers(tensor.shape), numbers(tensor.stride())
    )
