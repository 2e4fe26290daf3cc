"""What conditions of patterns ask: each gives the reason why not, or None.

They are joined by ``or``, and ask nothing that would become a guard.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from xpu_graph.fx import same_size


def why_not_tensor(name: str, value: Any) -> str | None:
    """Whether an operand is a tensor."""
    return None if isinstance(value, torch.Tensor) else f"{name} is no tensor"


def why_not_floating(name: str, value: Any) -> str | None:
    """Whether an operand is a tensor of floating-point numbers."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return None
    return f"{name} is not floating point"


def why_not_number(name: str, value: Any) -> str | None:
    """Whether an operand is a number that is known now."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return None
    return f"{name} is known at run time only"


def why_not_near(name: str, value: Any, expected: float, tolerance: float = 1e-7) -> str | None:
    """Whether a number is the one that a formula has, up to how programs round it."""
    if why_not_number(name, value) is None and math.isclose(value, expected, rel_tol=tolerance):
        return None
    return f"{name} is {value}, and not {expected:.6g}"


def why_not_last(dims: Any, value: torch.Tensor) -> str | None:
    """Whether the dimensions that something goes over are the last one alone."""
    numbers = list(dims) if isinstance(dims, (list, tuple)) else [dims]
    if numbers in ([-1], [value.dim() - 1]):
        return None
    return "it does not go over the last dimension alone"


def why_not_shape(name: str, value: Any, shape: Any) -> str | None:
    """Whether a tensor has a shape for certain."""
    rank = len(shape)
    if isinstance(value, torch.Tensor) and value.dim() == rank:
        same = all(map(same_size, value.shape, shape))
    else:
        same = False
    return None if same else f"{name} does not have the shape {tuple(shape)}"


def why_not_row(name: str, value: Any, x: torch.Tensor) -> str | None:
    """Whether an operand has one number for each place of another's last dimension; or is None."""
    return None if value is None else why_not_shape(name, value, x.shape[-1:])
