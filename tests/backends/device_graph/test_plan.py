"""What is captured, what is not, and in which order the parts run."""

import json
import operator

import pytest
import torch
from torch import fx
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from xpu_graph.backends.device_graph.capturable import device_of, rebinds_memory, refusals
from xpu_graph.backends.device_graph.input_facts import InputFacts
from xpu_graph.backends.device_graph.plan import Handling, Plan, make_plan
from xpu_graph.backends.device_graph.steps import cut

aten = torch.ops.aten


def plan_of(gm, kind="cuda", static=(), captures_random=False):
    device = device_of(gm, kind)
    return make_plan(gm, static, refusals(device, (kind,), captures_random), device)


def plan_on_cuda(function, *shapes, static=(), captures_random=False):
    """The plan of a function of tensors on a device that is not here."""
    with FakeTensorMode(shape_env=ShapeEnv()), torch.no_grad():
        inputs = [torch.empty(shape, device="cuda") for shape in shapes]
        gm = make_fx(function)(*inputs)
    return gm, plan_of(gm, "cuda", static, captures_random)


def shown(gm, plan):
    """The steps, each as its kind and the operators in it."""
    nodes = list(gm.graph.nodes)
    return [
        (
            "captured" if step.captured else "eager",
            [str(nodes[n].target).removeprefix("aten.") for n in step.nodes],
        )
        for step in plan.steps
    ]


def on_the_cpu(x):
    scale = (x + 1).cpu().sum()
    return [(x * scale) + 1]


def draws(x):
    return [torch.rand_like(x) + x]


def reads(x):
    return [x * x.sum().item()]


def a_mask(x):
    return [torch.masked_select(x, x > 0) + 1]


def puts_by_a_mask(x):
    return [x.index_put([x > 0], x.new_zeros(()))]


def puts_by_numbers(x):
    return [x.index_put([torch.zeros(1, dtype=torch.long, device="cuda")], x.new_zeros(()))]


@pytest.mark.parametrize(
    ("function", "steps"),
    [
        pytest.param(lambda x: [x + 1, x * 2], ["captured"], id="one_piece"),
        pytest.param(on_the_cpu, ["captured", "eager", "captured"], id="cpu_between"),
        pytest.param(draws, ["eager", "captured"], id="random"),
        pytest.param(reads, ["captured", "eager", "captured"], id="host_read"),
        pytest.param(a_mask, ["captured", "eager", "captured"], id="mask"),
        pytest.param(puts_by_a_mask, ["captured", "eager"], id="index_put_mask"),
        pytest.param(puts_by_numbers, ["captured"], id="index_put_numbers"),
        pytest.param(lambda x: [x], [], id="returns_an_input"),
        pytest.param(lambda x: [x.t(), x.view(-1)], [], id="views_alone"),
        pytest.param(lambda x: [x.shape[0]], [], id="no_tensor"),
    ],
)
def test_steps(function, steps):
    gm, plan = plan_on_cuda(function, (4, 4))
    assert [kind for kind, _ in shown(gm, plan)] == steps


def test_a_device_that_draws_anew_captures_random_operators():
    gm, plan = plan_on_cuda(draws, (4, 4), captures_random=True)
    assert [kind for kind, _ in shown(gm, plan)] == ["captured"]


def test_what_runs_eagerly_has_a_reason():
    _, plan = plan_on_cuda(on_the_cpu, (4, 4))
    eager = {n for step in plan.steps if not step.captured for n in step.nodes}
    assert set(plan.reasons) == eager
    assert all("cpu" in why for why in plan.reasons.values())


def test_independent_eager_calls_do_not_split_a_piece():
    def function(x):
        left = (x + 1) * 2
        noise = torch.rand_like(x)
        return [left * 3 + noise]

    gm, plan = plan_on_cuda(function, (4, 4))
    assert shown(gm, plan) == [
        ("eager", ["rand_like.default"]),
        ("captured", ["add.Tensor", "mul.Tensor", "mul.Tensor", "add.Tensor"]),
    ]


def test_random_calls_keep_their_order():
    def function(x):
        first = torch.rand_like((x + 1) * 0) + 1
        return [first, torch.randn_like(x) + 1]

    gm, plan = plan_on_cuda(function, (4, 4))
    eager = [ops for kind, ops in shown(gm, plan) if kind == "eager"]
    assert eager == [["rand_like.default", "randn_like.default"]]


def test_a_read_does_not_pass_a_write():
    def function(x):
        before = x + 1
        x.add_(x * before.cpu().sum())
        return [x * 2]

    gm, plan = plan_on_cuda(function, (4, 4))
    kinds = [kind for kind, _ in shown(gm, plan)]
    assert kinds == ["captured", "eager", "captured"]
    assert shown(gm, plan)[0][1] == ["add.Tensor"]
    assert shown(gm, plan)[2][1] == ["add_.Tensor", "mul.Tensor"]
    assert plan.steps[0].handling == [Handling.given]
    assert Handling.written in plan.steps[2].handling


def test_a_write_through_a_view_is_a_write_to_its_base():
    def function(x, y):
        x.view(-1).narrow(0, 0, 2).mul_(2)
        return [x + y]

    _, plan = plan_on_cuda(function, (4, 4), (4, 4))
    (step,) = plan.steps
    assert step.handling == [Handling.written, Handling.given]


