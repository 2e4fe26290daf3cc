"""What is needed to trace a Dynamo graph into one of ATen operators that is not differentiated yet.

The operators are those that autograd sees: composite ones are whole, writes are writes, and the
switches of gradients and of autocast are calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.source import ConstantSource
from torch._dynamo.utils import preserve_rng_state
from torch._guards import TracingContext
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from xpu_graph.torch_compat.guards import refused_guards, suppressed_guards
from xpu_graph.torch_compat.replay import NUMBERS, SYMBOLIC, NotLowered, Runner, Tracer


def pre_dispatch(
    function: Callable[..., Any], arguments: Sequence[Any], **how: Any
) -> fx.GraphModule:
    """Trace a function above autograd, so that composite operators stay whole.

    Args:
        function: the function.
        arguments: what it is called with.
        how: keyword arguments of ``make_fx``.
    """
    return make_fx(function, pre_dispatch=True, **how)(*arguments)


def traced_on_fakes(
    function: Callable[..., Any], fakes: Sequence[torch.Tensor], mode: FakeTensorMode
) -> fx.GraphModule:
    """Trace a function above autograd for fake tensors of a graph.

    Args:
        function: a function of tensors.
        fakes: what it is called with.
        mode: theirs.

    Raises:
        NeedsGuard: it asks about a size that is not known.
    """
    with mode, torch.no_grad():
        if any(map(_is_symbolic, fakes)):
            # Whether operators ask has to be seen apart: recording asks for itself, in vain.
            with refused_guards(mode):
                function(*fakes)
        with suppressed_guards(mode):
            return pre_dispatch(function, fakes)


def fake_inputs(inputs: Sequence[Any]) -> tuple[FakeTensorMode, list[Any]]:
    """Fake values of the inputs of a Dynamo graph, in a mode of their own.

    Sizes are the symbols that Dynamo made. The mode is one of its own because tracing changes what
    it is given, and AOTAutograd's mode knows its fake tensors by the real ones.

    Raises:
        NotLowered: an input is of a kind that is not traced here.
    """
    context = TracingContext.try_get()
    if context is None or context.fake_mode is None:
        raise NotLowered("Dynamo did not make the graph")
    mode = FakeTensorMode(shape_env=context.fake_mode.shape_env)

    def fake(value: Any) -> Any:
        if isinstance(value, FakeTensor):
            raise NotLowered("its inputs are not there: Dynamo split the graph for DDP")
        if is_traceable_wrapper_subclass(value):
            raise NotLowered(f"an input is a {type(value).__name__}")
        if not isinstance(value, torch.Tensor):
            if isinstance(value, NUMBERS):
                return value
            raise NotLowered(f"an input is a {type(value).__name__}, no tensor")
        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise NotLowered(f"an input is a {type(value).__name__}")
        if value not in context.tensor_to_context:
            raise NotLowered("Dynamo did not see one of its inputs")
        symbols = context.tensor_to_context[value]
        return mode.from_tensor(value, symbolic_context=symbols, source=symbols.tensor_source)

    with mode:
        return mode, [fake(value) for value in inputs]


@dataclass(frozen=True)
class Trace:
    """A Dynamo graph as autograd would see it.

    Attributes:
        gm: the graph, with a fake value in ``meta["val"]`` of every node that has one.
        outputs: what it returned, as a flat list.
        written: what it was given and wrote to.
    """

    gm: fx.GraphModule
    outputs: list[Any]
    written: list[torch.Tensor]


def trace_before_autograd(gm: fx.GraphModule, fakes: Sequence[Any], mode: FakeTensorMode) -> Trace:
    """Run a Dynamo graph on fake values, and record the ATen operators that autograd would see.

    Higher-order operators stay as they are, with the graphs inside them.

    Args:
        gm: a graph of torch-level operators.
        fakes: a value a placeholder; their metadata may change.
        mode: that of the values.

    Raises:
        NotLowered: something in the graph would get lost.
        NeedsGuard: an operator asks what Dynamo has not asked.
    """
    outputs: list[Any] = []
    written: list[torch.Tensor] = []

    def run(*arguments: Any) -> Any:
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        versions = [tensor._version for tensor in tensors]
        returned = Tracer(gm).finish(*arguments)
        outputs[:] = pytree.tree_leaves(returned)
        written[:] = [t for t, old in zip(tensors, versions, strict=True) if t._version != old]
        return returned

    with ExitStack() as around:
        around.enter_context(preserve_rng_state())
        around.enter_context(torch.set_grad_enabled(torch.is_grad_enabled()))
        around.enter_context(mode)
        around.enter_context(enable_python_dispatcher())
        if any(map(_is_symbolic, fakes)):
            # Whether operators ask has to be seen apart: recording asks for itself, in vain.
            copies = [another(v) for v in fakes]
            with refused_guards(mode), torch.set_grad_enabled(torch.is_grad_enabled()):
                Runner(gm).finish(*copies)
        around.enter_context(suppressed_guards(mode))
        around.enter_context(preserve_node_meta())
        lowered = pre_dispatch(run, fakes)
    return Trace(lowered, outputs, written)


def another(value: Any) -> Any:
    """The same memory in an object of its own, as running a graph may change what it is given.

    What stands for a Python number stays, since a copy would not know the number.
    """
    if not isinstance(value, FakeTensor) or value.item_memo is not None:
        return value
    with value.fake_mode:
        return value.detach()


def _is_symbolic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return bool(value._has_symbolic_sizes_strides)
    return isinstance(value, SYMBOLIC)


def copy_dynamo_metadata(source: fx.GraphModule, lowered: fx.GraphModule) -> None:
    """Give a traced graph what AOTAutograd and backends look for in a Dynamo graph.

    Args:
        source: the Dynamo graph.
        lowered: a graph of the same inputs, which may hold tensors that tracing made.
    """
    lowered.meta.update(source.meta)
    pairs = zip(
        source.graph.find_nodes(op="placeholder"),
        lowered.graph.find_nodes(op="placeholder"),
        strict=True,
    )
    for theirs, mine in pairs:
        mine.meta = {**theirs.meta, **mine.meta}
        if hasattr(theirs, "_dynamo_source"):
            mine._dynamo_source = theirs._dynamo_source
    sources = getattr(source, "_param_name_to_source", None)
    if sources is None:
        return
    made = [name for name, _ in (*lowered.named_parameters(), *lowered.named_buffers())]
    lowered._param_name_to_source = {  # type: ignore[assignment]
        **sources,
        **{name: ConstantSource(name) for name in made},
    }
