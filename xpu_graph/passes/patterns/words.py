"""The words of declared forms, beside operators; see ``forms.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx

from xpu_graph.errors import PassError


class _Anything:
    """Fits every argument."""

    def __repr__(self) -> str:
        return "ANY"


ANY = _Anything()
"""As an argument in a form: whatever stands there."""


def either(*ways: Any) -> Any:
    """One of several values, the first that fits."""
    return _stand_in(either, ways)


def cast(value: Any) -> Any:
    """A value, or what casts from one floating-point dtype to another made of it."""
    return _stand_in(cast, (value,))


def casted(value: Any) -> Any:
    """What at least one cast from one floating-point dtype to another made of a value."""
    return _stand_in(casted, (value,))


def reshaped(value: Any) -> Any:
    """A value, or what views and copies made of it that keep all elements in their order."""
    return _stand_in(reshaped, (value,))


WORDS = frozenset({either, cast, casted, reshaped})
"""What stands in a form in the place of an operator."""


def _stand_in(word: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    tracer = next((value.tracer for value in values if isinstance(value, fx.Proxy)), None)
    if tracer is None:
        raise PassError(f"{word.__name__} is used in declared forms alone")
    return tracer.create_proxy("call_function", word, values, {})
