"""The checks of configuration values: each returns the value to keep, or says what is legal."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import math
import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

from xpu_graph.errors import ConfigError, unknown_name
from xpu_graph.target import OptLevel, Target

VERIFY_CHOICES = ("off", "final", "each")
FALLBACK_CHOICES = ("raise", "eager")
PARTITIONERS = ("DEFAULT", "MINCUT")


def load_dotted_name(name: str, where: str) -> Any:
    """Import what ``package.module.attribute`` names.

    Raises:
        ConfigError: there is no such module or attribute, or the name has no dot.
    """
    module_name, _, attribute = name.rpartition(".")
    if not module_name or not all(part.isidentifier() for part in name.split(".")):
        raise ConfigError(f"{where}: {name!r} is not a dotted name 'package.module.attribute'")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{where}: cannot import {name!r}: {error}") from error


def parse_tolerances(value: object) -> dict[str, float] | None:
    """Read ``enable_interceptor``: None when it is off, else ``rtol`` and ``atol`` as given.

    Raises:
        ConfigError: the text is not of the form ``"rtol=1e-5,atol=1e-6"``.
    """
    if value is None or value is False:
        return None
    if value is True:
        return {}
    legal = 'True, None or "rtol=1e-5,atol=1e-6"'
    if not isinstance(value, str):
        raise _wrong_type("enable_interceptor", value, legal)
    parsed: dict[str, float] = {}
    for part in value.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if name not in ("rtol", "atol") or name in parsed:
            raise _wrong_type("enable_interceptor", value, legal)
        try:
            parsed[name] = float(number)
        except ValueError:
            raise _wrong_type("enable_interceptor", value, legal) from None
        if not 0 <= parsed[name] < math.inf:
            raise _wrong_type("enable_interceptor", value, legal)
    if len(parsed) == 1:  # torch.testing wants both or none
        parsed = {"rtol": 0.0, "atol": 0.0, **parsed}
    return parsed


def _wrong_type(name: str, value: object, legal: str) -> ConfigError:
    kind = type(value).__name__
    return ConfigError(f"XpuGraphConfig.{name}: {value!r} ({kind}) is not legal; give {legal}")


def _bool(name: str, value: object) -> bool:
    if type(value) is not bool:
        raise _wrong_type(name, value, "True or False")
    return value


def _choice(legal: tuple[str, ...]) -> Callable[[str, object], object]:
    def check(name: str, value: object) -> object:
        if not isinstance(value, str) or value not in legal:
            raise ConfigError(unknown_name(name, value, legal, "XpuGraphConfig"))
        return value

    return check


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _wrong_type(name, value, "a whole number, 0 or more")
    return value


def _count_or_none(name: str, value: object) -> int | None:
    return None if value is None else _count(name, value)


def _seconds(name: str, value: object) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf:
        with contextlib.suppress(OverflowError):
            return float(value)
    raise _wrong_type(name, value, "a number of seconds, 0 or more")


def _path(name: str, value: object) -> str | None:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is None:
        return None
    if not isinstance(value, str) or "\0" in value:
        raise _wrong_type(name, value, "a path, or None")
    try:
        path = pathlib.Path(value).expanduser()
        in_the_way = path.exists() and not path.is_dir()
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody has that home directory
        raise ConfigError(f"XpuGraphConfig.{name}: {value!r} cannot be used: {error}") from error
    if in_the_way:
        raise ConfigError(f"XpuGraphConfig.{name}: {value!r} is not legal: there is a file")
    return str(path) if value else value


def _names(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, (tuple, list)) or not all(isinstance(entry, str) for entry in value):
        raise _wrong_type(name, value, "a tuple of names")
    return tuple(value)


def _vendor_config(name: str, value: object) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _wrong_type(name, value, "a dict of vendor options by name, or None")
    return {key: _own_containers(entry) for key, entry in value.items()}


def _own_containers(value: Any) -> Any:
    """Copy the containers of a value; what they hold keeps its identity, and so its equality."""
    if type(value) is dict:
        return {key: _own_containers(entry) for key, entry in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(_own_containers(entry) for entry in value)
    return value


def _partitioner(name: str, value: object) -> object:
    if value is None:
        return value
    if callable(value):
        return _takes_joint_graph(name, value, value)
    if not isinstance(value, str):
        raise _wrong_type(name, value, "a name, a callable, or None")
    if value in PARTITIONERS:
        return value
    if "." not in value:
        legal = (*PARTITIONERS, "a dotted name", "a callable")
        raise ConfigError(unknown_name(name, value, legal, "XpuGraphConfig"))
    named = load_dotted_name(value, f"XpuGraphConfig.{name}")
    if not callable(named):
        raise ConfigError(f"XpuGraphConfig.{name}: {value!r} is not something that can be called")
    return _takes_joint_graph(name, value, named)


def _takes_joint_graph(name: str, value: object, function: Callable[..., Any]) -> object:
    """The value, where the function has the parameters that AOTAutograd calls it with."""
    try:
        parameters = inspect.signature(function)
    except (TypeError, ValueError):  # builtins need not have a signature
        return value
    try:
        parameters.bind(None, None, num_fwd_outputs=1, static_lifetime_input_indices=None)
    except TypeError as error:
        raise ConfigError(
            f"XpuGraphConfig.{name}: {value!r} cannot be called as partition_fn(joint_module, "
            f"joint_inputs, *, num_fwd_outputs, static_lifetime_input_indices): {error}"
        ) from error
    return value


def _interceptor(name: str, value: object) -> object:
    parse_tolerances(value)
    return value


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "is_training": _bool,
    "debug": _bool,
    "target": lambda name, value: Target(value),
    "opt_level": lambda name, value: OptLevel.parse(value),
    "dump_graph": _bool,
    "enable_cache": _bool,
    "freeze": _bool,
    "constant_folding": _bool,
    "folding_freezed_params": _bool,
    "vendor_compiler_config": _vendor_config,
    "enable_interceptor": _interceptor,
    "include_patterns": _names,
    "skip_patterns": _names,
    "fallback_legacy_dispatch": _bool,
    "partition_fn": _partitioner,
    "fallback": _choice(FALLBACK_CHOICES),
    "verify": _choice(VERIFY_CHOICES),
    "fuel": _count_or_none,
    "dump_dir": _path,
    "fold_limit_bytes": _count,
    "cache_wait_s": _seconds,
}
"""Field -> the check that returns the value to keep."""
