"""What several operators ask of their operands: each gives the reason why not, or None."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from xpu_graph.fx import same_size
from xpu_graph.torch_compat import storage_id

HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32)


def why_not_here(*tensors: Any) -> str | None:
    """Whether the tensors are where the operators run; programs may compute on the CPU, too."""
    elsewhere = {one.device.type for one in tensors if isinstance(one, torch.Tensor)} & {"cpu"}
    return "it is computed on the CPU" if elsewhere else None


def why_not_dtype(
    name: str, value: torch.Tensor, legal: Sequence[torch.dtype] = FLOATS
) -> str | None:
    """Whether a dtype is one of those that an operator is documented for."""
    if value.dtype in legal:
        return None
    return f"{name} is {value.dtype}, and not one of {', '.join(map(str, legal))}"


def why_not_same_dtype(name: str, value: Any, x: torch.Tensor) -> str | None:
    """Whether an operand has another's dtype; or is None."""
    if value is None or value.dtype == x.dtype:
        return None
    return f"{name} is {value.dtype}, and not {x.dtype}"


def why_not_rank(name: str, value: torch.Tensor, least: int, most: int) -> str | None:
    """Whether a tensor has as many dimensions as an operator is documented for."""
    if least <= value.dim() <= most:
        return None
    wanted = f"{least}" if least == most else f"{least} to {most}"
    return f"{name} has {value.dim()} dimensions, and not {wanted}"


def why_not_at_most(name: str, size: Any, limit: int) -> str | None:
    """Whether a size is known, and not above a limit."""
    if not isinstance(size, int):
        return f"{name} is known at run time only, and may be above {limit}"
    return f"{name} is {size}, above {limit}" if size > limit else None


def is_left_half(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors are the left and the right half of one tensor's last dimension."""
    if left.dim() < 2 or storage_id(left) != storage_id(right):
        return False
    size, start, other = left.shape[-1], left.storage_offset(), right.storage_offset()
    if not all(isinstance(number, int) for number in (size, start, other)):
        return False
    same = all(map(same_size, left.stride(), right.stride()))
    return same and left.stride(-1) == 1 and other - start == size


def wide_of(*tensors: torch.Tensor | None) -> torch.dtype:
    """The dtype that holds the values of all the tensors."""
    first, *others = (one.dtype for one in tensors if one is not None)
    for dtype in others:
        first = torch.promote_types(first, dtype)
    return first


def plain(x: torch.Tensor) -> torch.Tensor:
    """The tensor in the order of its dimensions.

    The results of several operators are in that order whatever the operands are laid out as, while
    their fake kernels say that they follow the operands.
    """
    return x.contiguous()
