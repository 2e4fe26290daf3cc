"""Declared forms: a pattern written as ATen calls, with a word for what may vary.

    def rms_norm(x, weight, eps):
        wide = cast(x)
        square = either(aten.pow.Tensor_Scalar(wide, 2), aten.mul.Tensor(wide, wide))
        mean = aten.mean.dim(square, [-1], True)
        return aten.mul.Tensor(weight, cast(wide * aten.rsqrt.default(aten.add.Tensor(mean, eps))))

The function is run once, on stand-ins: it is written as if it computed the pattern. A parameter
fits whatever stands there, a tensor, a number or a list; used twice, it must be the same. Tracing
one takes about a millisecond, so forms are traced when a graph is first looked through.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from torch import fx
from typing_extensions import override

from xpu_graph.errors import PassError
from xpu_graph.passes.patterns.template import Template
from xpu_graph.passes.patterns.words import ANY, cast, casted, either, reshaped

__all__ = ["ANY", "cast", "casted", "either", "form", "reshaped"]


@functools.cache
def form(function: Callable[..., Any]) -> Template:
    """The template of a declared form.

    Args:
        function: of values of the graph; calls ATen operators and the words of this module, and
            returns what is replaced: one call, or a tuple of them.

    Raises:
        PassError: it is no form, such as one that does not use a parameter.
    """
    graph = _Tracer().trace(function)
    name = getattr(function, "__qualname__", repr(function))
    inputs = list(graph.find_nodes(op="placeholder"))
    returned = graph.output_node().args[0]
    outputs: list[Any] = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    calls = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    for node in outputs:
        if not isinstance(node, fx.Node) or node.op != "call_function":
            raise PassError(f"form {name} returns {node!r}, which is no call")
        if node.target in (cast, reshaped):
            raise PassError(f"form {name} returns something that need not be there")
    for node in (*inputs, *calls):
        if not node.users:
            raise PassError(f"form {name} does not use {node}")
    if [node.target for node in inputs] != list(inspect.signature(function).parameters):
        raise PassError(f"form {name} takes *args or **kwargs")
    return Template([*inputs], frozenset(), outputs, len(outputs) > 1, calls, is_open=True)


class _Tracer(fx.Tracer):
    @override
    def create_arg(self, a: Any) -> Any:
        return a if a is ANY else super().create_arg(a)
