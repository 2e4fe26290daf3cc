"""Every private torch name the project needs; nothing else imports them.

Each entry says what it is for. A torch release that moves one is answered here and nowhere else.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from functorch.compile import default_partition, min_cut_rematerialization_partition
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext, detect_fake_mode, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.graph import _BoxedCodeGen
from torch.utils._python_dispatch import _disable_current_modes

__all__ = [
    "FakeTensor",
    "FakeTensorMode",
    "aot_autograd",
    "boxed_forward",
    "debug_directory",
    "default_partition",
    "detect_fake_mode",
    "evaluate_shape_guards",
    "guard_count",
    "input_origin",
    "is_static_input",
    "min_cut_rematerialization_partition",
    "mutated_outside",
    "no_dispatch_modes",
    "shape_guards",
    "storage_has_expired",
    "storage_id",
    "trace_artifact",
]


def storage_id(tensor: torch.Tensor) -> int | None:
    """A number for the storage of a tensor, equal for two that share one.

    None for a tensor without a storage of the usual kind (sparse, opaque).
    """
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


storage_has_expired: Callable[..., Any] = torch.UntypedStorage._expired
"""Whether the storage of a ``StorageWeakRef``, given by its ``cdata``, is gone."""


def no_dispatch_modes() -> contextlib.AbstractContextManager[Any]:
    """Run on real tensors although a fake or tracing mode is active."""
    return _disable_current_modes()


def boxed_forward(gm: fx.GraphModule) -> Callable[[list[Any]], Any]:
    """The graph as a function of one list, which it empties, so that inputs are freed early."""
    gm.graph.set_codegen(_BoxedCodeGen())
    gm.recompile()
    return gm.forward


# --- what dispatch has to know of a graph that Dynamo and AOTAutograd made ------------------------


def is_static_input(placeholder: fx.Node) -> bool:
    """Whether Dynamo lifted this placeholder from a parameter, a buffer or a module attribute."""
    return "_dynamo_static_input_type" in placeholder.meta.get("tensor_dict", {})


def input_origin(placeholder: fx.Node) -> int | None:
    """Which input of the Dynamo graph an AOT placeholder stands for; None if for none of them."""
    origin = placeholder.meta.get("desc")
    index = getattr(origin, "idx", None)
    return index if type(origin).__name__ == "PlainAOTInput" else None


def mutated_outside(graph: fx.Graph) -> set[fx.Node]:
    """The placeholders of an AOT graph that the runtime around it mutates.

    All of them, where one is mutated and AOTAutograd's list does not match the placeholders.
    """
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    if metadata is None:
        return set()
    mutated = [
        info.mutates_data or info.mutates_metadata or info.mutates_storage_metadata
        for info in metadata.input_info
    ]
    nodes = [
        node
        for node in graph.find_nodes(op="placeholder")
        if "Token" not in type(node.meta.get("desc")).__name__  # effect tokens are not listed
    ]
    if len(nodes) != len(mutated):
        return set(nodes) if any(mutated) else set()
    return {node for node, is_mutated in zip(nodes, mutated, strict=True) if is_mutated}


# --- symbolic shapes ------------------------------------------------------------------------------


def _shape_env(values: Sequence[Any]) -> Any:
    mode = detect_fake_mode(values)
    if mode is not None and mode.shape_env is not None:
        return mode.shape_env
    context = TracingContext.try_get()
    return context.fake_mode.shape_env if context is not None and context.fake_mode else None


def guard_count(values: Sequence[Any]) -> int:
    """How many guards the shape environment of these fake values holds."""
    env = _shape_env(values)
    return len(env.guards) if env is not None else 0


def shape_guards(values: Sequence[Any]) -> str | None:
    """What must hold of the symbolic inputs, as an expression; None if there is nothing."""
    env = _shape_env(values)
    symbols = [value for value in values if isinstance(value, torch.SymInt)]
    if env is None or not symbols:
        return None
    expression = env.produce_guards_expression(placeholders=symbols)
    return expression if isinstance(expression, str) and expression else None


def evaluate_shape_guards(expression: str, values: Sequence[Any]) -> bool:
    """Whether a stored guard expression holds here; if it does, it becomes a guard of this program.

    Torch evaluates it as Python, so what is not plain arithmetic on sizes does not hold.

    Args:
        expression: what ``shape_guards`` gave when the artifact was made.
        values: the fake inputs of the graph at hand, in the same order as then.
    """
    env = _shape_env(values)
    symbols = [value for value in values if isinstance(value, torch.SymInt)]
    if env is None or not _is_arithmetic(expression):
        return False
    hints = [symbol.node.hint for symbol in symbols]
    if any(hint is None for hint in hints):
        return False
    try:
        holds = env.evaluate_guards_expression(expression, hints)
    except (ArithmeticError, AttributeError, LookupError, NameError, TypeError, ValueError):
        return False
    return bool(holds) and bool(env.evaluate_guards_expression(expression, symbols))


def _is_arithmetic(expression: str) -> bool:
    try:
        parts = list(ast.walk(ast.parse(expression, mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return all(
        isinstance(part, _ARITHMETIC)
        or (isinstance(part, ast.Name) and part.id in _GUARD_NAMES)
        or (
            isinstance(part, ast.Attribute)
            and isinstance(part.value, ast.Name)
            and (part.value.id == "math" or part.attr.lstrip("_").startswith("sym_"))
        )
        for part in parts
    )


_ARITHMETIC = (
    *(ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Call),
    *(ast.boolop, ast.operator, ast.unaryop, ast.cmpop, ast.Constant, ast.Subscript, ast.Load),
)
_GUARD_NAMES = frozenset(
    {
        *("L", "math", "torch", "abs", "float", "int", "max", "min", "round"),
        *("IsNonOverlappingAndDenseIndicator", "cast_symbool_to_symint_guardless"),
    }
)


def symbol_ranges(size: torch.SymInt) -> list[tuple[Any, str, str]]:
    """The free symbols of a size, each with the bounds torch knows, in a fixed order."""
    known = size.node.shape_env.var_to_range
    free = sorted(size.node.expr.free_symbols, key=str)
    return [
        (s, str(known[s].lower), str(known[s].upper)) if s in known else (s, "", "") for s in free
    ]


@contextlib.contextmanager
def suppressed_guards(mode: FakeTensorMode) -> Iterator[None]:
    """Run fake operators again whose questions about sizes were answered when they were traced."""
    if mode.shape_env is None:
        yield
    else:
        with mode.shape_env.suppress_guards():
            yield


# --- where torch's own tools look -----------------------------------------------------------------


def trace_artifact(name: str, payload: Callable[[], str]) -> None:
    """Add a text to the structured trace (``TORCH_TRACE``); ``payload`` runs only if one is on."""
    from torch._logging import trace_structured  # type: ignore[attr-defined]

    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": name, "encoding": "string"},
        payload_fn=payload,
    )


def debug_directory() -> str | None:
    """The run's debug directory where ``TORCH_COMPILE_DEBUG=1``, else None."""
    if os.environ.get("TORCH_COMPILE_DEBUG") != "1":
        return None
    from torch._dynamo.utils import get_debug_dir

    return str(get_debug_dir())


