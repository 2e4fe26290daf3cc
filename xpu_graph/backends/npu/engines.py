"""The vendor's compilers themselves: torchair for two modes, npugraph_ex for the third.

Each graph gets a configuration object of its own, because compiling changes the object. What the
vendor's own ``torch.compile`` backend does to the inputs of a graph is done here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from xpu_graph.backends.npu import vendor
from xpu_graph.backends.npu.option_checks import Plan
from xpu_graph.backends.npu.option_table import NPUGRAPH_EX
from xpu_graph.backends.npu.vendor_graph import VendorGraph
from xpu_graph.backends.npu.vendor_settings import apply, npugraph_ex_options, torchair_settings
from xpu_graph.errors import BackendError, CacheError, NotCacheable
from xpu_graph.fx import marks, placeholders, user_line
from xpu_graph.torch_compat import DYNAMO_CONTROL_FLOW, detect_fake_mode, fake_tracing

Compiled = Callable[..., Any]
"""What a vendor made: takes the inputs of the graph, returns a sequence of its outputs."""


def compile_graph(graph: VendorGraph, plan: Plan) -> Compiled:
    """Have the vendor compile a graph.

    Raises:
        BackendError: it failed; names the operator and the user's line where the fault is one's.
    """
    try:
        with fake_tracing(detect_fake_mode(graph.inputs)), _described_inputs(graph):
            return _compile(graph, plan)
    except DYNAMO_CONTROL_FLOW:
        raise
    except Exception as error:  # vendor code may raise anything; it is named and chained
        raise BackendError(_explain(error, graph, plan)) from error


def _compile(graph: VendorGraph, plan: Plan) -> Compiled:
    if plan.mode == NPUGRAPH_EX:
        options = npugraph_ex_options(plan)
        return vendor.npugraph_ex().compile_fx(graph.inner, graph.inputs, options)  # type: ignore[no-any-return]
    config = vendor.torchair().CompilerConfig()
    apply(config, torchair_settings(plan))
    return vendor.torchair().get_compiler(config)(graph.inner, graph.inputs)  # type: ignore[no-any-return]


def code_of(compiled: Compiled) -> str:
    """The text that makes the compiled graph again in another process.

    Raises:
        NotCacheable: the vendor has none for this graph or these options.
    """
    try:
        code = compiled.dump_artifacts().py_code  # type: ignore[attr-defined]
    except Exception as error:  # vendor code: the graph runs all the same, it is only not kept
        raise NotCacheable(
            f"the vendor cannot write this graph down: {_first_line(error)}"
        ) from error
    if not isinstance(code, str):
        raise NotCacheable("the vendor cannot write this graph down under these options")
    return code


def load(code: str, mode: str) -> Compiled:
    """Make a compiled graph from its text; **this executes the text**, and needs a device.

    Raises:
        CacheError: it does not fit this process.
    """
    if mode == NPUGRAPH_EX:
        vendor.npugraph_ex()
        from npugraph_ex.configs.compiler_config import CompilerConfig
        from npugraph_ex.npu_fx_compiler import _CompiledFxArtifacts, _CompiledFxGraph
    else:
        vendor.torchair()
        from torchair.configs.compiler_config import CompilerConfig
        from torchair.npu_fx_compiler import _CompiledFxArtifacts, _CompiledFxGraph
    try:
        with fake_tracing(None):
            loaded = _CompiledFxGraph.load_artifacts(_CompiledFxArtifacts(py_code=code))
    except Exception as error:  # vendor code: whatever it raises, this entry is of no use
        raise CacheError(f"the vendor does not load it: {_first_line(error)}") from error
    # A loaded graph has no configuration, and its call reads one where the vendor logs for
    # debugging; with a configuration alone, the call would try to generate the text again.
    loaded.run_kernel = loaded.runner
    loaded.config = CompilerConfig()
    return loaded  # type: ignore[no-any-return]


@contextlib.contextmanager
def _described_inputs(graph: VendorGraph) -> Iterator[None]:
    """Tell the vendor what is known of the inputs, in its words, while it compiles."""
    described: list[tuple[torch.Tensor, str]] = []
    try:
        for node, value in zip(placeholders(graph.inner.graph), graph.inputs, strict=True):
            if not isinstance(value, torch.Tensor):
                continue
            known = marks(node)
            if "static" in known:
                value._torchair_is_parameter = True  # type: ignore[attr-defined]
                described.append((value, "_torchair_is_parameter"))
            if "dim_gears" in known:
                value.dim_gears = known["dim_gears"]  # type: ignore[attr-defined]
                described.append((value, "dim_gears"))
        yield
    finally:
        for value, name in described:
            if hasattr(value, name):
                delattr(value, name)


def _explain(error: Exception, graph: VendorGraph, plan: Plan) -> str:
    said = _first_line(error)
    start = f"compiler 'ge' in mode {plan.mode!r} failed"
    if "recorded options" in said:
        return (
            f"{start}, since GE takes one set of global options a process, and an earlier graph "
            f"set others: {said}"
        )
    for node in graph.inner.graph.nodes:
        if node.op == "call_function" and str(node.target) in str(error):
            return f"{start} at operator {node.target}, node {node.name!r}{user_line(node)}: {said}"
    return f"{start}: {said}"


def _first_line(error: BaseException) -> str:
    """The vendor adds its stack and its generated text to a message; they are in the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def describe_failure(error: BaseException, code: str | None, lines: dict[str, str]) -> str:
    """What a failed run of a compiled graph says: the vendor's words, and the user's line.

    Args:
        error: what the vendor raised.
        code: the text that ran, where it is known.
        lines: where the user's program made the nodes, by name.
    """
    statement = _statement(error, code)
    name = statement.partition("=")[0].strip().partition(" ")[0]
    at = f" at {statement.partition(';')[0]}{lines.get(name, '')}" if statement else ""
    return f"{at}: {_first_line(error)}"


def _statement(error: BaseException, code: str | None) -> str:
    """The line of the vendor's generated text that failed; its file name is ``<string>``."""
    trace, number = error.__traceback__, 0
    while trace is not None:
        if (
            trace.tb_frame.f_code.co_filename == "<string>"
            and trace.tb_frame.f_code.co_name == "forward"
        ):
            number = trace.tb_lineno
        trace = trace.tb_next
    lines: Sequence[str] = (code or "").splitlines()
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""