def test_what_an_in_place_operator_returns_is_its_argument():
    gm, plan = plan_on_cuda(lambda x: [x.add_(1)], (4,))
    (step,) = plan.steps
    assert (step.handling, step.outputs) == ([Handling.written], [])
    last = cut(gm, plan)[-1]
    assert last.step.inputs == [0]


def test_a_view_beyond_its_base_is_made_from_the_callers_tensor():
    gm, plan = plan_on_cuda(lambda x: [x.as_strided((2, 2), (2, 1), 4) + 1], (2, 4))
    assert shown(gm, plan) == [("eager", ["as_strided.default"]), ("captured", ["add.Tensor"])]


def test_outputs_of_pieces_stay_where_they_are():
    def function(x):
        y = x + 1
        return [(y * y.cpu().sum().item()) - y]

    _, plan = plan_on_cuda(function, (4,))
    assert Handling.made in plan.steps[2].handling
    assert Handling.number in plan.steps[2].handling


def test_static_inputs_are_not_copied():
    _, plan = plan_on_cuda(lambda w, x: [w + x], (4,), (4,), static=[0])
    assert plan.steps[0].handling == [Handling.static, Handling.given]


def test_memory_made_by_an_eager_call_is_written_eagerly():
    def function(x):
        noise = torch.rand_like(x)
        noise.add_(1)
        return [noise, x + 1]

    gm, plan = plan_on_cuda(function, (4,))
    assert shown(gm, plan) == [
        ("eager", ["rand_like.default", "add_.Tensor"]),
        ("captured", ["add.Tensor"]),
    ]


def call_node(target, *args):
    """A graph that calls a target with tensors on the device."""
    graph = fx.Graph()
    with FakeTensorMode():
        fake = torch.empty(3, device="cuda")
    x = graph.placeholder("x")
    x.meta["val"] = fake
    made = graph.call_function(target, (x, *args))
    made.meta["val"] = fake.new_empty(3)
    graph.output([made])
    return fx.GraphModule(torch.nn.Module(), graph)


def opaque(x):
    return x


@pytest.mark.parametrize(
    ("target", "args"),
    [
        pytest.param(opaque, (), id="python_function"),
        pytest.param(torch.ops.higher_order.cond, (), id="higher_order"),
        pytest.param(torch.ops._c10d_functional.all_reduce.default, ("sum", "0"), id="collective"),
    ],
)
def test_not_captured(target, args):
    gm = call_node(target, *args)
    assert [kind for kind, _ in shown(gm, plan_of(gm))] == ["eager"]


def test_custom_operators_are_captured_where_the_device_vouches_for_them():
    with torch.library._scoped_library("xpu_graph_test_graphs", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        gm = call_node(torch.ops.xpu_graph_test_graphs.twice.default)
        device = device_of(gm, "cuda")
        for namespaces, kind in [((), "eager"), (("xpu_graph_test_graphs",), "captured")]:
            plan = make_plan(gm, (), refusals(device, namespaces, False), device)
            assert [k for k, _ in shown(gm, plan)] == [kind]


def test_a_marked_operator_is_not_captured():
    with torch.library._scoped_library("xpu_graph_test_graphs", "FRAGMENT") as library:
        library.define("odd(Tensor x) -> Tensor", tags=[torch.Tag.cudagraph_unsafe])
        gm = call_node(torch.ops.xpu_graph_test_graphs.odd.default)
        device = device_of(gm, "cuda")
        plan = make_plan(gm, (), refusals(device, ("xpu_graph_test_graphs",), False), device)
        assert [k for k, _ in shown(gm, plan)] == ["eager"]


def test_items_stay_with_the_call_that_made_them():
    gm, plan = plan_on_cuda(lambda x: [*torch.topk(x, 2), *torch.split(x + 1, 2)], (4,))
    (step,) = plan.steps
    nodes = list(gm.graph.nodes)
    assert [nodes[n].target for n in step.nodes] == [
        aten.topk.default,
        operator.getitem,
        operator.getitem,
        aten.add.Tensor,
    ]


def test_a_graph_that_moves_its_memory_is_found():
    gm, _ = plan_on_cuda(lambda x: [x.t_() + 1], (4, 4))
    assert rebinds_memory(gm) == "aten.t_.default"


def test_a_plan_goes_through_json():
    for function in (on_the_cpu, draws, reads, lambda x: [x.t() + 1]):
        _, plan = plan_on_cuda(function, (4, 4))
        assert Plan.from_data(json.loads(json.dumps(plan.as_data()))) == plan


@pytest.mark.parametrize(
    ("tensor", "word"),
    [
        pytest.param(torch.empty(4, 8), None, id="same"),
        pytest.param(torch.empty(1, 8), "shape", id="broadcastable"),
        pytest.param(torch.empty(8, 4).t(), "stride", id="transposed"),
        pytest.param(torch.empty(4, 8, dtype=torch.float64), "dtype", id="dtype"),
        pytest.param(torch.empty(4, 8, device="meta"), "device", id="device"),
        pytest.param(torch.empty(32), "shape", id="flat"),
    ],
)
def test_what_a_graph_was_traced_for(tensor, word):
    facts = InputFacts("torch.float32", "cpu", [4, 8], [8, 1])
    found = facts.difference(tensor)
    assert found is None if word is None else word in found


def test_symbolic_sizes_and_strides_that_do_not_matter_are_not_compared():
    facts = InputFacts("torch.float32", "cpu", [None, 1, 3], [None, 7, 1])
    assert facts.difference(torch.empty(5, 1, 3)) is None
    assert facts.difference(torch.empty(2, 1, 3)) is None
