"""Reads ``vendor_compiler_config`` of target ``npu``; imports no vendor package.

Everything that can be known before tracing is checked here: the vendor reports some mistakes at the
first call, some after the first capture, and some never.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from xpu_graph.backends import inductor
from xpu_graph.backends.npu.dim_gears import why_not_combined
from xpu_graph.backends.npu.option_names import not_here, unknown_option
from xpu_graph.backends.npu.option_table import (
    COMPILERS,
    DEVICE_GRAPH,
    GE_MODES,
    INDUCTOR,
    LEGACY,
    MAX_AUTOTUNE,
    NPUGRAPH_EX,
    OPTIONS,
    REDUCE_OVERHEAD,
    TORCHAIR_MODES,
)
from xpu_graph.backends.npu.option_values import check_value
from xpu_graph.backends.npu.torchair_groups import GROUPS, LEAVES, TOP_GROUPS, TWINS
from xpu_graph.errors import ConfigError, unknown_name

_OWN_KEYS = ("compiler", "mode", "allow_unsafe")
"""Keys that are read here and are options of nobody."""

_INDUCTORS_TOO = ("post_grad_custom_pre_pass", "post_grad_custom_post_pass")
"""Names that with compiler ``inductor`` mean Inductor's options of that name."""

_MERGE_POLICY = "inference_config.dynamic_gears_merge_policy"


@dataclass(frozen=True)
class Plan:
    """What to compile with, and the checked options that were given.

    Attributes:
        compiler: ``"ge"``, ``"device_graph"`` or ``"inductor"``.
        mode: the mode of ``ge``; None for the others.
        options: canonical flat options, also those that were given in a torchair group.
        nested: the other values of torchair's groups, by dotted path.
        inductor: Inductor's ``mode`` and options.
    """

    compiler: str
    mode: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    nested: Mapping[str, Any] = field(default_factory=dict)
    inductor: Mapping[str, Any] = field(default_factory=dict)

    @property
    def engine(self) -> str:
        """The mode of ``ge``, or the compiler: what ``option_table`` says modes by."""
        return self.mode or self.compiler

    def value(self, name: str) -> Any:
        """The value of a flat option: as given, or its default."""
        return self.options.get(name, OPTIONS[name].default)

    @property
    def compiler_options(self) -> dict[str, Any]:
        """The given options that the compiler acts on, without those of our own AOT call."""
        return {
            name: value for name, value in self.options.items() if OPTIONS[name].entry == "compiler"
        }

    def with_option(self, name: str, value: Any) -> Plan:
        """The same plan with one flat option set, to a value that is known to be legal."""
        return replace(self, options={**self.options, name: value})


def read_options(config: Mapping[str, Any]) -> Plan:
    """Read and check the options of target ``npu``.

    Args:
        config: ``vendor_compiler_config``. ``{}`` is ``ge`` in mode ``reduce-overhead``;
            ``compiler="ge"`` alone is mode ``max-autotune``; a mode alone is ``ge`` in that mode.

    Raises:
        ConfigError: an option is unknown, has no effect with this compiler and mode, has an illegal
            value, or contradicts another one.
    """
    compiler, mode = _compiler_and_mode(config)
    where = f"npu/{mode or compiler}"
    given = {key: value for key, value in config.items() if key not in _OWN_KEYS}
    unsafe = config.get("allow_unsafe", False)
    if type(unsafe) is not bool:
        raise ConfigError(
            f"option 'allow_unsafe' for {where}: {unsafe!r} is not legal; give True or False"
        )
    if compiler == INDUCTOR:
        plan = _read_inductor(config, given, where)
    else:
        options, nested = _read_given(given, mode or compiler, where)
        plan = Plan(compiler, mode, options, nested)
    _check_together(plan, unsafe, where)
    return plan


def _compiler_and_mode(config: Mapping[str, Any]) -> tuple[str, str | None]:
    compiler = config.get("compiler", "ge")
    if compiler not in COMPILERS:
        raise ConfigError(unknown_name("compiler", compiler, COMPILERS, "Target.npu"))
    if compiler == INDUCTOR:
        return compiler, None
    if "mode" not in config:
        if compiler == DEVICE_GRAPH:
            return compiler, None
        if compiler == NPUGRAPH_EX:
            return "ge", NPUGRAPH_EX
        return "ge", MAX_AUTOTUNE if "compiler" in config else REDUCE_OVERHEAD
    mode = config["mode"]
    if compiler == DEVICE_GRAPH:
        raise ConfigError(
            f"mode {mode!r} is not legal with compiler {compiler!r} of Target.npu, which has no "
            f"modes; leave it out, or choose compiler 'ge' with one of {', '.join(GE_MODES)}"
        )
    if mode not in GE_MODES:
        raise ConfigError(
            f"{unknown_name('mode', mode, GE_MODES, 'compiler ge of Target.npu')}; the modes of "
            "Inductor need compiler='inductor'"
        )
    if compiler == NPUGRAPH_EX and mode != NPUGRAPH_EX:
        raise ConfigError(
            f"mode {mode!r} is not legal with compiler {compiler!r} of Target.npu, which is short "
            f"for compiler 'ge' in mode {NPUGRAPH_EX!r}; give compiler='ge' with mode {mode!r}"
        )
    return "ge", mode


def _read_inductor(config: Mapping[str, Any], given: Mapping[str, Any], where: str) -> Plan:
    """Our own options apart, the rest is Inductor's to check."""
    own = [key for key in given if key in OPTIONS and key not in _INDUCTORS_TOO]
    options, _ = _read_given({key: given[key] for key in own}, INDUCTOR, where)
    rest = {key: value for key, value in given.items() if key not in own}
    if "mode" in config:
        rest["mode"] = config["mode"]
    inductor.check_options(rest, "Target.npu")
    return Plan(INDUCTOR, options=options, inductor=rest)


