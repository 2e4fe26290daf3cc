"""Vendor compilers, one module a target, found by name.

A backend is a module with four functions; a package adds one through the entry-point group
``xpu_graph.backends`` (name: the target, value: the module). A target that has a module here cannot
be taken over; one that is only known by name, such as ``mlu``, can be provided.

    <target>_compile(gm, fake_inputs, *, is_inference, is_backward, **config)
        -> a SerializableArtifact, or any callable that takes the inputs and returns the outputs
    why_not() -> str | None          one sentence: what is missing here; None if nothing is;
                                     where it takes an argument (not required), that is the config
    check_options(config) -> None    raises ConfigError; imports no vendor package
    fingerprint(config) -> str | None
        what the compiled code depends on beside the graph; None, or NotCacheable with a reason:
        do not keep it

A backend that needs something done before AOTAutograd, or when a backend object is made, has
more: see ``backends/surroundings.py``.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from typing_extensions import override

from xpu_graph.artifact import SerializableArtifact
from xpu_graph.backends.surroundings import Surroundings
from xpu_graph.environment import read_vendor_mode
from xpu_graph.errors import (
    BackendError,
    BackendUnavailable,
    ConfigError,
    NotCacheable,
    XpuGraphError,
)
from xpu_graph.target import BUILT_IN, Target, plugged_in
from xpu_graph.torch_compat import DYNAMO_CONTROL_FLOW

SURFACE = ("why_not", "check_options", "fingerprint")
"""What a backend module offers beside ``<target>_compile``."""


class CompiledCallable(SerializableArtifact):
    """What a vendor returned where it is only a callable: it runs, and cannot be stored.

    Args:
        function: takes the inputs of the graph, returns the outputs.
        why: why it cannot be stored.
        outputs: how many it has to return, where that is to be checked at the first call.
        whose: who made it, for the message.

    Raises:
        BackendError: on the first call, when it returns something else.
    """

    kind = "callable"  # of nothing that is stored: ``members`` gives the reason

    def __init__(
        self,
        function: Any,
        why: str = "the vendor compiler returned a bare callable",
        outputs: int | None = None,
        whose: str = "the vendor compiler",
    ) -> None:
        self._function = function
        self._why = why
        self._outputs = outputs
        self._whose = whose

    @override
    def boxed(self, args: list[Any]) -> Any:
        inputs = tuple(args)
        args.clear()
        result = self._function(*inputs)
        if self._outputs is not None:
            self._check(result, self._outputs)
            self._outputs = None
        return result

    def _check(self, result: Any, outputs: int) -> None:
        many = isinstance(result, (list, tuple))
        if not many or len(result) != outputs:
            returned = f"{len(result)} outputs" if many else f"a {type(result).__name__}"
            raise BackendError(
                f"what {self._whose} made returns {returned}; the graph has {outputs} outputs, so "
                f"a list or tuple of {outputs} is wanted"
            )

    @override
    def members(self) -> dict[str, bytes]:
        raise NotCacheable(self._why)

    @override
    @classmethod
    def from_members(cls, members: Mapping[str, bytes]) -> CompiledCallable:
        raise NotCacheable("a bare callable has no stored form")


def load_backend(target: Target) -> ModuleType:
    """The module of a target.

    Raises:
        BackendUnavailable: this version has no backend for the target, or the package that
            declared it is not there.
        BackendError: the module fails when imported, lacks one of the four functions, cannot have
            one of the target's name, or is not the only one that is declared for the target.
    """
    if not target.value.isidentifier():
        raise BackendError(
            f"the name of target {target.value!r} is not a Python identifier, so no function can "
            "be called <target>_compile; declare its entry point under another name"
        )
    name = _module_name(target)
    try:
        module = importlib.import_module(name)
    except Exception as error:  # another package's code may raise anything; it is named and chained
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            raise BackendUnavailable(
                f"the backend of {target!r} is declared as module {name!r}, which is not installed"
            ) from error
        raise BackendError(
            f"backend module {name!r} of {target!r} cannot be imported: "
            f"{type(error).__name__}: {error}"
        ) from error
    wanted = (f"{target.value}_compile", *SURFACE)
    lacking = [part for part in wanted if not callable(getattr(module, part, None))]
    if lacking:
        raise BackendError(f"backend module {name!r} of {target!r} lacks {', '.join(lacking)}")
    return module


def _module_name(target: Target) -> str:
    own = f"{__name__}.{target.value}"
    if target.value in BUILT_IN and importlib.util.find_spec(own) is not None:
        return own
    declared = plugged_in(target.value)
    if not declared:
        raise BackendUnavailable(
            f"this version of xpu_graph has no backend for {target!r}; it has one for "
            f"{', '.join(_with_a_backend())}"
        )
    modules = [point.value for point in declared]
    if len(modules) > 1:
        raise BackendError(f"{target!r} has several backends: modules {', '.join(sorted(modules))}")
    if declared[0].attr:
        raise BackendError(
            f"the backend of {target!r} is declared as {modules[0]!r}; declare its module, "
            f"{declared[0].module!r}"
        )
    return modules[0]


def _with_a_backend() -> list[str]:
    own = [n for n in BUILT_IN if importlib.util.find_spec(f"{__name__}.{n}") is not None]
    return sorted({*own, *(target.value for target in Target if target.value not in BUILT_IN)})


def check_options(target: Target, config: Mapping[str, Any]) -> None:
    """Ask a backend whether it takes these options; nothing is asked of a backend that is not here.

    Raises:
        ConfigError: it does not.
        BackendError: it failed to answer.
    """
    try:
        backend = load_backend(target)
    except BackendUnavailable:
        return
    _check_options(backend, target, config)


def _check_options(backend: ModuleType, target: Target, config: Mapping[str, Any]) -> None:
    try:
        _ask(backend, target, "check_options", config)
    except ConfigError as error:
        mode = read_vendor_mode()
        if mode is None or config.get("mode") != mode or repr(mode) not in str(error):
            raise
        variable = f"environment variable VENDOR_COMPILER_MODE={mode!r}"
        raise ConfigError(f"{variable} is not legal for {target!r}: {error}") from error


def _ask(backend: ModuleType, target: Target, function: str, /, *args: Any, **kwargs: Any) -> Any:
    """What one of a backend's functions answers; a fault in it is named after it."""
    try:
        return getattr(backend, function)(*args, **kwargs)
    except DYNAMO_CONTROL_FLOW:
        raise
    except XpuGraphError:
        raise
    except Exception as error:  # a vendor's code may raise anything; it is named and chained
        raise BackendError(
            f"{function} of the backend of {target!r} failed: {type(error).__name__}: {error}"
        ) from error


