"""The check of one value, by kind: returns the value to keep, or says what is legal."""

from __future__ import annotations

import inspect
import os
import pathlib
import re
from collections.abc import Callable, Mapping
from typing import Any

from torch._ops import OpOverload

from xpu_graph.backends.npu.dim_gears import check_gears
from xpu_graph.backends.npu.option_table import OptionSpec, is_int, wrong
from xpu_graph.config_checks import PARTITIONERS, load_dotted_name
from xpu_graph.errors import ConfigError, unknown_name

SUPER_KERNEL_KEYS: dict[str, dict[str, Any]] = {
    "super_kernel_optimize": {
        "preload_code": int,
        "split_mode": int,
        "stream_fusion": int,
        "constant_codegen": int,
        "auto_op_parallel": int,
        "opt_extend": str,
        "dcci_before_kernel_start": list,
        "dcci_after_kernel_end": list,
        "dcci_disable_on_kernel": list,
        "aggressive_opt_strategies": {
            "event_breaker_bypass": int,
            "value_breaker_bypass": int,
            "task_breaker_bypass": int,
        },
        "ubuf_lock_ignore_kernel": list,
        "early_start": int,
    },
    "super_kernel_debug": {
        "debug_sync_all": int,
        "debug_op_exec_trace": int,
        "debug_cross_core_sync_check": int,
        "debug_extend": str,
        "debug_per_op_max_core_num": int,
    },
}
"""Kind -> key -> type of its value, as ``NPUGraph._validate_options`` of torch_npu has them; a list
holds strings. The vendor checks them only after the first capture."""

_STEPS = re.compile(r"\d+(-\d+)?(\|\d+(-\d+)?)*")
_LAYERS = re.compile(r'[0-9a-zA-Z_ "/\\.]*')
_UNSAFE_IN_CODE = re.compile(r'["\\\x00-\x1f]')
"""What ends or bends a string in the Python text that the vendor writes options into."""

_UNSAFE_IN_DICT = re.compile(r"['\"\\\x00-\x1f]")
"""The same inside a dict, which the vendor writes there between double quotes, by its ``repr``."""

_OPTIONAL = frozenset(
    {
        "pool",
        "pass",
        "filter",
        "int_list",
        "file",
        "json_file",
        "super_kernel_optimize",
        "super_kernel_debug",
        "partition_fn",
    }
)
"""Kinds whose None means not given."""


def check_value(spec: OptionSpec, value: Any, where: str) -> Any:
    """Check the value of an option or of a torchair leaf.

    Args:
        spec: its row.
        value: what was given.
        where: the place, for the message.

    Returns:
        The value in the form that is kept; None for one that counts as not given.

    Raises:
        ConfigError: the value is not legal; the message names it and what is.
    """
    if value is None and spec.kind in _OPTIONAL:
        return None
    return _CHECKS[spec.kind](spec, value, where)


def _bool(spec: OptionSpec, value: Any, where: str) -> bool:
    # The vendor compares with True and False, so 0 and 1 pass there and may then mean the opposite.
    if type(value) is not bool:
        raise wrong(spec, value, where, "give True or False")
    return value


def _int(spec: OptionSpec, value: Any, where: str) -> int:
    if not is_int(value) or not (spec.lo or 0) <= value <= (spec.hi or 0):
        raise wrong(spec, value, where, f"give a whole number from {spec.lo} to {spec.hi}")
    return int(value)


def _str(spec: OptionSpec, value: Any, where: str) -> str:
    if not isinstance(value, str):
        legal = " or ".join(map(repr, spec.choices)) or "a string"
        raise wrong(spec, value, where, f"give {legal}")
    if spec.choices and value not in spec.choices:
        raise ConfigError(
            unknown_name("value", value, spec.choices, f"option {spec.name!r} for {where}")
        )
    return value if spec.choices else _for_code(spec, value, where)


def _text(spec: OptionSpec, value: Any, where: str) -> str:
    if not isinstance(value, str) and not is_int(value):
        raise wrong(spec, value, where, "give a string or a whole number")
    return _for_code(spec, str(value), where)


def _for_code(
    spec: OptionSpec, text: str, where: str, unsafe: re.Pattern[str] = _UNSAFE_IN_CODE
) -> str:
    found = unsafe.search(text)
    if found is not None:
        raise wrong(
            spec,
            text,
            where,
            f"the vendor writes it into generated code, which {found.group()!r} would break",
        )
    return text


def _dir(spec: OptionSpec, value: Any, where: str) -> str:
    path = _path(spec, value, where, "directory")
    if not pathlib.Path(path).is_dir():
        raise wrong(spec, path, where, "there is no such directory; give one that exists")
    return path


def _file(spec: OptionSpec, value: Any, where: str) -> str:
    path = _path(spec, value, where, "file")
    if not pathlib.Path(path).is_file():
        raise wrong(spec, path, where, "there is no such file; give one that exists")
    return path


def _json_file(spec: OptionSpec, value: Any, where: str) -> str:
    path = _file(spec, value, where)
    if not path.endswith(".json"):
        raise wrong(spec, path, where, "give a file whose name ends in .json")
    return path


