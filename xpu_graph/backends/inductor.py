"""Inductor, torch's own compiler, as a vendor compiler for the targets that offer it.

The graph goes through ``torch._inductor.standalone_compile``, which brings its own decompositions.
The artifact carries Inductor's serialised form and the shared libraries of its C++ kernels, so that
a process that loads it runs no C++ compiler. Inductor's form is a pickle of torch's: loading it
executes code, and a shared cache is trusted like the program itself.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.artifact import SerializableArtifact
from xpu_graph.backends.bodies import without_body_constants
from xpu_graph.backends.sizes import with_own_operands
from xpu_graph.errors import (
    BackendError,
    BackendUnavailable,
    CacheError,
    ConfigError,
    NotCacheable,
    unknown_name,
)
from xpu_graph.torch_compat import DYNAMO_CONTROL_FLOW
from xpu_graph.torch_compat.inductor import (
    inductor_compile,
    inductor_deserialize,
    inductor_option_type,
    inductor_settings,
    kernel_path,
    recorded_kernels,
    supplied_kernels,
)

_load_lock = threading.Lock()
"""One load at a time: Inductor registers a kernel's module before the module is whole."""


class SerializableCompiledFxGraph(SerializableArtifact):
    """A graph compiled by Inductor.

    Args:
        compiled: a function of the graph's inputs.
        serialize: gives Inductor's serialised form; None where there is none.
        libraries: content of the kernels' shared libraries, by digest of their source.
    """

    kind = "inductor"

    def __init__(
        self,
        compiled: Callable[..., Any],
        serialize: Callable[[], bytes] | None,
        libraries: Mapping[str, bytes],
    ) -> None:
        self._compiled = compiled
        self._serialize = serialize
        self._libraries = dict(libraries)

    @override
    def boxed(self, args: list[Any]) -> Any:
        inputs = tuple(args)
        args.clear()
        return self._compiled(*inputs)

    @override
    def members(self) -> dict[str, bytes]:
        if self._serialize is None:
            raise NotCacheable("Inductor cannot serialise this graph")
        try:
            data = self._serialize()
        except Exception as error:  # vendor code: it runs all the same, it is only not kept
            raise NotCacheable(f"Inductor failed to serialise this graph: {error!r}") from error
        return {
            "inductor.bin": data,
            **{f"kernels/{digest}.so": code for digest, code in self._libraries.items()},
        }

    @override
    @classmethod
    def from_members(cls, members: Mapping[str, bytes]) -> SerializableCompiledFxGraph:
        if "inductor.bin" not in members:
            raise CacheError("Inductor's part is missing")
        data = members["inductor.bin"]
        libraries = {
            pathlib.PurePosixPath(name).stem: code
            for name, code in members.items()
            if name.startswith("kernels/")
        }
        # A loaded library no longer needs its file, so nothing stays behind.
        with tempfile.TemporaryDirectory(prefix="xpu_graph-") as directory:
            paths = {}
            for digest, code in libraries.items():
                path = pathlib.Path(directory, f"{digest}.so")
                path.write_bytes(code)
                paths[digest] = str(path)
            try:
                with _load_lock, supplied_kernels(paths):
                    compiled = inductor_deserialize(data)
            except Exception as error:  # vendor code: whatever it raises, this entry is of no use
                raise CacheError(f"Inductor does not load it: {error!r}") from error
        return cls(compiled, lambda: data, libraries)


def inductor_compiler(
    gm: fx.GraphModule, fake_inputs: Sequence[Any], **options: Any
) -> SerializableCompiledFxGraph:
    """Compile a graph with Inductor.

    Args:
        gm: an ATen graph.
        fake_inputs: its inputs, in placeholder order.
        options: ``mode``, and Inductor options by name.

    Raises:
        BackendUnavailable: the C++ compiler that Inductor found does not work.
        BackendError: Inductor failed; its own error is the cause.
    """
    try:
        with recorded_kernels() as loaders:
            traceable = with_own_operands(without_body_constants(gm))
            compiled, serialize = inductor_compile(traceable, fake_inputs, _patches(options))
        libraries = {
            digest: pathlib.Path(kernel_path(loader)).read_bytes()
            for digest, loader in loaders.items()
        }
    except DYNAMO_CONTROL_FLOW:  # Inductor traces again, and may ask Dynamo to specialise a number
        raise
    except Exception as error:  # vendor code may raise anything; it is named and chained
        cause = getattr(error, "inner_exception", error)
        if type(cause).__name__ == "InvalidCxxCompiler":
            names = " or ".join(_cxx_names(options))
            raise BackendUnavailable(
                f"Inductor compiles C++ for the CPU, and the C++ compiler here ({names}) does not "
                "work"
            ) from error
        raise BackendError(f"Inductor failed: {type(error).__name__}: {error}") from error
    return SerializableCompiledFxGraph(compiled, serialize, libraries)


