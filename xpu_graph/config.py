"""The configuration of a compilation: fields, environment variables, and the check of both."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from xpu_graph.config_checks import CHECKS, load_dotted_name, parse_tolerances
from xpu_graph.environment import Environment, read_environment
from xpu_graph.errors import ConfigError, unknown_name
from xpu_graph.target import OptLevel, Target

__all__ = ["OptLevel", "Target", "XpuGraphConfig", "load_dotted_name", "parse_tolerances"]


def _with_checked_names(cls: type[XpuGraphConfig]) -> type[XpuGraphConfig]:
    """Let the generated constructor refuse an unknown field with the same words as an option."""
    generated = cls.__init__

    @functools.wraps(generated)
    def checked(self: XpuGraphConfig, *args: Any, **given: Any) -> None:
        _check_names(given, "field")
        generated(self, *args, **given)

    cls.__init__ = checked  # type: ignore[method-assign]
    return cls


@_with_checked_names
@dataclass
class XpuGraphConfig:
    """How one backend compiles. Every field is checked when the object is made.

    An environment variable that is set wins over the field it stands for; it is read once, when the
    object is made, and the object then holds the value in force. Copies of the object keep to what
    was read.

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

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            _check_names([name], "field")
        super().__setattr__(name, value)

    def __post_init__(self) -> None:
        self._environment: Environment = read_environment()
        self._settle()

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> XpuGraphConfig:
        """Make a configuration from a mapping, as ``torch.compile(options=...)`` gives it.

        Raises:
            ConfigError: a key is not a field, or a value is illegal.
        """
        _check_names(options, "option")
        return cls(**options)

    def replaced(self, changes: Mapping[str, Any]) -> XpuGraphConfig:
        """A checked copy of this configuration with some fields changed.

        What the environment set when this one was made stays in force.

        Raises:
            ConfigError: a key is not a field, or a value is illegal.
        """
        _check_names(changes, "option")
        result = copy.copy(self)
        for name, value in changes.items():
            setattr(result, name, value)
        result._settle()
        return result

    def private_copy(self) -> XpuGraphConfig:
        """A checked copy that later changes of this object do not reach."""
        return self.replaced({})

    def _settle(self) -> None:
        """Check every field, and let the environment win."""
        for name, check in CHECKS.items():  # also what the environment replaces: it is wrong anyway
            setattr(self, name, check(name, getattr(self, name)))
        settings, mode = self._environment
        for name, setting in settings.items():
            try:
                setattr(self, name, CHECKS[name](name, setting.value))
            except ConfigError as error:
                raise ConfigError(f"{setting.origin} is not legal: {error}") from error
        if mode == "none":
            self.vendor_compiler_config = None
        elif mode is not None and self.target != "none":
            self.vendor_compiler_config = {**(self.vendor_compiler_config or {}), "mode": mode}


def _check_names(given: Iterable[str], what: str) -> None:
    known = [f.name for f in fields(XpuGraphConfig)]
    for name in given:
        if name not in known:
            raise ConfigError(unknown_name(what, name, known, "XpuGraphConfig"))