def _path(spec: OptionSpec, value: Any, where: str, what: str) -> str:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str) or not path:
        raise wrong(spec, value, where, f"give the path of a {what}")
    return _for_code(spec, path, where)


def _matching(pattern: re.Pattern[str], legal: str) -> Callable[[OptionSpec, Any, str], str]:
    def check(spec: OptionSpec, value: Any, where: str) -> str:
        if not isinstance(value, str) or (value and pattern.fullmatch(value) is None):
            raise wrong(spec, value, where, f"give {legal}")
        return value

    return check


def _callable_of(*arguments: str) -> Callable[[OptionSpec, Any, str], Any]:
    def check(spec: OptionSpec, value: Any, where: str) -> Any:
        legal = f"give a function of ({', '.join(arguments)})"
        if not callable(value):
            raise wrong(spec, value, where, legal)
        try:
            signature = inspect.signature(value)
        except (ValueError, TypeError):  # some callables written in C tell no signature
            return value
        try:
            signature.bind(*arguments)
        except TypeError as error:
            raise wrong(spec, value, where, f"{legal}: {error}") from error
        return value

    return check


def _pool(spec: OptionSpec, value: Any, where: str) -> tuple[int, int]:
    pair = isinstance(value, tuple) and len(value) == 2 and all(map(is_int, value))
    if not pair or 0 not in value:
        raise wrong(
            spec,
            value,
            where,
            "give what torch.npu.graph_pool_handle() returns: a tuple of two whole numbers, one "
            "of them 0",
        )
    return value  # type: ignore[no-any-return]


def _int_list(spec: OptionSpec, value: Any, where: str) -> list[int]:
    if not isinstance(value, (list, tuple)) or not all(map(is_int, value)):
        raise wrong(spec, value, where, "give a list of whole numbers")
    return list(value)


def _super_kernel(spec: OptionSpec, value: Any, where: str) -> dict[str, Any]:
    return _by_key(spec, value, where, SUPER_KERNEL_KEYS[spec.kind], f"option {spec.name!r}")


def _by_key(
    spec: OptionSpec, value: Any, where: str, known: Mapping[str, Any], what: str
) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise wrong(spec, value, where, f"give a dict for {what}")
    checked = {}
    for key, entry in value.items():
        if key not in known:
            raise ConfigError(unknown_name("key", key, known, f"{what} for {where}"))
        wanted = known[key]
        if isinstance(wanted, Mapping):
            checked[key] = _by_key(spec, entry, where, wanted, f"{what}, key {key!r}")
        else:
            checked[key] = _of_type(spec, entry, where, wanted, key)
    return checked


def _of_type(spec: OptionSpec, value: Any, where: str, wanted: type, key: str) -> Any:
    strings = [value] if wanted is str else value
    if wanted is int:
        fits = is_int(value)
    else:
        fits = isinstance(value, wanted) and all(isinstance(text, str) for text in strings)
    if not fits:
        names = {int: "a whole number", str: "a string", list: "a list of strings"}
        raise wrong(spec, value, where, f"give {names[wanted]} for key {key!r}")
    if wanted is int:
        return value
    for text in strings:
        _for_code(spec, text, where, _UNSAFE_IN_DICT)
    return value if wanted is str else list(value)


def _decompositions(spec: OptionSpec, value: Any, where: str) -> dict[OpOverload, Any]:
    legal = "give a dict of operator overloads, such as torch.ops.aten.addmm.default, and functions"
    if not isinstance(value, Mapping):
        raise wrong(spec, value, where, legal)
    for operator, function in value.items():
        if not isinstance(operator, OpOverload):
            raise wrong(spec, operator, where, legal)
        if not callable(function):
            raise wrong(spec, function, where, f"{legal} ({operator})")
    return dict(value)


def _partition_fn(spec: OptionSpec, value: Any, where: str) -> Any:
    if callable(value) or value in PARTITIONERS:
        return value
    legal = f"give {' or '.join(map(repr, PARTITIONERS))}, a dotted name or a callable"
    if not isinstance(value, str) or "." not in value:
        raise wrong(spec, value, where, legal)
    if not callable(load_dotted_name(value, f"option {spec.name!r} for {where}")):
        raise wrong(spec, value, where, legal)
    return value


_CHECKS: dict[str, Callable[[OptionSpec, Any, str], Any]] = {
    "bool": _bool,
    "int": _int,
    "str": _str,
    "text": _text,
    "dir": _dir,
    "file": _file,
    "json_file": _json_file,
    "steps": _matching(_STEPS, "steps such as '0|2-5|10'"),
    "layers": _matching(_LAYERS, "names of layers with spaces between them"),
    "pass": _callable_of("graph_module", "example_inputs", "config"),
    "filter": _callable_of("node"),
    "pool": _pool,
    "int_list": _int_list,
    "super_kernel_optimize": _super_kernel,
    "super_kernel_debug": _super_kernel,
    "decompositions": _decompositions,
    "partition_fn": _partition_fn,
    "gears": check_gears,
}
"""Kind -> the check that returns the value to keep."""
