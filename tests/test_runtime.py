"""The boxed calling convention, and the errors that get out."""

import gc
import weakref

import pytest
import torch
from torch import fx

from xpu_graph import BackendError, ConfigError, XpuGraphError
from xpu_graph.artifact import SerializableGraphModule
from xpu_graph.backends import CompiledCallable
from xpu_graph.folded import FoldedArtifact
from xpu_graph.runtime import boxed_entry, named_errors
from xpu_graph.torch_compat import DYNAMO_CONTROL_FLOW


def add_one():
    return SerializableGraphModule(fx.symbolic_trace(lambda x: (x + 1,)))


@pytest.mark.parametrize(
    "artifact",
    [
        add_one(),
        CompiledCallable(lambda x: (x + 1,)),
        FoldedArtifact(add_one(), add_one(), [], [0]),
    ],
    ids=lambda artifact: type(artifact).__name__,
)
def test_an_entry_says_it_takes_a_list_and_empties_it(artifact):
    if isinstance(artifact, FoldedArtifact):
        artifact._fold = lambda: []
    entry = boxed_entry(artifact)
    assert entry._boxed_call
    args = [torch.ones(2)]
    (result,) = entry(args)
    assert args == [] and torch.equal(result, torch.full((2,), 2.0))


def test_inputs_are_freed_while_the_graph_runs():
    seen = []

    def look(x):
        gc.collect()
        seen.append(reference())
        return x

    graph = fx.Graph()
    x = graph.placeholder("x")
    doubled = graph.call_function(torch.mul, (x, 2))
    graph.output((graph.call_function(look, (doubled,)),))
    entry = boxed_entry(SerializableGraphModule(fx.GraphModule({}, graph)))
    value = torch.ones(2)
    reference = weakref.ref(value)
    args = [value]
    del value
    entry(args)
    assert seen == [None]


def test_errors_of_others_are_named_and_chained():
    with (
        pytest.raises(BackendError, match="the vendor failed: IndexError: odd") as caught,
        named_errors("the vendor", BackendError),
    ):
        raise IndexError("odd")
    assert isinstance(caught.value.__cause__, IndexError)


@pytest.mark.parametrize("error", [ConfigError("own"), KeyboardInterrupt()])
def test_our_own_errors_and_interrupts_pass(error):
    with pytest.raises(type(error)) as caught, named_errors("it", XpuGraphError):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("kind", DYNAMO_CONTROL_FLOW)
def test_what_dynamo_tells_itself_passes_through(kind):
    with pytest.raises(kind), named_errors("a vendor", XpuGraphError):
        raise kind("again, please")