def _why_not(backend: ModuleType, target: Target, config: Mapping[str, Any]) -> str | None:
    takes_config = len(inspect.signature(backend.why_not).parameters) > 0
    reason = _ask(backend, target, "why_not", *([config] if takes_config else []))
    if reason is not None and (not isinstance(reason, str) or not reason.strip()):
        raise BackendError(
            f"why_not of the backend of {target!r} gives {reason!r}; it has to give one "
            "sentence, or None where nothing is missing"
        )
    return reason


def why_not_training(target: Target, config: Mapping[str, Any]) -> str | None:
    """Why the target's compiler does not take graphs that need gradients; None where it does.

    Raises:
        BackendUnavailable: there is no such backend.
        BackendError: it failed to answer.
    """
    backend = load_backend(target)
    if not hasattr(backend, "why_not_training"):
        return None
    return _ask(backend, target, "why_not_training", config)  # type: ignore[no-any-return]


def attach(target: Target, config: Mapping[str, Any], is_training: bool) -> None:
    """Tell a backend that an object for its target is being made.

    Raises:
        ConfigError: ``is_training``, and the backend compiles inference alone.
        BackendError: it failed.
    """
    try:
        backend = load_backend(target)
    except BackendUnavailable:
        return
    if is_training:
        reason = why_not_training(target, config)
        if reason is not None:
            raise ConfigError(f"XpuGraphConfig.is_training=True is not legal here: {reason}")
    if hasattr(backend, "attach"):
        _ask(backend, target, "attach")


