"""What a call's inputs have to look like, checked at every call.

The vendor checks at a graph's first call and never again: a smaller tensor given later would be
broadcast into the buffer of the larger one. Dynamo's guards see to it where Dynamo calls.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from xpu_graph.errors import BackendError


@dataclass(frozen=True)
class InputCheck:
    """One tensor that the caller gives; plain data, so that it can be stored.

    Attributes:
        position: which input it is.
        dtype: its type, as ``str(torch.dtype)``.
        device: its device.
        shape: its sizes; None for one that may vary.
        stride: its strides in elements; None for one that may vary.
        sizes_at: for a size that is an input itself, the dimension and that input's position.
    """

    position: int
    dtype: str
    device: str
    shape: list[int | None]
    stride: list[int | None]
    sizes_at: list[tuple[int, int]]


def describe_inputs(values: Sequence[Any], unchecked: Collection[int]) -> list[InputCheck]:
    """What the inputs of later calls have to look like.

    Args:
        values: fake inputs, SymInts among them.
        unchecked: positions of inputs that are the model's own, and stay what they are.
    """
    places = {
        value.node.expr: position
        for position, value in enumerate(values)
        if isinstance(value, torch.SymInt)
    }
    return [
        InputCheck(
            position,
            str(value.dtype),
            str(value.device),
            [_known(size) for size in value.shape],
            [_known(stride) for stride in value.stride()],
            _sizes_that_are_inputs(value.shape, places),
        )
        for position, value in enumerate(values)
        if isinstance(value, torch.Tensor) and position not in unchecked
    ]


def _sizes_that_are_inputs(shape: Sequence[Any], places: dict[Any, int]) -> list[tuple[int, int]]:
    return [
        (dimension, places[size.node.expr])
        for dimension, size in enumerate(shape)
        if isinstance(size, torch.SymInt) and size.node.expr in places
    ]


def _known(size: Any) -> int | None:
    return size if isinstance(size, int) else None


class InputChecker:
    """Compares the inputs of a call with what they have to look like.

    Args:
        checks: one a tensor that is checked.
    """

    def __init__(self, checks: Sequence[InputCheck]) -> None:
        self._checks = [
            (
                check.position,
                getattr(torch, check.dtype.removeprefix("torch.")),
                torch.device(check.device),
                torch.Size(check.shape) if None not in check.shape else None,  # type: ignore[arg-type]
                tuple(check.stride),
                check,
            )
            for check in checks
        ]

    def check(self, inputs: Sequence[Any]) -> None:
        """Refuse inputs that the graph was not compiled for.

        Raises:
            BackendError: names the input, what it is, and what it has to be.
        """
        for position, dtype, device, shape, stride, check in self._checks:
            value = inputs[position]
            fits = (
                isinstance(value, torch.Tensor)
                and value.dtype is dtype
                and value.device == device
                and (
                    (value.shape == shape and value.stride() == stride)
                    or _has_geometry(value, check, inputs)
                )
            )
            if not fits:
                raise BackendError(
                    f"input {position} of a compiled graph is {_describe(value)}; it was compiled "
                    f"for {check.dtype} on {check.device}, shape {_pattern(check.shape)}, "
                    f"stride {_pattern(check.stride)}"
                )


def _has_geometry(value: torch.Tensor, check: InputCheck, inputs: Sequence[Any]) -> bool:
    """Whether sizes and strides are right; a stride says nothing where there is one element."""
    if value.dim() != len(check.shape):
        return False
    wanted = list(check.shape)
    for dimension, place in check.sizes_at:
        wanted[dimension] = int(inputs[place])
    pairs = zip(value.shape, wanted, strict=True)
    if any(size != expected for size, expected in pairs if expected is not None):
        return False
    return value.numel() == 0 or all(
        expected is None or stride == expected or size == 1
        for size, stride, expected in zip(value.shape, value.stride(), check.stride, strict=True)
    )


def _describe(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{value!r}, no tensor"
    return f"{value.dtype} on {value.device}, shape {tuple(value.shape)}, stride {value.stride()}"


def _pattern(sizes: Sequence[int | None]) -> str:
    return f"({', '.join('*' if size is None else str(size) for size in sizes)})"