def check_options(options: Mapping[str, Any], where: str) -> None:
    """Check ``mode`` and Inductor's options: names, and the types of their values.

    Raises:
        ConfigError: an option or the mode is unknown, or a value is not of its option's type.
    """
    if not options:
        return
    from torch._inductor import list_mode_options, list_options

    known = ["compiler", "mode", *list_options()]
    for key, value in options.items():
        if key not in known:
            legal = "compiler, mode, and what torch._inductor.list_options() lists"
            raise ConfigError(unknown_name("vendor option", key, known, where, legal))
        wanted = inductor_option_type(key) if key not in ("compiler", "mode") else None
        if wanted is not None and not isinstance(value, wanted):
            kind = type(value).__name__
            raise ConfigError(
                f"vendor option {key!r} for {where}: {value!r} ({kind}) is not legal; "
                f"give {getattr(wanted, '__name__', wanted)}"
            )
    mode = options.get("mode", "default")
    modes = list(list_mode_options())
    if mode not in modes:
        raise ConfigError(unknown_name("mode", mode, modes, f"Inductor on {where}"))


def fingerprint(options: Mapping[str, Any]) -> str:
    """A digest of the settings Inductor compiles under.

    Raises:
        NotCacheable: a setting is an object without a ``uuid``.
    """
    try:
        settings = {**inductor_settings(), **_patches(options)}
    except RuntimeError as error:
        raise NotCacheable(f"Inductor's settings have no identity: {error}") from error
    parts = [f"{name}={_identity(value, name)}" for name, value in sorted(settings.items())]
    return "inductor " + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def _identity(value: Any, name: str) -> str:
    """One text for equal settings, the same in every process."""
    if value is None or isinstance(value, (bool, int, float, str, bytes, torch.dtype)):
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} [{', '.join(_identity(part, name) for part in value)}]"
    if isinstance(value, (set, frozenset)):
        return f"set [{', '.join(sorted(_identity(part, name) for part in value))}]"
    if isinstance(value, Mapping):
        pairs = [f"{_identity(key, name)}: {_identity(value[key], name)}" for key in value]
        return f"dict [{', '.join(sorted(pairs))}]"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    given = value.uuid() if callable(getattr(value, "uuid", None)) else None
    if given is None:
        raise NotCacheable(f"Inductor's {name} holds a {type(value).__name__} without a uuid")
    return f"{type(value).__qualname__} {_identity(given, name)}"


def why_not_cpp(options: Mapping[str, Any] = MappingProxyType({})) -> str | None:
    """What Inductor misses to compile C++ here; None for nothing.

    Inductor looks for the compilers of its setting ``cpp.cxx`` and for no other.
    """
    names = _cxx_names(options)
    if any(shutil.which(name) for name in names):
        return None
    if os.environ.get("TORCH_INDUCTOR_INSTALL_GXX"):  # Inductor installs one
        return None
    return (
        "Inductor compiles C++ for the CPU, and the C++ compiler it looks for "
        f"({' or '.join(names)}) is not installed here; CXX, set before torch is imported, "
        "names another"
    )


def _cxx_names(options: Mapping[str, Any]) -> list[str]:
    """The C++ compilers that Inductor looks for; its ``None`` stands for one it may install."""
    setting = options["cpp.cxx"] if "cpp.cxx" in options else inductor_settings()["cpp.cxx"]
    names = setting if isinstance(setting, (list, tuple)) else [setting]
    return [str(name) for name in names if name is not None]


def _patches(options: Mapping[str, Any]) -> dict[str, Any]:
    """Inductor configuration by name: our default, the mode's settings, then the ones given.

    Random numbers are those of eager: by default Inductor draws from a generator of its own.
    """
    mode = options.get("mode", "default")
    settings: dict[str, Any] = {"fallback_random": True}
    if mode != "default":
        from torch._inductor import list_mode_options

        settings.update(list_mode_options(mode))
    return {**settings, **{key: value for key, value in options.items() if key != "mode"}}
