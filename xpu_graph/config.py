"""The configuration of a compilation: fields, environment variables, and the check of both."""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from xpu_graph.environment import read_settings, read_vendor_mode
from xpu_graph.errors import ConfigError, unknown_name
from xpu_graph.target import OptLevel, Target

__all__ = ["OptLevel", "Target", "XpuGraphConfig", "load_dotted_name", "parse_tolerances"]

VERIFY_CHOICES = ("off", "final", "each")
FALLBACK_CHOICES = ("raise", "eager")
PARTITIONERS = ("DEFAULT", "MINCUT")


def load_dotted_name(name: str, where: str) -> Any:
    """Import what ``package.module.attribute`` names.

    Raises:
        ConfigError: there is no such module or attribute, or the name has no dot.
    """
    module_name, _, attribute = name.rpartition(".")
    if not module_name:
        raise ConfigError(f"{where}: {name!r} is not a dotted name 'package.module.attribute'")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{where}: cannot import {name!r}: {error}") from error


@dataclass
class XpuGraphConfig:
    """How one backend compiles. Every field is checked when the object is made.

    An environment variable that is set wins over the field it stands for; it is read when the
    object is made, and the object then holds the value in force.

    Attributes:
        is_training: the user's statement of intent; a graph that needs gradients gets them anyway.
        debug: keep more for people: dumps, and the pass verifier after every pass.
            (``XPUGRAPH_DEBUG``)
        target: what to compile for.
        opt_level: how far rewrites may go. (``XPUGRAPH_OPT_LEVEL``)
        dump_graph: write the graph before the pipeline and after every pass that changed it.
        enable_cache: keep what was compiled and use what was kept.
        freeze: in inference, compute once what depends on parameters and buffers alone.
        constant_folding: compute constant parts of a graph while compiling it.
        folding_freezed_params: with ``freeze``, fold frozen parameters; False keeps them inputs,
            so that they may be swapped at no cost.
        vendor_compiler_config: None: no vendor compiler, the optimised graph runs as it is.
            ``{}``: the target's default compiler; more keys are the target's own options.
            (``VENDOR_COMPILER_MODE``)
        enable_interceptor: compare every call with the graph as it was before the passes. A string
            ``"rtol=1e-5,atol=1e-6"``, True for the tolerances of ``torch.testing``, or None.
            (``XPUGRAPH_INTERCEPTOR``)
        include_patterns: run only patterns with these names; () for all.
            (``XPUGRAPH_DEBUG_INCLUDE_PATTERNS``, separated by commas)
        skip_patterns: do not run passes and patterns with these names.
            (``XPUGRAPH_DEBUG_SKIP_PATTERNS``, separated by commas)
        fallback_legacy_dispatch: accepted for existing code; there is one dispatch.
        partition_fn: how a joint graph is cut: None or ``"DEFAULT"``, ``"MINCUT"``, a dotted name,
            or a callable. (``XPUGRAPH_PARTITIONER``)
        fallback: when a target is not available here: ``"raise"``, or run the graph ``"eager"``.
        verify: check the graph ``"off"``, once at the end (``"final"``) or after ``"each"`` pass.
            (``XPUGRAPH_VERIFY``)
        fuel: stop rewriting after this many rewrites; None for no limit. (``XPUGRAPH_FUEL``)
        dump_dir: where dumps go; None for ``xpu_graph_dump`` in the working directory.
            (``XPUGRAPH_DUMP_DIR``, which also turns dumping on)
        fold_limit_bytes: a folded constant may be this large, in bytes, or as large as the
            constants it is made from.
        cache_wait_s: seconds to wait for another process that compiles the same graph.

    Raises:
        ConfigError: a field or an environment variable has an illegal value.
    """

    is_training: bool = False
    debug: bool = False
    target: Target = field(default_factory=lambda: Target.none)
    opt_level: OptLevel = OptLevel.level1
    dump_graph: bool = False
    enable_cache: bool = True
    freeze: bool = False
    constant_folding: bool = True
    folding_freezed_params: bool = True
    vendor_compiler_config: dict[str, Any] | None = None
    enable_interceptor: str | bool | None = None
    include_patterns: tuple[str, ...] = ()
    skip_patterns: tuple[str, ...] = ()
    fallback_legacy_dispatch: bool = True
    partition_fn: str | Callable[..., Any] | None = None
    fallback: str = "raise"
    verify: str = "final"
    fuel: int | None = None
    dump_dir: str | None = None
    fold_limit_bytes: int = 64 * 1024
    cache_wait_s: float = 60.0

    def __post_init__(self) -> None:
        for name, setting in read_settings().items():
            try:
                setattr(self, name, _CHECKS[name](name, setting.value))
            except ConfigError as error:
                raise ConfigError(f"{setting.origin} is not legal: {error}") from error
        for name, check in _CHECKS.items():
            setattr(self, name, check(name, getattr(self, name)))
        mode = read_vendor_mode()
        if mode == "none":
            self.vendor_compiler_config = None
        elif mode is not None and self.target != "none":
            self.vendor_compiler_config = {**(self.vendor_compiler_config or {}), "mode": mode}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> XpuGraphConfig:
        """Make a configuration from a mapping, as ``torch.compile(options=...)`` gives it.

        Raises:
            ConfigError: a key is not a field, or a value is illegal.
        """
        known = [f.name for f in fields(cls)]
        for key in options:
            if key not in known:
                raise ConfigError(unknown_name("option", key, known, "XpuGraphConfig"))
        return cls(**options)

    def replaced(self, changes: Mapping[str, Any]) -> XpuGraphConfig:
        """A checked copy of this configuration with some fields changed."""
        current = {f.name: getattr(self, f.name) for f in fields(self)}
        return self.from_options({**current, **changes})

    def private_copy(self) -> XpuGraphConfig:
        """A checked copy that later changes of this object do not reach."""
        return self.replaced({"vendor_compiler_config": copy.deepcopy(self.vendor_compiler_config)})


