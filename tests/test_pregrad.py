"""The graph before differentiation does what Dynamo's does, or is not used."""

import pytest
import torch
from torch import nn
from torch._guards import TracingContext
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint

from xpu_graph import XpuGraphConfig
from xpu_graph.artifact import SerializableGraphModule
from xpu_graph.dispatch import dispatch
from xpu_graph.passes import Pipeline
from xpu_graph.pregrad import finished, lower
from xpu_graph.runtime import boxed_entry
from xpu_graph.testing import alias_classes, assert_same
from xpu_graph.torch_compat import NotLowered


class Backend:
    """Compiles what is made of every Dynamo graph, whether a pass changed it or not."""

    def __init__(self, lowers=True):
        self.lowers = lowers
        self.graphs, self.reasons, self.notes = [], [], []

    def __call__(self, gm, inputs):
        return dispatch(
            gm,
            inputs,
            XpuGraphConfig(),
            lambda unit: boxed_entry(SerializableGraphModule(unit.gm)),
            before_autograd=self.lower if self.lowers else None,
        )

    def lower(self, gm, inputs, name):
        text, env = str(gm.graph), TracingContext.get().fake_mode.shape_env
        guards = len(env.guards) if env is not None else 0
        try:
            lowered = lower(gm, inputs, name)
            assert env is None or len(env.guards) == guards
        except NotLowered as reason:
            self.reasons.append(str(reason))
            return gm
        if lowered is None:
            self.reasons.append("nothing needs a gradient")
            return gm
        self.notes += lowered.notes
        for unit in lowered.units:
            Pipeline([], XpuGraphConfig(verify="each")).run(unit)  # every value is true
        assert str(gm.graph) == text
        graph = finished(gm, lowered)
        self.graphs += [unit.gm for unit in lowered.units]
        return graph


def targets(graph):
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


def run(call, make, seed=0):
    """What a call gives: results, gradients, what became of the inputs, what shares memory."""
    inputs = make()
    torch.manual_seed(seed)
    used = [x.clone() if x.requires_grad else x for x in inputs]  # leaves must not be written to
    returned = call(*used)
    results = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    differentiable = [r for r in results if r.requires_grad]
    leaves = [x for x in inputs if x.requires_grad]
    grads = []
    if differentiable:
        total = sum(r.float().square().sum() for r in differentiable)
        grads = torch.autograd.grad(total, leaves, allow_unused=True)
    return results, list(grads), used, alias_classes([*used, *results])


def check(program, make, *, dynamic=False, calls=2, **compile_options):
    """Compare with eager; returns the backend."""
    torch.compiler.reset()
    backend = Backend()
    compiled = torch.compile(program, backend=backend, dynamic=dynamic, **compile_options)
    for seed in range(calls):
        got, want = run(compiled, make, seed), run(program, make, seed)
        for mine, eagers, what in zip(
            got[:3], want[:3], ("result", "gradient", "input"), strict=True
        ):
            assert_same(mine, eagers, what, bitwise=False, rtol=1e-5, atol=1e-6)
        assert got[3] == want[3]
    return backend


def make():
    torch.manual_seed(7)
    return [
        torch.randn(4, 8, requires_grad=True),
        torch.randn(4, 8, requires_grad=True),
        torch.randn(8, 8, requires_grad=True),
        torch.randn(8),
    ]


