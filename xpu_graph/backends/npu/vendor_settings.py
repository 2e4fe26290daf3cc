"""What a plan says to the vendor, in the vendor's terms, and what it says to the cache."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xpu_graph.backends.npu.option_checks import Plan
from xpu_graph.backends.npu.option_table import OPTIONS
from xpu_graph.backends.npu.torchair_groups import LEAVES
from xpu_graph.errors import BackendError, NotCacheable
from xpu_graph.identity import identity_text


def npugraph_ex_options(plan: Plan) -> dict[str, Any]:
    """The options of ``torch.npu.npugraph_ex.compile_fx``, for a plan of mode ``npugraph_ex``."""
    return plan.compiler_options


def torchair_settings(plan: Plan) -> list[tuple[str, Any]]:
    """Dotted path and value for ``torchair.CompilerConfig``, for a plan of a torchair mode."""
    settings: dict[str, Any] = {"mode": plan.mode}
    for name, value in plan.compiler_options.items():
        option = OPTIONS[name]
        assert option.torchair is not None, f"{name} passed the checks of a torchair mode"
        settings[option.torchair] = not value if option.invert else value
    return [*settings.items(), *plan.nested.items()]


def apply(config: Any, settings: Iterable[tuple[str, Any]]) -> None:
    """Set values on a vendor's configuration object, which should be a fresh one.

    Args:
        config: a ``torchair.CompilerConfig``.
        settings: as ``torchair_settings`` gives them.

    Raises:
        BackendError: the installed version has no such option, or does not take the value.
    """
    for path, value in settings:
        groups, _, leaf = path.rpartition(".")
        owner = config
        for group in filter(None, groups.split(".")):
            owner = getattr(owner, group, None)
        if not hasattr(owner, leaf):
            raise BackendError(f"the installed torchair has no option {path!r}")
        try:
            setattr(owner, leaf, value)
        except Exception as error:  # vendor code: its class and text are kept, and it is chained
            raise BackendError(
                f"torchair refuses {path}={value!r}: {type(error).__name__}: {error}"
            ) from error


def identity(plan: Plan) -> tuple[tuple[str, str], ...]:
    """The options as factors of a cache key: names and texts, defaults included.

    Inductor's own options are not among them; ``inductor.fingerprint`` knows those.

    Raises:
        NotCacheable: an option is on with which nothing can be kept, or one holds code without an
            identity.
    """
    factors = [("compiler", plan.compiler), ("mode", str(plan.mode))]
    for name, option in OPTIONS.items():
        if plan.engine in option.modes:
            value = plan.value(name)
            _check_cacheable(name, option.cache, value != option.default)
            factors.append((name, identity_text(value, f"option {name!r} of Target.npu")))
    for path in sorted(plan.nested):
        leaf = LEAVES[path]
        changed = plan.nested[path] != leaf.default
        _check_cacheable(path, leaf.cache, changed)
        if changed:
            factors.append((path, identity_text(plan.nested[path], path)))
    return tuple(factors)


def _check_cacheable(name: str, cache: str, changed: bool) -> None:
    if cache == "bypass" and changed:
        raise NotCacheable(
            f"option {name!r} of Target.npu is on, which holds for this process only"
        )
