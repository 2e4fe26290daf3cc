"""What an operator is called with, by the names of its schema."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import fx


def argument(node: fx.Node, name: str) -> Any:
    """An argument of a call, or its default.

    Args:
        node: a call of an operator that has a schema.
        name: the argument's name there.

    Raises:
        KeyError: the operator has no argument of this name.
    """
    if name in node.kwargs:
        return node.kwargs[name]
    position, default = _places(node.target)[name]
    return node.args[position] if position < len(node.args) else default


@functools.cache
def _places(target: torch._ops.OpOverload) -> dict[str, tuple[int, Any]]:
    arguments = enumerate(target._schema.arguments)
    return {given.name: (position, given.default_value) for position, given in arguments}