def _read_given(
    given: Mapping[str, Any], engine: str, where: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The flat options and the values of groups that are no flat option's."""
    sources: dict[str, tuple[str, Any]] = {}
    nested: dict[str, Any] = {}
    for key, value in given.items():
        if key in OPTIONS:
            _keep(sources, key, key, _read_flat(key, value, engine, where), where)
        elif key in LEGACY:
            name = LEGACY[key]
            warnings.warn(
                f"option {key!r} of Target.npu is now called {name!r}",
                DeprecationWarning,
                stacklevel=2,
            )
            _keep(sources, name, key, _read_flat(name, value, engine, where), where)
        elif key in TOP_GROUPS:
            for path, leaf_value in _read_group(key, value, engine, where).items():
                if path in TWINS:
                    name = TWINS[path]
                    flat = not leaf_value if OPTIONS[name].invert else leaf_value
                    _keep(sources, name, path, flat, where)
                else:
                    nested[path] = leaf_value
        else:
            raise ConfigError(unknown_option(key, engine, where))
    return {name: value for name, (_, value) in sources.items() if value is not None}, nested


def _keep(
    sources: dict[str, tuple[str, Any]], name: str, source: str, value: Any, where: str
) -> None:
    """Two spellings of one option may be given if they say the same."""
    if name in sources and sources[name][1] != value:
        first, other = sources[name]
        raise ConfigError(
            f"{first!r} and {source!r} are one option for {where} and say different things: as "
            f"{name!r} they are {other!r} and {value!r}; give one of them"
        )
    sources[name] = (source, value)


def _read_flat(name: str, value: Any, engine: str, where: str) -> Any:
    option = OPTIONS[name]
    if engine not in option.modes:
        raise ConfigError(not_here(name, engine, option.modes))
    return check_value(option, value, where)


def _read_group(path: str, value: Any, engine: str, where: str) -> dict[str, Any]:
    """The leaves of a torchair group that were given, by dotted path."""
    if engine not in TORCHAIR_MODES:
        raise ConfigError(not_here(path, engine, frozenset(TORCHAIR_MODES), "torchair group"))
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"torchair group {path!r} for {where}: {value!r} ({type(value).__name__}) is not "
            "legal; give a dict of its values by name"
        )
    found: dict[str, Any] = {}
    for key, entry in value.items():
        inner = f"{path}.{key}"
        if inner in GROUPS:
            found.update(_read_group(inner, entry, engine, where))
        elif inner in LEAVES:
            checked = _read_leaf(inner, entry, engine, where)
            if checked is not None:
                found[inner] = checked
        else:
            members = {
                p.removeprefix(f"{path}.").partition(".")[0]
                for p in LEAVES
                if p.startswith(f"{path}.")
            }
            raise ConfigError(
                unknown_name("option", key, members, f"torchair group {path!r} of {where}")
            )
    return found


def _read_leaf(path: str, value: Any, engine: str, where: str) -> Any:
    leaf = LEAVES[path]
    if leaf.refused:
        raise ConfigError(f"torchair option {path!r} is not taken for {where}: {leaf.refused}")
    if engine not in leaf.modes:
        raise ConfigError(not_here(path, engine, leaf.modes, "torchair option"))
    if path == "debug.graph_dump.type" and engine != MAX_AUTOTUNE and value in ("txt", "pbtxt"):
        raise ConfigError(
            f"torchair option {path!r} for {where}: {value!r} is not legal; a graph that is "
            f"captured is dumped as 'py' only, and as 'txt' or 'pbtxt' in mode {MAX_AUTOTUNE!r}"
        )
    return check_value(leaf, value, where)


def _check_together(plan: Plan, unsafe: bool, where: str) -> None:
    """What options must not say together."""
    skip = "unsafe_skip_npugraph_capture_validation"
    if plan.value(skip) and not unsafe:
        raise ConfigError(
            f"option {skip!r} for {where} replays on memory that may have moved; it is taken "
            "only with allow_unsafe=True beside it"
        )
    if "use_graph_pool" in plan.options and plan.options.get("reuse_graph_pool_in_same_fx"):
        raise ConfigError(
            f"options 'use_graph_pool' and 'reuse_graph_pool_in_same_fx'=True for {where} exclude "
            "each other: captures share either a pool of the user's or that of their graph"
        )
    if plan.value("force_recapture") and plan.value("capture_limit") < 2:
        raise ConfigError(
            f"options 'force_recapture' and 'capture_limit'=1 for {where} exclude each other: the "
            "second capture would be over the limit; give a capture_limit of 2 or more"
        )
    if plan.value("super_kernel_optimize") and plan.value("dump_tensor_data"):
        raise ConfigError(
            f"options 'super_kernel_optimize' and 'dump_tensor_data' for {where} exclude each "
            "other: the vendor dumps nothing then"
        )
    alone = "LOCAL_WORLD_SIZE" in os.environ or not _is_one_of_many()
    if plan.value("static_kernel_compile") and not alone:
        raise ConfigError(
            f"option 'static_kernel_compile' for {where} needs the environment variable "
            "LOCAL_WORLD_SIZE in a job of several processes; start it with torchrun, or set it"
        )
    policy = plan.nested.get(_MERGE_POLICY, LEAVES[_MERGE_POLICY].default)
    reason = why_not_combined(plan.value("dim_gears"), policy)
    if reason is not None:
        raise ConfigError(f"option 'dim_gears' for {where}: {reason}")


def _is_one_of_many() -> bool:
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size() > 1
    return os.environ.get("WORLD_SIZE", "1").strip() not in ("", "0", "1")