# --- facts about this process that change what a compiler makes -----------------------------------


def process_state() -> dict[str, str]:
    """Settings of this process that change generated code or the operators chosen."""
    return {
        "deterministic": str(torch.are_deterministic_algorithms_enabled()),
        "deterministic_fill": str(torch.utils.deterministic.fill_uninitialized_memory),  # type: ignore[attr-defined]
        "default_dtype": str(torch.get_default_dtype()),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "threads": str(torch.get_num_threads()),
        "mkldnn": str(torch.backends.mkldnn.enabled),
    }


def torch_identity() -> str:
    """The exact build of torch."""
    return f"{torch.__version__} {torch.version.git_version}"


def cpu_identity() -> str:
    """The instruction sets of this CPU as torch sees them, as a digest with a readable head."""
    head = torch.backends.cpu.get_cpu_capability()
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    flags = ",".join(f"{name}={capabilities[name]}" for name in sorted(capabilities))
    return f"{head} {hashlib.sha256(flags.encode()).hexdigest()[:16]}"


# --- Inductor -------------------------------------------------------------------------------------


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

    settings = {"config_patches": options} if options else {}
    inputs = list(fake_inputs)

    def compile_copy(aot: bool) -> Any:
        # Inductor's own copy is a deep one, which fails on real constants under a fake mode.
        donated = fx.GraphModule(gm, copy.deepcopy(gm.graph))
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
    return compiled, compiled.serialize


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