class Cube(torch.autograd.Function):
    """With a formula that is not the derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 5 * x


def in_place(a, b, w, c):
    s = a.sin()
    s.mul_(b)
    return s.cos()


def writes_to_an_input(a, b, w, c):
    before = c.sin()
    c.add_(a.sum(0).detach())
    return (before * a).cos(), c * a


def writes_through_a_view(a, b, w, c):
    s = a.sin()
    s.view(-1)[3:9].mul_(2)
    return s * b


def no_gradients(a, b, w, c):
    with torch.no_grad():
        scale = (a * b).sigmoid()
    return a * scale, scale


def detached(a, b, w, c):
    s = a.sin()
    return s.detach() * b, s.detach(), s


def custom_function(a, b, w, c):
    return Cube.apply(a * b).sin()


def autocast(a, b, w, c):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        x = functional.linear(a, w)
        with torch.autocast("cpu", enabled=False):
            y = functional.linear(a, w)
        z = x @ w
    return x.float() * y, z


def checkpointed(a, b, w, c):
    def region(x, y):
        return (x.sin() @ w) * y

    return checkpoint(region, a, b, use_reentrant=False) + a


def nested_checkpoints(a, b, w, c):
    def inner(x):
        return x.sin().cos() + torch.tensor([2.0] * 8)

    def outer(x, y):
        return checkpoint(inner, x @ w, use_reentrant=False) * y

    return checkpoint(outer, a, b, use_reentrant=False)


def condition(a, b, w, c):
    return torch.cond(c.sum() > 0, lambda x, y: x.sin() * y, lambda x, y: x - y, (a, b))


def split(a, b, w, c):
    first, second = torch.split(a, [2, 2])
    return first * second, torch.chunk(b, 2, -1)[0].sin()


def aliasing_results(a, b, w, c):
    s = a.sin()
    return s, s.view(-1), s, a.t()


def sets_items(a, b, w, c):
    s = a.clone()
    s[1] = c
    s[:, 2] = 0.5
    s[torch.tensor([0, 3]), 1] += 2
    return s * b


def constants(a, b, w, c):
    t = torch.tensor([1.0, 2.0])
    t.add_(1)
    return a * t[0] + torch.arange(8), t


def dropout(a, b, w, c):
    return functional.dropout(a, 0.4) * functional.dropout(b, 0.4, training=False)


def attention(a, b, w, c):
    q, k, v = a.view(1, 2, 2, 8), b.view(1, 2, 2, 8), (a @ w).view(1, 2, 2, 8)
    return functional.scaled_dot_product_attention(q, k, v)


def spectrum(a, b, w, c):
    return torch.fft.rfft(a).abs() * b[:, :5]


def composite(a, b, w, c):
    x = functional.layer_norm(functional.linear(a, w), (8,), c)
    return functional.cross_entropy(x.softmax(-1), torch.tensor([0, 1, 2, 3])), x.to(x.dtype)


def sizes(a, b, w, c):
    return a.reshape(a.shape[0] * 2, -1).sum(0) / a.shape[0], a[: a.shape[0] - 1] * 2


def detaches_in_place(a, b, w, c):
    s = a.sin()
    s.detach_()
    return s * b


def writes_to_an_out_argument(a, b, w, c):
    made = torch.empty_like(c)
    with torch.no_grad():
        torch.add(c, c, out=made)
    return a * made


def turns_gradients_off(a, b, w, c):
    s = a.sin()
    torch.set_grad_enabled(False)
    t = s * b
    torch.set_grad_enabled(True)
    return t * w[:4], s


PROGRAMS = [
    in_place,
    writes_to_an_input,
    writes_through_a_view,
    no_gradients,
    detached,
    custom_function,
    autocast,
    checkpointed,
    nested_checkpoints,
    condition,
    split,
    aliasing_results,
    sets_items,
    constants,
    dropout,
    attention,
    spectrum,
    composite,
    sizes,
    detaches_in_place,
    writes_to_an_out_argument,
    turns_gradients_off,
]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_same_as_eager(program, dynamic):
    backend = check(program, make, dynamic=dynamic, fullgraph=True)
    assert not backend.reasons
    assert not backend.notes
    assert backend.graphs


def test_composite_operators_are_whole():
    (graph,) = check(composite, make).graphs
    assert {"aten.linear.default", "aten.layer_norm.default", "aten.softmax.int"} <= {
        *targets(graph)
    }


def test_regions_are_looked_into():
    graphs = check(nested_checkpoints, make).graphs
    assert ["aten.sin.default" in targets(graph) for graph in graphs] == [False, False, True]
    assert "tag_activation_checkpoint" in targets(graphs[1])


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_model_with_buffers(dynamic):
    def sides(compile_):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout(0.3)
        )
        call = compile_(model)
        results = []
        for size in (6, 8):
            x = torch.randn(size, 3, 5, 5)
            torch.manual_seed(1)
            result = call(x)
            result.square().sum().backward()
            results.append(result.detach())
        return results, [p.grad for p in model.parameters()], list(model.buffers())

    torch.compiler.reset()
    backend = Backend()
    got = sides(lambda model: torch.compile(model, backend=backend, dynamic=dynamic))
    assert_same(got, sides(lambda model: model), bitwise=False, rtol=1e-4, atol=1e-5)
    assert not backend.reasons
    assert "aten.batch_norm.default" in targets(backend.graphs[0])


@pytest.mark.parametrize("enabled", [False, True])
def test_autocast_around_the_program(enabled):
    def results(lowers):
        torch.compiler.reset()
        backend = Backend(lowers)
        call = torch.compile(autocast, backend=backend, fullgraph=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            found = run(call, make)
        assert bool(backend.graphs) == lowers
        return found

    assert_same(results(True), results(False))


def known_at_run_time(a, b, w, c):
    return a * (c > 0).nonzero().sum()


def differentiates(a, b, w, c):
    return torch.func.grad(lambda x: (x * b).sin().sum())(a) * w.sum()


def maps(a, b, w, c):
    return torch.vmap(lambda x, y: x.sin() * y)(a, b)


def chooses_kernels(a, b, w, c):
    with sdpa_kernel(SDPBackend.MATH):
        return attention(a, b, w, c)


REFUSED = {
    known_at_run_time: "a size is known at run time only",
    differentiates: "would leave no trace",
    maps: "functorch",
    chooses_kernels: "would leave no trace",
}


@pytest.mark.parametrize(
    ("program", "reason"), REFUSED.items(), ids=[program.__name__ for program in REFUSED]
)
def test_not_used_where_something_could_get_lost(program, reason):
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        backend = check(program, make, fullgraph=True)
    assert not backend.graphs
    assert reason in backend.reasons[0]


def test_tensors_of_other_kinds():
    def twice(x, y):
        return x.sin() * y

    torch.compiler.reset()
    backend = Backend()
    x = TwoTensor(torch.randn(3), torch.randn(3)).requires_grad_()
    y = torch.randn(3)
    torch.compile(twice, backend=backend)(x, y).sum().backward()
    assert_same(x.grad.a, (x.detach().a.cos() * y), bitwise=False, rtol=1e-5, atol=1e-6)
    assert backend.reasons == ["it computes with a TwoTensor"]


def test_inference_is_left_alone():
    torch.compiler.reset()
    backend = Backend()
    compiled = torch.compile(composite, backend=backend)
    with torch.no_grad():
        compiled(*make())
    compiled(*(x.detach() for x in make()))
    assert not backend.graphs
    assert not backend.reasons
    torch.compile(lambda x: x.detach() * 2, backend=backend)(make()[0])
    assert backend.reasons == ["nothing needs a gradient"]


def test_gradients_that_the_program_switches_on():
    def program(x, y):
        with torch.enable_grad():
            return (x.sin() * y).sum()

    torch.compiler.reset()
    backend = Backend()
    x, y = (t.detach().requires_grad_() for t in make()[:2])
    with torch.no_grad():
        torch.compile(program, backend=backend)(x, y).backward()
    assert_same(x.grad, (x.cos() * y).detach(), bitwise=False, rtol=1e-5, atol=1e-6)
    assert backend.graphs


def test_a_failure_leaves_nothing_switched_on():
    def fails(x):
        raise ValueError("no fakes")

    with torch.library._scoped_library("pregrad_test", "FRAGMENT") as library:
        library.define("fragile(Tensor x) -> Tensor")
        library.impl("fragile", lambda x: x.clone(), "CPU")
        fails_now = [False]

        def fake(x):
            return fails(x) if fails_now[0] else torch.empty_like(x)

        library.impl("fragile", fake, "Meta")

        class Fragile(Backend):
            def lower(self, gm, inputs, name):
                fails_now[0] = True
                try:
                    return super().lower(gm, inputs, name)
                finally:
                    fails_now[0] = False

        def program(x):
            with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
                scale = torch.ops.pregrad_test.fragile(x.detach())
            return x * scale

        torch.compiler.reset()
        backend = Fragile()
        x = make()[0]
        torch.compile(program, backend=backend)(x).sum().backward()
    assert "ValueError: no fakes" in backend.reasons[0]
    assert not torch.is_autocast_enabled("cpu")
    assert torch.is_grad_enabled()
