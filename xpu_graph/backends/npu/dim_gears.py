"""Dim gears: the sizes that GE compiles a dynamic dimension for, and the vendor's limits on them.

The limits are those of ``torchair.inference.set_dim_gears`` and of its merge of dimensions, which
the vendor asserts while it compiles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from xpu_graph.backends.npu.option_table import OptionSpec, is_int, wrong

MAX_GEARS = 100
"""Most sizes of one dimension, and most combinations of them."""

Gears = Mapping[str, Mapping[int, tuple[int, ...]]]
"""Name of an input -> dimension -> sizes."""


def check_gears(spec: OptionSpec, value: Any, where: str) -> dict[str, dict[int, tuple[int, ...]]]:
    """Check option ``dim_gears``; returns it with tuples of sizes.

    Raises:
        ConfigError: it is not of that form, or a dimension has too few or too many sizes.
    """
    legal = "give name of an input -> dimension -> list of sizes"
    if not isinstance(value, Mapping):
        raise wrong(spec, value, where, legal)
    checked = {}
    for entry, dims in value.items():
        if not isinstance(entry, str) or not entry:
            raise wrong(spec, entry, where, legal)
        if not isinstance(dims, Mapping) or not dims:
            raise wrong(spec, dims, where, f"{legal} (input {entry!r})")
        checked[entry] = {
            _dimension(spec, dim, where, entry): _sizes(spec, sizes, where, entry, dim)
            for dim, sizes in dims.items()
        }
    return checked


def _dimension(spec: OptionSpec, dim: Any, where: str, entry: str) -> int:
    if not is_int(dim) or dim < 0:
        raise wrong(spec, dim, where, f"give dimensions of input {entry!r} as numbers from 0")
    return int(dim)


def _sizes(spec: OptionSpec, sizes: Any, where: str, entry: str, dim: Any) -> tuple[int, ...]:
    many = isinstance(sizes, (list, tuple)) and 2 <= len(sizes) <= MAX_GEARS
    if not many or not all(is_int(size) and size >= 2 for size in sizes):
        raise wrong(
            spec,
            sizes,
            where,
            f"give a list of 2 to {MAX_GEARS} sizes, each 2 or more, for input {entry!r}, "
            f"dimension {dim}",
        )
    return tuple(sizes)


def why_not_combined(gears: Gears, policy: str) -> str | None:
    """Why the sizes cannot be combined as the vendor does it; None if they can.

    Args:
        gears: as ``check_gears`` returns them.
        policy: ``"zip"``: the first sizes of all dimensions belong together, and so on;
            ``"product"``: every size of a dimension goes with every size of another.
    """
    sizes = [dim_sizes for dims in gears.values() for dim_sizes in dims.values()]
    if not sizes:
        return None
    if policy == "product":
        many = math.prod(len(set(entry)) for entry in sizes)
    elif len({len(entry) for entry in sizes}) > 1:
        counts = ", ".join(str(len(entry)) for entry in sizes)
        return (
            f"the dimensions have {counts} sizes; with merge policy 'zip' all need equally many; "
            "give as many, or set inference_config.dynamic_gears_merge_policy to 'product'"
        )
    else:
        many = len(set(zip(*sizes, strict=True)))
    if many > MAX_GEARS:
        return f"{many} combinations of sizes; the vendor takes at most {MAX_GEARS}"
    return None
