"""The environment variables that stand for configuration fields, read in this one place."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

from xpu_graph.errors import ConfigError, unknown_name

VENDOR_MODES = (
    "none",
    "default",
    "cudagraphs",
    "reduce-overhead",
    "max-autotune",
    "max-autotune-no-cudagraphs",
)
"""Legal values of ``VENDOR_COMPILER_MODE``."""

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


class Setting(NamedTuple):
    """A field that the environment sets: its value, and the words to blame it by."""

    value: Any
    origin: str


def _bool(origin: str, text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE or lowered in _FALSE or not lowered:
        return lowered in _TRUE
    raise ConfigError(f"{origin} is not legal; give one of {', '.join(_TRUE + _FALSE)}")


def _count(origin: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise ConfigError(f"{origin} is not legal; give a whole number, 0 or more")
    return int(text)


def _names(origin: str, text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _text(origin: str, text: str) -> str:
    return text.strip()


_VARIABLES: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "XPUGRAPH_DEBUG": ("debug", _bool),
    "XPUGRAPH_OPT_LEVEL": ("opt_level", _text),
    "XPUGRAPH_DUMP_DIR": ("dump_dir", _text),
    "XPUGRAPH_INTERCEPTOR": ("enable_interceptor", _text),
    "XPUGRAPH_PARTITIONER": ("partition_fn", _text),
    "XPUGRAPH_FUEL": ("fuel", _count),
    "XPUGRAPH_VERIFY": ("verify", _text),
    "XPUGRAPH_DEBUG_INCLUDE_PATTERNS": ("include_patterns", _names),
    "XPUGRAPH_DEBUG_SKIP_PATTERNS": ("skip_patterns", _names),
}
"""Environment variable -> the field it stands for, and its reader."""


def read_settings() -> dict[str, Setting]:
    """The fields that the environment sets now, by name.

    Raises:
        ConfigError: a variable cannot be read as its field's kind of value.
    """
    settings = {}
    for variable, (field_name, read) in _VARIABLES.items():
        text = os.environ.get(variable)
        if text is not None:
            origin = f"environment variable {variable}={text!r}"
            settings[field_name] = Setting(read(origin, text), origin)
    if "dump_dir" in settings:
        settings["dump_graph"] = Setting(True, settings["dump_dir"].origin)
    return settings


def read_vendor_mode() -> str | None:
    """``VENDOR_COMPILER_MODE``, or None where it is not set.

    Raises:
        ConfigError: it is none of ``VENDOR_MODES``.
    """
    mode = os.environ.get("VENDOR_COMPILER_MODE")
    if mode is not None and mode not in VENDOR_MODES:
        where = "environment variable VENDOR_COMPILER_MODE"
        raise ConfigError(unknown_name("value", mode, VENDOR_MODES, where))
    return mode