def _wrong_type(name: str, value: object, legal: str) -> ConfigError:
    kind = type(value).__name__
    return ConfigError(f"XpuGraphConfig.{name}: {value!r} ({kind}) is not legal; give {legal}")


def _bool(name: str, value: object) -> bool:
    if type(value) is not bool:
        raise _wrong_type(name, value, "True or False")
    return value


def _choice(legal: tuple[str, ...]) -> Callable[[str, object], object]:
    def check(name: str, value: object) -> object:
        if value not in legal:
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
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 <= value < math.inf:  # type: ignore[operator]
        raise _wrong_type(name, value, "a number of seconds, 0 or more")
    return float(value)  # type: ignore[arg-type]


def _path(name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise _wrong_type(name, value, "a path as a string, or None")
    return value


def _names(name: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, (tuple, list)) or not all(isinstance(entry, str) for entry in value):
        raise _wrong_type(name, value, "a tuple of names")
    return tuple(value)


def _vendor_config(name: str, value: object) -> dict[str, Any] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise _wrong_type(name, value, "a dict of vendor options by name, or None")
    return dict(value)


def _partitioner(name: str, value: object) -> object:
    if value is None or callable(value) or value in PARTITIONERS:
        return value
    if not isinstance(value, str):
        raise _wrong_type(name, value, "a name, a callable, or None")
    if "." not in value:
        legal = (*PARTITIONERS, "a dotted name", "a callable")
        raise ConfigError(unknown_name(name, value, legal, "XpuGraphConfig"))
    if not callable(load_dotted_name(value, f"XpuGraphConfig.{name}")):
        raise ConfigError(f"XpuGraphConfig.{name}: {value!r} is not something that can be called")
    return value


def _interceptor(name: str, value: object) -> object:
    parse_tolerances(value)
    return value


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
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


def parse_tolerances(value: object) -> dict[str, float] | None:
    """Read ``enable_interceptor``: None when it is off, else ``rtol`` and ``atol`` as given.

    Raises:
        ConfigError: the text is not of the form ``"rtol=1e-5,atol=1e-6"``.
    """
    if value is None or value is False:
        return None
    if value is True or value == "":
        return {}
    legal = 'True, None or "rtol=1e-5,atol=1e-6"'
    if not isinstance(value, str):
        raise _wrong_type("enable_interceptor", value, legal)
    parsed: dict[str, float] = {}
    for part in value.split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if name not in ("rtol", "atol"):
            raise _wrong_type("enable_interceptor", value, legal)
        try:
            parsed[name] = float(number)
        except ValueError:
            raise _wrong_type("enable_interceptor", value, legal) from None
    if len(parsed) == 1:  # torch.testing wants both or none
        parsed = {"rtol": 0.0, "atol": 0.0, **parsed}
    return parsed
