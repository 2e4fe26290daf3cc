"""What the zoo hands out, and how it makes it."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from tests.zoo import language, recommenders


@dataclasses.dataclass
class Sample:
    """A model in inference, and keyword arguments of calls.

    Attributes:
        model: the module, in ``eval`` mode.
        small, large: arguments that differ in every size that may change from call to call.
    """

    model: torch.nn.Module
    small: dict[str, Any]
    large: dict[str, Any]


def build(name: str, attention: str = "eager", dtype: torch.dtype = torch.float32) -> Sample:
    """A model and inputs, equal every time.

    Args:
        name: one of ``NAMES``.
        attention: of ``transformers``, ``"eager"`` or ``"sdpa"``; recommenders have none to choose.
        dtype: of parameters, and of inputs that are no numbers of rows.

    Raises:
        KeyError: there is no such model.
        ValueError: the model does not offer this attention.
    """
    torch.manual_seed(0)
    known = name in language.MODELS
    model = language.model(name, attention) if known else recommenders.MODELS[name]()
    _spread(model)
    model = model.eval().to(dtype)
    inputs = language.inputs(name) if known else recommenders.inputs(name)
    small, large = ({key: _cast(one, dtype) for key, one in given.items()} for given in inputs)
    return Sample(model, small, large)


def _spread(model: torch.nn.Module) -> None:
    """Move parameters off ones and zeros, so that a lost weight or bias changes the result."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)


def _cast(value: Any, dtype: torch.dtype) -> Any:
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(dtype) if floating else value
