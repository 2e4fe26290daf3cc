"""From Dynamo's graph to units: stages, gradients, partitioners, what may be frozen."""

import copy
import gc
import weakref

import pytest
import torch
from torch.nn import functional

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.dispatch import dispatch
from xpu_graph.fx import storages_of
from xpu_graph.stage import Stage
from xpu_graph.testing import assert_same, capture

PARTITIONED = []


def recording_partition(joint, inputs, **kwargs):
    """A partitioner of the user's own."""
    from functorch.compile import default_partition

    PARTITIONED.append(joint)
    return default_partition(joint, inputs, **kwargs)


@pytest.fixture
def by_dotted_name(monkeypatch):
    import sys
    import types

    module = types.ModuleType("somebodys_partitioner")
    module.cut = recording_partition
    monkeypatch.setitem(sys.modules, "somebodys_partitioner", module)
    return "somebodys_partitioner.cut"


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(7, 6)
        self.norm = torch.nn.BatchNorm1d(6)
        self.one = torch.nn.Linear(6, 8)
        self.two = torch.nn.Linear(8, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, ids, x):
        self.seen += 1
        h = self.norm(self.embed(ids).mean(1) + x * 1 + 0)
        h = functional.dropout(self.one(h).relu(), 0.3, self.training)
        return self.two(h - 0), h


def train(model, forward, steps=3):
    """A few steps; the losses, the gradients of the input and of the parameters."""
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    seen = []
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        ids = torch.randint(0, 7, (5, 2), generator=generator)
        x = torch.randn(5, 6, generator=generator).requires_grad_()
        torch.manual_seed(step)
        y, h = forward(ids, x)
        loss = functional.cross_entropy(y, ids[:, 0] % 3) + h.square().mean()
        optimiser.zero_grad()
        loss.backward()
        grads = [p.grad.clone() for p in model.parameters()]
        optimiser.step()
        seen.append((loss.detach(), x.grad, grads))
    return seen


PARTITIONERS = (None, "DEFAULT", "MINCUT", "dotted", recording_partition)
FIELDS = ({}, {"freeze": True}, {"is_training": True}, {"opt_level": "level2", "freeze": True})


@pytest.mark.parametrize(
    ("fields", "partition_fn", "dynamic"),
    [
        *[(fields, partition_fn, False) for fields in FIELDS for partition_fn in PARTITIONERS],
        *[({"freeze": True}, partition_fn, True) for partition_fn in (None, "MINCUT")],
    ],
)
def test_training(fields, partition_fn, dynamic, by_dotted_name):
    PARTITIONED.clear()
    chosen = by_dotted_name if partition_fn == "dotted" else partition_fn
    backend = XpuGraph(XpuGraphConfig(partition_fn=chosen, **fields))
    torch.manual_seed(0)
    eager = Net()
    mine = copy.deepcopy(eager)
    compiled = torch.compile(mine, backend=backend, fullgraph=True, dynamic=dynamic)
    assert_same(train(mine, compiled), train(eager, eager), bitwise=False, rtol=1e-4, atol=1e-6)
    assert_same(mine.state_dict(), eager.state_dict(), "state", bitwise=False, rtol=1e-3, atol=1e-5)
    (report,) = backend.reports
    assert [graph.stage for graph in report.graphs] == ["joint", "forward", "backward"]
    if fields.get("freeze"):
        assert all("needs gradients" in str(graph.notes) for graph in report.graphs[1:])
    assert len(PARTITIONED) == (1 if partition_fn in ("dotted", recording_partition) else 0)


def test_training_then_inference_then_training():
    model = Net().train()
    backend = XpuGraph(XpuGraphConfig(freeze=True))
    compiled = torch.compile(model, backend=backend)
    ids, x = torch.tensor([[1, 2], [3, 3]]), torch.randn(2, 6)
    for _ in range(2):
        train(model, compiled, steps=1)
        model.eval()
        with torch.no_grad():
            twin = copy.deepcopy(model)
            assert_same(compiled(ids, x), twin(ids, x), bitwise=False, rtol=1e-5, atol=1e-6)
        model.train()
    stages = [graph.stage for report in backend.reports for graph in report.graphs]
    assert sorted(set(stages)) == ["backward", "forward", "inference", "joint"]


def both(function, make, backend):
    """Call and differentiate eagerly and compiled."""
    sides = []
    for call in (torch.compile(function, backend=backend, fullgraph=True), function):
        inputs = make()
        outputs = call(*inputs)
        loss = sum(o.square().sum() for o in outputs if o.requires_grad)
        loss.backward()
        sides.append((list(outputs), [i.grad for i in inputs], [i.detach() for i in inputs]))
    assert_same(*sides, bitwise=False)


def leaf(*shape):
    return torch.arange(1.0, torch.Size(shape).numel() + 1).reshape(shape).requires_grad_()


def test_gradients_of_views_and_writes():
    def function(x, y):
        z = x * 1
        z[0].mul_(2)
        v = z.t()
        return v, z.sum(), (y.detach() * x).sum(), y * y, x.view(-1)

    both(function, lambda: [leaf(2, 3), leaf(2, 3)], XpuGraph(XpuGraphConfig(freeze=True)))


def test_a_no_grad_region_and_a_written_input():
    def function(x, state):
        with torch.no_grad():
            state.add_(x.sum())
            scale = x.mean() * 1
        return x * scale + state, state * 1

    make = lambda: [leaf(2, 3), torch.zeros(2, 3)]  # noqa: E731
    both(function, make, XpuGraph(XpuGraphConfig()))


