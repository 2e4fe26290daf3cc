"""Collectives stay what they are: as many, in their order, with the numbers that eager gives.

Other ranks wait for each of them: one that is merged, dropped or moved is a job that hangs.
"""

import pytest
import torch
import torch.distributed as dist
from torch.utils import _pytree as pytree

from tests.distributed import collectives
from tests.distributed.collectives import PROGRAMS, RAW
from xpu_graph import XpuGraph, XpuGraphConfig, effects
from xpu_graph.fx import shallow_copy
from xpu_graph.passes import DEFAULT_PASSES
from xpu_graph.stage import Stage, Unit
from xpu_graph.testing import assert_same, capture, run_passes

DIFFERENTIATED = (
    collectives.with_gradients,
    collectives.equal_calls,
    collectives.unused_beside_used,
    collectives.in_place,
    collectives.coalesced,
)
NAMES = [program.__name__ for program in PROGRAMS]


@pytest.fixture(scope="module")
def _one_of_two():
    """The group of a job of two in which nobody answers: enough to trace and to compile."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield
    dist.destroy_process_group()


def make_input():
    """Large enough for the passes that look at large tensors only; other numbers on each rank."""
    return (torch.arange(4.0 * 16384).reshape(4, 16384) - 30000) / 1000 + dist.get_rank()


@pytest.mark.usefixtures("_one_of_two")
@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_passes_keep_every_collective_in_its_place(program):
    (captured,) = capture(program, make_input())
    before = collectives.calls(captured.gm)
    assert before
    for level in ("level2", "level3"):
        unit = Unit(captured.stage, shallow_copy(captured.gm), captured.fake_inputs)
        run_passes(DEFAULT_PASSES, unit, opt_level=level)
        assert collectives.calls(unit.gm) == before, level


@pytest.mark.usefixtures("_one_of_two")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_in_training_too(program, monkeypatch):
    """Joint, forward and backward; each is looked at before and after its passes."""
    from xpu_graph.passes import Pipeline

    seen = []
    run = Pipeline.run

    def watched(self, unit, *args, **kwargs):
        before = collectives.calls(unit.gm)
        rounds = run(self, unit, *args, **kwargs)
        seen.append((unit.stage, before, collectives.calls(unit.gm)))
        return rounds

    monkeypatch.setattr(Pipeline, "run", watched)
    backend = XpuGraph(XpuGraphConfig(opt_level="level3", enable_cache=False))
    weight = make_input().requires_grad_()
    compiled = torch.compile(lambda x: program(x * weight), backend=backend)
    if program is collectives.largest:
        with pytest.raises(RuntimeError, match="only supports 'sum'"):  # of torch
            compiled(make_input())
        return
    leaves = [o for o in pytree.tree_leaves(compiled(make_input())) if o.requires_grad]
    if leaves:  # torch has no gradient for some collectives
        sum(leaf.sum() for leaf in leaves).backward()
        assert {stage for stage, _, _ in seen} == {Stage.joint, Stage.forward, Stage.backward}
    assert seen
    for stage, before, after in seen:
        assert after == before, stage


@pytest.mark.usefixtures("_one_of_two")
def test_one_that_nobody_uses_stays():
    """Torch drops those that are not waited for before any backend sees them; passes do not."""
    (unit,) = capture(lambda x: RAW.wait_tensor(RAW.all_reduce(x, "sum", "0")), make_input())
    graph = unit.gm.graph
    x, reduce, wait, output = graph.nodes
    output.args = ((x,),)
    graph.erase_node(wait)
    run_passes(DEFAULT_PASSES, unit, opt_level="level3")
    assert [*graph.nodes] == [x, reduce, output]


@pytest.mark.usefixtures("_one_of_two")
def test_what_is_waited_for_is_one_tensor_with_what_is_given():
    (unit,) = capture(collectives.waited_input, make_input())
    (wait,) = unit.gm.graph.find_nodes(op="call_function", target=RAW.wait_tensor.default)
    assert effects.is_wait(wait)
    run_passes(DEFAULT_PASSES, unit, opt_level="level2")
    (returned,) = unit.gm.graph.output_node().args[0]
    assert returned is not wait, "the caller would get the input itself"


@pytest.mark.usefixtures("_one_of_two")
@pytest.mark.parametrize(
    "program",
    [collectives.waited_for_late, collectives.waited_for_nothing],
    ids=lambda p: p.__name__,
)
def test_nothing_is_written_into_what_a_collective_reads(program):
    (unit,) = capture(program, make_input())
    run_passes(DEFAULT_PASSES, unit, opt_level="level2")
    (sine,) = unit.gm.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
    assert not any(sine in effects.written_args(user) for user in sine.users)


# --- on two processes --------------------------------------------------------------------------


def materialised(value):
    """Results of eager collectives are tensors that wait when they are read."""
    from torch.distributed._functional_collectives import AsyncCollectiveTensor

    return pytree.tree_map_only(AsyncCollectiveTensor, lambda t: t.trigger_wait(), value)


def outcome(call, grad):
    """What a call gives, with the gradient of its input; or the kind of error it raises."""
    leaf = make_input().requires_grad_(grad)
    x = leaf * 1
    try:
        out = materialised(call(x))
        leaves = [o for o in pytree.tree_leaves(out) if o.requires_grad]
        if leaves:
            sum((o * o).sum() for o in leaves).backward()
    except RuntimeError as error:
        return type(error).__name__
    return pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (out, x, leaf.grad))


def compare(name, level):
    """A program compiled and not, on what differs between the ranks; twice, for the second call.

    Eager has no gradient for most collectives and takes them for constants, compiled code
    differentiates some: there, torch's own backend is the reference.
    """
    program = getattr(collectives, name)
    backend = XpuGraph(XpuGraphConfig(opt_level=level, enable_cache=False))
    for grad in (False, True) if program in DIFFERENTIATED else (False,):
        torch._dynamo.reset()
        compiled = torch.compile(program, backend=backend, fullgraph=True)
        reference = program
        if grad and program is not collectives.with_gradients:
            reference = torch.compile(program, backend="aot_eager", fullgraph=True)
        for _ in range(2):
            assert_same(outcome(compiled, grad), outcome(reference, grad), name)


@pytest.mark.parametrize("name", NAMES)
def test_numbers_are_those_of_eager(pair, name):
    pair.run(compare, name, "level3")
