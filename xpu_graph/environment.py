"""The environment variables that stand for configuration fields, read in this one place.

A variable that is empty counts as not set.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from typing import Any, NamedTuple

from xpu_graph.errors import ConfigError, unknown_name

log = logging.getLogger(__name__)

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


class Environment(NamedTuple):
    """What the environment said when it was read.

    Attributes:
        settings: the fields that it sets, by name.
        vendor_mode: ``VENDOR_COMPILER_MODE``, or None where it is not set.
    """

    settings: dict[str, Setting]
    vendor_mode: str | None


def _bool(origin: str, text: str) -> bool:
    lowered = text.strip().lower()
    if lowered not in _TRUE + _FALSE:
        raise ConfigError(unknown_name("value", text, _TRUE + _FALSE, origin))
    return lowered in _TRUE


def _count(origin: str, text: str) -> int:
    try:
        if text.strip().isdecimal():
            return int(text)
    except ValueError:  # Python reads no number of thousands of digits
        pass
    raise ConfigError(f"{origin} is not legal; give a whole number, 0 or more")


def _names(origin: str, text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _text(origin: str, text: str) -> str:
    return text.strip()


def _switch_or_text(origin: str, text: str) -> bool | str:
    lowered = text.strip().lower()
    return lowered in _TRUE if lowered in _TRUE + _FALSE else text.strip()


_VARIABLES: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "XPUGRAPH_DEBUG": ("debug", _bool),
    "XPUGRAPH_OPT_LEVEL": ("opt_level", _text),
    "XPUGRAPH_DUMP_DIR": ("dump_dir", _text),
    "XPUGRAPH_INTERCEPTOR": ("enable_interceptor", _switch_or_text),
    "XPUGRAPH_PARTITIONER": ("partition_fn", _text),
    "XPUGRAPH_FUEL": ("fuel", _count),
    "XPUGRAPH_VERIFY": ("verify", _text),
    "XPUGRAPH_DEBUG_INCLUDE_PATTERNS": ("include_patterns", _names),
    "XPUGRAPH_DEBUG_SKIP_PATTERNS": ("skip_patterns", _names),
}
"""Environment variable -> the field it stands for, and its reader."""

_READ_ELSEWHERE = ("XPUGRAPH_CACHE_DIR", "XPUGRAPH_CACHE_HMAC_KEY", "XPUGRAPH_LOGS")
"""Variables that stand for no field."""


def read_environment() -> Environment:
    """What the environment sets now; a variable that looks like one of ours is warned of once.

    Raises:
        ConfigError: a variable cannot be read as its field's kind of value.
    """
    for variable in os.environ:
        if variable.startswith("XPUGRAPH_"):
            _warn_if_unknown(variable)
    settings = {}
    for variable, (field_name, read) in _VARIABLES.items():
        text = os.environ.get(variable, "")
        if text.strip():
            origin = f"environment variable {variable}={text!r}"
            settings[field_name] = Setting(read(origin, text), origin)
    if "dump_dir" in settings:
        settings["dump_graph"] = Setting(True, settings["dump_dir"].origin)
    return Environment(settings, read_vendor_mode())


@functools.cache
def _warn_if_unknown(variable: str) -> None:
    known = (*_VARIABLES, *_READ_ELSEWHERE)
    if variable not in known:
        log.warning("%s", unknown_name("environment variable", variable, known))


def read_vendor_mode() -> str | None:
    """``VENDOR_COMPILER_MODE``, or None where it is not set.

    Raises:
        ConfigError: it has an illegal value.
    """
    mode = os.environ.get("VENDOR_COMPILER_MODE", "").strip()
    if mode and mode not in VENDOR_MODES:
        where = "environment variable VENDOR_COMPILER_MODE"
        raise ConfigError(unknown_name("value", mode, VENDOR_MODES, where))
    return mode or None