def surroundings(target: Target, config: Mapping[str, Any]) -> Surroundings:
    """What the target's compiler needs done around AOTAutograd; nothing where it cannot be used.

    Raises:
        BackendError: the backend failed to answer.
    """
    try:
        backend = load_backend(target)
    except BackendUnavailable:
        return Surroundings()
    if not hasattr(backend, "surroundings") or _why_not(backend, target, config) is not None:
        return Surroundings()
    return _ask(backend, target, "surroundings", config)  # type: ignore[no-any-return]


def fingerprint(target: Target, config: Mapping[str, Any]) -> str:
    """What the target's compiled code depends on beside the graph.

    Raises:
        NotCacheable: the backend gives none, or is not here.
        BackendError: the backend gives something that is no text, or failed to answer.
    """
    try:
        found = _ask(load_backend(target), target, "fingerprint", config)
    except BackendUnavailable as reason:
        raise NotCacheable(str(reason)) from reason
    if found is None:
        raise NotCacheable(f"the backend of {target!r} gives no fingerprint")
    if not isinstance(found, str) or not found:
        raise BackendError(
            f"fingerprint of the backend of {target!r} gives {found!r}; it has to give a text, or "
            "None for code that is not to be kept"
        )
    return found


def check_devices(gm: fx.GraphModule, target: Target, *legal: str) -> None:
    """For backends: refuse a graph that holds a tensor of another device.

    Args:
        gm: the graph, with fake values.
        target: whose backend asks.
        legal: the types of the devices that the backend compiles for.

    Raises:
        BackendError: an input or an operator's result is on another device; names the first one.
    """
    for node in gm.graph.nodes:
        values = node.meta.get("val")
        for value in values if isinstance(values, (list, tuple)) else [values]:
            if isinstance(value, torch.Tensor) and value.device.type not in legal:
                kind = "input" if node.op == "placeholder" else "the result of"
                raise BackendError(
                    f"{kind} {node.name!r} is on {value.device}, but {target!r} compiles for "
                    f"{' and '.join(legal)}; move the model, or choose the target of that device"
                )


def vendor_compiler(
    gm: fx.GraphModule,
    fake_inputs: Sequence[Any],
    target: Target,
    *,
    is_inference: bool,
    is_backward: bool,
    **config: Any,
) -> SerializableArtifact:
    """Compile a graph with the vendor compiler of a target.

    Args:
        gm: an ATen graph.
        fake_inputs: its inputs as fake tensors and SymInts, in placeholder order.
        target: whose compiler to use.
        is_inference: whether the graph runs without gradients.
        is_backward: whether it computes gradients.
        config: the backend's own options.

    Raises:
        ConfigError: the backend does not take these options.
        BackendUnavailable: the target cannot be used here; the message says what is missing.
        BackendError: the compiler failed, or the backend returned nothing to call.
    """
    target = Target(target)
    backend = load_backend(target)
    _check_options(backend, target, config)
    reason = _why_not(backend, target, config)
    if reason is not None:
        raise BackendUnavailable(reason)
    compiled = _ask(
        backend,
        target,
        f"{target.value}_compile",
        gm,
        fake_inputs,
        is_inference=is_inference,
        is_backward=is_backward,
        **config,
    )
    if isinstance(compiled, SerializableArtifact):
        return compiled
    if not callable(compiled):
        raise BackendError(
            f"the backend of {target!r} returned a {type(compiled).__name__}, nothing to call"
        )
    outputs = len(pytree.tree_leaves(gm.graph.output_node().args[0]))
    return CompiledCallable(compiled, outputs=outputs, whose=f"the backend of {target!r}")
