"""What a case is, and the inputs that cases are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

FLOATS = ("float32", "float16", "bfloat16")
INTS = ("int64", "int32")
BOOL = ("bool",)
NUMBERS = FLOATS + INTS
ALL = NUMBERS + BOOL


class Maker:
    """Makes CPU inputs of one data type, the same ones for a seed."""

    def __init__(self, dtype: torch.dtype, seed: int = 0) -> None:
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> torch.Tensor:
        """Values around zero."""
        if self.dtype.is_floating_point:
            return torch.randn(shape, generator=self.generator).to(self.dtype)
        low, high = (0, 2) if self.dtype == torch.bool else (-5, 6)
        return torch.randint(low, high, shape, generator=self.generator).to(self.dtype)

    def positive(self, *shape: int) -> torch.Tensor:
        """Values from one to four, integers for integer types."""
        values = torch.rand(shape, generator=self.generator) * 3 + 1
        return values.to(self.dtype)

    def unit(self, *shape: int) -> torch.Tensor:
        """Values between zero and one, the ends excluded."""
        return (torch.rand(shape, generator=self.generator) * 0.8 + 0.1).to(self.dtype)

    def index(self, limit: int, *shape: int) -> torch.Tensor:
        """Integers from zero to the limit."""
        return torch.randint(0, limit, shape, generator=self.generator)

    def places(self, limit: int, count: int) -> torch.Tensor:
        """Different integers from zero to the limit."""
        return torch.randperm(limit, generator=self.generator)[:count]

    def mask(self, *shape: int) -> torch.Tensor:
        """Bools."""
        return torch.randint(0, 2, shape, generator=self.generator).bool()

    def turned(self, *shape: int) -> torch.Tensor:
        """A transposed view of a matrix."""
        return self(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2)

    def cut(self, *shape: int) -> torch.Tensor:
        """Every second element of the last dimension, from the second on."""
        return self(*shape[:-1], shape[-1] * 2 + 1)[..., 1::2]


@dataclasses.dataclass(frozen=True)
class Case:
    """One call.

    Args:
        call: what is called, with the inputs.
        inputs: makes them, of a :class:`Maker`.
        dtypes: names of the data types it is called with.
        loose: a tolerance for float32 that is wider than the usual one; 0 for the usual one.
    """

    call: Callable[..., Any]
    inputs: Callable[[Maker], tuple[Any, ...]] = lambda m: (m(3, 4),)
    dtypes: tuple[str, ...] = FLOATS
    loose: float = 0.0


def pair(m: Maker) -> tuple[Any, ...]:
    return m(3, 4), m(3, 4)


def spread(m: Maker) -> tuple[Any, ...]:
    return m(2, 3, 4), m(3, 1)


def divisors(m: Maker) -> tuple[Any, ...]:
    return m(3, 4), m.positive(3, 4)


def positive(m: Maker) -> tuple[Any, ...]:
    return (m.positive(3, 4),)


def unit(m: Maker) -> tuple[Any, ...]:
    return (m.unit(3, 4),)


def cube(m: Maker) -> tuple[Any, ...]:
    return (m(2, 3, 4),)


def image(m: Maker) -> tuple[Any, ...]:
    return (m(2, 3, 6, 8),)
