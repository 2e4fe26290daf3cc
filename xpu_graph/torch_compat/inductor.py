"""The private names of Inductor: how it is called, how its C++ kernels are kept and supplied."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Any, get_args

from torch import fx
from torch._guards import tracing
from torch._prims.rng_prims import run_and_save_rng_state
from torch._subclasses.functional_tensor import FunctionalTensorMode


def inductor_compile(
    gm: fx.GraphModule, fake_inputs: Sequence[Any], options: dict[str, Any]
) -> tuple[Callable[..., Any], Callable[[], bytes] | None]:
    """Compile a dispatched graph with Inductor.

    Args:
        gm: an ATen graph; it is copied.
        fake_inputs: its inputs, under the fake mode of the tracing context.
        options: Inductor configuration by name.

    Returns:
        A function of the graph's inputs, and one that gives its serialised form. The second is None
        where Inductor cannot serialise what it made.
    """
    from torch._inductor import standalone_compile

    _let_saved_draws_be_traced()
    settings = {"config_patches": options} if options else {}
    inputs = list(fake_inputs)

    def compile_copy(aot: bool) -> Any:
        # Inductor's own copy is a deep one, which fails on real constants under a fake mode.
        donated = fx.GraphModule(gm, copy.deepcopy(gm.graph))
        for node in donated.graph.nodes:
            # The graph is one part already; AOTAutograd would look in it for a backward to repeat.
            node.meta.pop("recompute", None)
        return standalone_compile(
            donated,
            inputs,
            dynamic_shapes="from_tracing_context",
            aot=aot,
            donate_graph_module=True,
            options=settings,
        )

    try:
        compiled = compile_copy(aot=True)
    except RuntimeError as error:
        if "serialize method" not in str(error):
            raise
        return compile_copy(aot=False), None
    # Torch keeps no form of graphs with some operators: cond, loops, ordered effects.
    has_form = compiled.inner_fn.compiled_fn.serialize is not None
    return compiled, compiled.serialize if has_form else None


def _let_saved_draws_be_traced() -> None:
    """Say how to trace the operator that draws in a checkpointed part and keeps the random state.

    Torch says so of its counterpart, which draws again from the kept state, and of this one not.
    """
    operator: Any = run_and_save_rng_state
    with _hook_lock:
        if FunctionalTensorMode in operator.python_key_table:
            return

        @operator.py_functionalize_impl  # type: ignore[untyped-decorator]
        def functionalized(context: Any, *args: Any, **kwargs: Any) -> Any:
            args, kwargs = context.unwrap_tensors(args), context.unwrap_tensors(kwargs)
            with context.redispatch_to_next():
                return context.wrap_tensors(operator(*args, **kwargs))


def inductor_deserialize(data: bytes) -> Callable[..., Any]:
    """The inverse of the second result of ``inductor_compile``; unpickles, so trust the bytes."""
    from torch._inductor.standalone_compile import AOTCompiledArtifact

    # The loader writes into the tracing context it finds, that of the graph being compiled.
    with tracing(None):
        return AOTCompiledArtifact.deserialize(data)


_Loader = Callable[[], Any]
_LoadKernel = Callable[[], _Loader]
_this_thread = threading.local()
_hook_lock = threading.Lock()
_hook_users = 0


@contextlib.contextmanager
def _kernels_through(
    answer: Callable[[type, str, _LoadKernel], _Loader],
) -> Iterator[None]:
    """Ask ``answer`` for every C++ kernel that Inductor loads in this thread meanwhile.

    It is given Inductor's class, a digest of the kernel's source and flags, and Inductor's own way.
    Other threads are not affected, and Inductor is as it was when the last user is gone.
    """
    global _hook_users  # noqa: PLW0603
    from torch._inductor.codecache import CppCodeCache

    with _hook_lock:
        if not _hook_users:
            _install_kernel_hook(CppCodeCache)
        _hook_users += 1
    previous = getattr(_this_thread, "answer", None)
    _this_thread.answer = answer
    try:
        yield
    finally:
        _this_thread.answer = previous
        with _hook_lock:
            _hook_users -= 1
            if not _hook_users:
                _remove_kernel_hook(CppCodeCache)


def _install_kernel_hook(cache: Any) -> None:
    original = cache.__dict__["load_async"]

    def load_async(
        cls: type, main_code: str, device_type: str = "cpu", *args: Any, **kwargs: Any
    ) -> _Loader:
        def load() -> _Loader:
            return original.__func__(cls, main_code, device_type, *args, **kwargs)  # type: ignore[no-any-return]

        answer = getattr(_this_thread, "answer", None)
        if answer is None:
            return load()
        flags = sorted((name, kwargs[name]) for name in kwargs if name != "submit_fn")
        text = repr((cls.__name__, main_code, device_type, args[1:], flags))
        return answer(cls, hashlib.sha256(text.encode()).hexdigest(), load)  # type: ignore[no-any-return]

    load_async.original = original  # type: ignore[attr-defined]
    cache.load_async = classmethod(load_async)


def _remove_kernel_hook(cache: Any) -> None:
    cache.load_async = cache.__dict__["load_async"].__func__.original


@contextlib.contextmanager
def recorded_kernels() -> Iterator[dict[str, _Loader]]:
    """Record which C++ kernels Inductor loads meanwhile: digest of the source -> its loader."""
    loaders: dict[str, _Loader] = {}

    def record(cache: type, digest: str, load: _LoadKernel) -> _Loader:
        loaders[digest] = load()
        return loaders[digest]

    with _kernels_through(record):
        yield loaders


def kernel_path(loader: _Loader) -> str:
    """The shared library a recorded loader loads."""
    library = loader()
    return str(getattr(library, "__file__", None) or library._name)


@contextlib.contextmanager
def supplied_kernels(paths: Mapping[str, str]) -> Iterator[None]:
    """Let Inductor load these libraries, by digest of their source, instead of running a compiler.

    Raises:
        KeyError: from inside, where Inductor wants a kernel that is not among them.
    """

    def supply(cache: Any, digest: str, load: _LoadKernel) -> _Loader:
        library = cache._load_library(paths[digest], digest)
        return lambda: library

    with _kernels_through(supply):
        yield


def inductor_option_type(name: str) -> Any:
    """What ``isinstance`` can check an option's value against; None where nothing can."""
    from torch._inductor import config

    declared = config.get_type(name)  # type: ignore[attr-defined]
    parts = get_args(declared) if isinstance(declared, UnionType) else (declared,)
    return declared if all(isinstance(part, type) for part in parts) else None


def inductor_settings() -> dict[str, Any]:
    """The settings of Inductor and AOTAutograd that change what is compiled, by name.

    Raises:
        RuntimeError: one of them is a factory of objects without an identity.
    """
    from torch._functorch import config as functorch_config
    from torch._inductor import config as inductor_config

    own = inductor_config.save_config_portable(ignore_private_configs=False)
    # Left out by torch, whose own cache asks each of them for a ``uuid``.
    passes = {name: getattr(inductor_config, name, None) for name in _INDUCTOR_PASSES}
    functorch = functorch_config.save_config_portable(ignore_private_configs=False)
    return {**own, **passes, **{f"functorch.{name}": functorch[name] for name in functorch}}


_INDUCTOR_PASSES = (
    "joint_custom_post_pass",
    "joint_custom_pre_pass",
    "post_grad_custom_post_pass",
    "post_grad_custom_pre_pass",
    "pre_grad_custom_pass",
    "_fuse_ddp_communication_passes",
    "_post_fusion_custom_pass",
    "_pre_fusion_custom_pass",
)