def test_an_autograd_function_keeps_its_backward():
    class Odd(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad * 7

    both(lambda x: (Odd.apply(x),), lambda: [leaf(3)], XpuGraph(XpuGraphConfig()))


def test_gradients_twice_through_one_graph():
    x = leaf(3)
    compiled = torch.compile(lambda x: (x * x).sum(), backend=XpuGraph(XpuGraphConfig()))
    loss = compiled(x)
    loss.backward(retain_graph=True)
    loss.backward()
    assert torch.equal(x.grad, 4 * x.detach())


def test_training_graphs_are_optimised():
    backend = XpuGraph(XpuGraphConfig(opt_level="level2", verify="each", enable_cache=False))
    compiled = torch.compile(lambda x: (x.exp() * 1 + x.sin() * x.sin()).sum(), backend=backend)
    mine, eagers = leaf(3), leaf(3)
    compiled(mine).backward()
    (eagers.exp() * 1 + eagers.sin() * eagers.sin()).sum().backward()
    assert_same(mine.grad, eagers.grad)
    joint, *parts = backend.reports[0].graphs
    assert [graph.stage for graph in (joint, *parts)] == ["joint", "forward", "backward"]
    assert joint.after.total() < joint.before.total()
    assert all(graph.after == graph.before for graph in parts)


# --- what dispatch makes of a program ---


def test_stages():
    function = lambda x: x.sin()  # noqa: E731
    (unit,) = capture(function, torch.ones(3))
    assert unit.stage == Stage.inference
    (unit,) = capture(function, leaf(3), grad=True)
    assert unit.stage == Stage.forward
    (unit,) = capture(function, torch.ones(3), grad=True)
    assert unit.stage == Stage.inference


class Frozen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.tied = self.weight
        self.register_buffer("table", torch.ones(3))
        self.register_buffer("count", torch.zeros(3))
        self.plain = torch.ones(3)

    def forward(self, x):
        self.count.add_(1)
        return x * self.weight + self.table + self.count + self.plain + self.tied


def test_what_may_be_frozen():
    (unit,) = capture(Frozen(), torch.ones(3), config=XpuGraphConfig(freeze=True))
    assert len(unit.frozen) == 3  # weight, table, plain; not the input, not the counter
    assert list(unit.not_frozen.values()) == ["the model writes to it"]
    (unit,) = capture(Frozen(), torch.ones(3))
    assert not unit.frozen and not unit.not_frozen


def test_frozen_parameters_may_be_kept_as_inputs():
    config = XpuGraphConfig(freeze=True, folding_freezed_params=False)
    (unit,) = capture(Frozen(), torch.ones(3), config=config)
    assert not unit.frozen and "folding_freezed_params" in str(unit.not_frozen)


def test_a_parameter_given_as_an_argument_may_be_frozen():
    config = XpuGraphConfig(freeze=True)
    (unit,) = capture(lambda x, w: x * w, torch.ones(3), leaf(3), config=config)
    assert not unit.frozen
    parameter = torch.nn.Parameter(torch.ones(3))
    (unit,) = capture(lambda x, w: x * w, torch.ones(3), parameter, config=config)
    assert [tensor is parameter for tensor in unit.frozen.values()] == [True]


def test_effect_tokens_do_not_shift_what_is_written():
    with torch.library._scoped_library("xpu_graph_test_effects", "FRAGMENT") as library:
        library.define("say(Tensor x) -> Tensor")
        library.impl("say", lambda x: x.clone(), "CompositeExplicitAutograd")
        operator = torch.ops.xpu_graph_test_effects.say.default
        effect = torch._library.effects.EffectType.ORDERED
        torch.library._register_effectful_op(operator, effect)

        class Talking(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("count", torch.zeros(3))
                self.weight = torch.nn.Parameter(torch.ones(3))

            def forward(self, x):
                y = operator(x)
                self.count.add_(1)
                return operator(y * self.weight) + self.count

        try:
            (unit,) = capture(Talking(), torch.ones(3), config=XpuGraphConfig(freeze=True))
        finally:
            torch.library._register_effectful_op(operator, None)
    assert [type(tensor) for tensor in unit.frozen.values()] == [torch.nn.Parameter]
    assert list(unit.not_frozen.values()) == ["the model writes to it"]


def test_the_function_for_the_backward_graph_keeps_no_input_alive():
    kept = []

    def keep(unit):
        kept.append(unit.stage)
        from xpu_graph.artifact import SerializableGraphModule
        from xpu_graph.runtime import boxed_entry

        return boxed_entry(SerializableGraphModule(unit.gm))

    def backend(gm, inputs):
        return dispatch(gm, inputs, XpuGraphConfig(freeze=True), keep)

    x = torch.ones(3)
    weight = torch.nn.Parameter(torch.ones(3))
    compiled = torch.compile(lambda x, w: (x + w).sum(), backend=backend)
    loss = compiled(x, weight)
    gone = weakref.ref(x), weakref.ref(weight)
    del x, weight, loss
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
    assert kept == [Stage.forward]


def test_views_of_what_torch_replaced_share_its_memory():
    """A number that may vary becomes tensor arithmetic after tracing; views of it are refreshed."""

    def program(x, factor):
        return (x.sin() * factor).unsqueeze(0).t() + 1

    with torch.no_grad():
        (unit,) = capture(program, torch.ones(3), 2.5, dynamic=True)
    (view,) = unit.gm.graph.find_nodes(op="call_function", target=torch.ops.aten.unsqueeze.default)
    assert storages_of(view) == storages_of(view.args[0])
