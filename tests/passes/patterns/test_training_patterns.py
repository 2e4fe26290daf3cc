"""Patterns for training: found before differentiation, so that replacements are differentiated."""

import json
import os
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from xpu_graph import (
    ConfigError,
    XpuGraph,
    XpuGraphConfig,
    XpuGraphMemoryCache,
    deregister_plugin_patterns,
    enable_plugin_patterns,
    register_plugin_pattern,
    register_this_as_pattern_constraint,
    register_this_as_plugin_pattern,
)
from xpu_graph.testing import assert_same

X, Y, W = torch.randn(4, 8), torch.randn(4, 8), torch.randn(8)


@pytest.fixture(autouse=True)
def scope():
    with enable_plugin_patterns():
        yield


@pytest.fixture(scope="module")
def operators():
    """A custom operator with a formula of its own, five times what is right, and one without."""
    with torch.library._scoped_library("training_test", "FRAGMENT") as library:
        for name in ("swiglu", "no_formula", "five"):
            library.define(f"{name}(Tensor gate, Tensor up) -> Tensor")
            library.impl(name, lambda gate, up: functional.silu(gate) * up, "CPU")
            library.impl(name, lambda gate, up: torch.empty_like(gate), "Meta")

        def setup(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        def formula(factor):
            def backward(ctx, grad):
                gate, up = ctx.saved_tensors
                s = torch.sigmoid(gate)
                slope = s * (1 + gate * (1 - s))
                return factor * grad * up * slope, factor * grad * gate * s

            return backward

        for name, factor in (("swiglu", 1), ("five", 5)):
            torch.library.register_autograd(
                f"training_test::{name}", formula(factor), setup_context=setup, lib=library
            )
        yield torch.ops.training_test


def swiglu(gate, up):
    return functional.silu(gate) * up


def name_of(function, postfix=""):
    return f"{function.__module__}-{function.__qualname__}{postfix}"


def leaves(*tensors):
    return [t.clone().requires_grad_(t.is_floating_point()) for t in tensors]


def differentiated(call, inputs):
    results = call(*inputs)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    ends = [r for r in results if r.requires_grad]
    wanted = [x for x in inputs if x.requires_grad]
    grads = torch.autograd.grad(
        sum((r.float() ** 2).sum() for r in ends), wanted, allow_unused=True
    )
    return results, list(grads)


def backend_for(cache=None, **fields):
    fields = {"enable_cache": cache is not None, "verify": "each", **fields}
    return XpuGraph(XpuGraphConfig(**fields), cache=cache)


def trained(function, *inputs, backend=None, dynamic=False, factor=1, fullgraph=True, **fields):
    """The reports of the compiled call, whose results and gradients must be eager's."""
    torch.compiler.reset()
    backend = backend or backend_for(**fields)
    call = torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=fullgraph)
    got, got_grads = differentiated(call, leaves(*inputs))
    want, want_grads = differentiated(function, leaves(*inputs))
    assert_same(got, want, bitwise=False, rtol=1e-5, atol=1e-5)
    want_grads = [g if g is None else factor * g for g in want_grads]
    assert_same(got_grads, want_grads, "gradient", bitwise=False, rtol=1e-5, atol=1e-5)
    return backend.reports[-1].graphs


def pregrad(graphs):
    return [graph for graph in graphs if graph.stage == "pregrad"]


def applied(graphs, function, postfix=""):
    return sum(g.passes[name_of(function, postfix)].applied for g in pregrad(graphs))


def reasons(graphs, function):
    return " | ".join(r for g in pregrad(graphs) for r in g.passes[name_of(function)].refused)


# --- found and replaced ---


def layer_norm(x, w, b, eps):
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    variance = centred.pow(2).mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + eps) * w + b


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_composite_operator_in_place_of_a_formula(dynamic):
    def whole(x, w, b, eps):
        return functional.layer_norm(x, (x.shape[-1],), w, b, eps)

    register_plugin_pattern(
        layer_norm, (X, W, W, 1e-5), whole, "none", is_training=True, verify=True
    )

    def program(x, w, b):
        return layer_norm(x * 2, w, b, 1e-3).sin() + layer_norm(x, b, w, 1e-6)

    graphs = trained(program, X, W, W + 1, dynamic=dynamic)
    assert applied(graphs, layer_norm) == 2
    (report,) = pregrad(graphs)
    assert report.after["aten.layer_norm.default"] == 2
    forward, backward = (next(g for g in graphs if g.stage == s) for s in ("forward", "backward"))
    assert forward.before["aten.native_layer_norm.default"] == 2
    assert backward.before["aten.native_layer_norm_backward.default"] == 2


def _under_autocast(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return functional.silu(x) * y


def _beside_no_grad(x, y):
    with torch.no_grad():
        scale = x.sum()
    return functional.silu(x * scale) * y


PROGRAMS = {
    "plain": lambda x, y: functional.silu(x) * y,
    "other order": lambda x, y: y * functional.silu(x),
    "inside": lambda x, y: (y.sin() * functional.silu(x * 1)).sum(0) + 1,
    "of views": lambda x, y: (functional.silu(x.view(2, 16)) * y.view(2, 16))[1:].t(),
    "of doubles": lambda x, y: functional.silu(x.double()) * y.double(),
    "under autocast": _under_autocast,
    "beside a region without gradients": _beside_no_grad,
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_custom_operator_with_a_formula(operators, program, dynamic):
    register_plugin_pattern(swiglu, (X, Y), operators.swiglu, "none", is_training=True, verify=True)
    graphs = trained(program, X, Y, dynamic=dynamic)
    assert applied(graphs, swiglu) == 1
    forward = next(g for g in graphs if g.stage == "forward")
    assert forward.before["training_test.swiglu.default"] == 1


def test_gradients_are_those_of_the_formula(operators):
    register_plugin_pattern(swiglu, (X, Y), operators.five, "none", is_training=True)
    assert applied(trained(swiglu, X, Y, factor=5), swiglu) == 1


# --- left alone, with a reason ---


def wave(x, y):
    return torch.sin(x) * torch.cos(y)


def instead_of_wave(x, y):
    return (torch.sin(x + y) + torch.sin(x - y)) / 2


def mix(x, y):
    return x * 2 + y * 3


def instead_of_mix(x, y):
    return torch.add(x + x, y, alpha=3)


def written_between(a, y):
    x = a * 1
    x.mul_(2)
    s = x * 2
    x.view(-1).add_(1)
    return s + x * 3


def written_through_another_view(a, y):
    x = a * 1
    view = x.view(-1)
    s = x * 2
    view[2:4].mul_(3)
    return s + x * 3


def written_inside(x, y):
    s = x * 2
    s.add_(1)
    return s + y * 3


def written_inside_through_a_view(x, y):
    s = x * 2
    s[0].add_(1)
    return s + y * 3


def written_afterwards(x, y):
    z = x * 1
    out = z * 2 + y * 3
    z.add_(1)
    return out, z


def result_is_written_to(x, y):
    out = x * 2 + y * 3
    out.add_(1)
    return out


def statistics_are_written_to(x, y):
    """The schema of ``aten.batch_norm`` does not say that it writes to what it keeps."""
    mean, variance = torch.zeros(8), torch.ones(8)
    s = mean * 2
    normed = functional.batch_norm(x, mean, variance, training=True)
    return normed * (s + mean * 3)


def gradients_go_off(x, y):
    s = torch.sin(x)
    with torch.no_grad():
        out = s * torch.cos(y)
    return out + x * y


def gradients_are_off(x, y):
    with torch.no_grad():
        out = torch.sin(x) * torch.cos(y)
    return out * x * y


def autocast_begins(x, y):
    s = torch.sin(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return s * torch.cos(y)


def autocast_ends(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        s = torch.sin(x)
    return s * torch.cos(y)


def read_elsewhere(x, y):
    s = torch.sin(x)
    return s * torch.cos(y), s.exp()


def returned(x, y):
    c = torch.cos(y)
    return torch.sin(x) * c, c


def in_a_checkpointed_region_too(x, y):
    s = torch.sin(x)
    return s * torch.cos(y), checkpoint(torch.exp, s, use_reentrant=False)


def detached_between(x, y):
    return torch.sin(x).detach() * torch.cos(y)


LEFT = {
    gradients_go_off: "both sides of an operator with an effect",
    gradients_are_off: "gradients are off there",
    autocast_begins: "both sides of an operator with an effect",
    autocast_ends: "both sides of an operator with an effect",
    read_elsewhere: "something else reads a value inside",
    returned: "something else reads a value inside",
    in_a_checkpointed_region_too: "something else reads a value inside",
    detached_between: "",
    written_between: "a read would move across a write",
    written_through_another_view: "a read would move across a write",
    written_inside: "",
    written_inside_through_a_view: "something else reads a value inside",
    written_afterwards: "a read would move across a write",
    result_is_written_to: "something writes to a value inside",
    statistics_are_written_to: "a read would move across a write",
}


@pytest.mark.parametrize(
    ("program", "reason"), LEFT.items(), ids=[program.__name__ for program in LEFT]
)
def test_left_alone(program, reason):
    pattern, replacement = (wave, instead_of_wave)
    if "written" in program.__name__:
        pattern, replacement = (mix, instead_of_mix)
    register_plugin_pattern(pattern, (X, Y), replacement, "none", is_training=True, verify=True)
    graphs = trained(program, X, Y)
    assert pregrad(graphs)
    assert not applied(graphs, pattern)
    assert reason in reasons(graphs, pattern)


def test_an_inference_graph_is_left_alone(operators):
    register_plugin_pattern(swiglu, (X, Y), operators.swiglu, "none", is_training=True)
    torch.compiler.reset()
    backend = backend_for()
    with torch.no_grad():
        torch.compile(swiglu, backend=backend)(*leaves(X, Y))
    torch.compile(swiglu, backend=backend)(X, Y)
    torch.compile(lambda x, y: swiglu(x, y).detach(), backend=backend)(*leaves(X, Y))
    assert len(backend.reports) == 3
    for report in backend.reports:
        assert [graph.stage for graph in report.graphs] == ["inference"]
        assert name_of(swiglu) not in report.graphs[0].passes


def test_no_pattern_no_stage():
    register_plugin_pattern(swiglu, (X, Y), lambda gate, up: gate * gate.sigmoid() * up, "none")
    graphs = trained(swiglu, X, Y)
    assert [graph.stage for graph in graphs] == ["joint", "forward", "backward"]


def test_a_program_without_a_hit_is_as_before():
    def keys():
        backend = backend_for(XpuGraphMemoryCache())
        graphs = trained(lambda x, y: (x.tan() * y).view(-1)[1:], X, Y, backend=backend)
        return [graph.key for graph in graphs if graph.key]

    before = keys()
    register_plugin_pattern(wave, (X, Y), instead_of_wave, "none", is_training=True)
    assert len(before) == 2
    assert keys() == before


# --- the rest of a training program ---


class Model(nn.Module):
    def __init__(self, checkpointed=False):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 8)
        self.norm = nn.BatchNorm1d(8)
        self.checkpointed = checkpointed

    def block(self, x):
        return self.down(swiglu(self.gate(x), self.up(x)))

    def forward(self, x):
        x = self.norm(x)
        if self.checkpointed:
            x = x + checkpoint(self.block, x, use_reentrant=False)
        else:
            x = x + self.block(x)
        return functional.dropout(x, 0.2, self.training)


def learned(model, call, steps):
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(5)
    data = torch.randn(steps, 6, 8)
    losses = []
    for x in data:
        optimiser.zero_grad()
        loss = call(x).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return losses, [p.detach() for p in (*model.parameters(), *model.buffers())]


@pytest.mark.parametrize("partition_fn", ["DEFAULT", "MINCUT"])
@pytest.mark.parametrize("checkpointed", [False, True], ids=["plain", "checkpointed"])
def test_ten_steps(operators, partition_fn, checkpointed):
    register_plugin_pattern(swiglu, (X, Y), operators.swiglu, "none", is_training=True)
    torch.compiler.reset()
    backend = backend_for(partition_fn=partition_fn)
    sides = []
    for compile_ in (lambda model: torch.compile(model, backend=backend), lambda model: model):
        torch.manual_seed(3)
        model = Model(checkpointed)
        sides.append(learned(model, compile_(model), 10))
    assert_same(*sides, bitwise=False, rtol=1e-4, atol=1e-5)
    assert applied(backend.reports[0].graphs, swiglu) == 1


def test_around_a_checkpointed_region():
    """It is known not to write to what it is given."""
    register_plugin_pattern(wave, (X, Y), instead_of_wave, "none", is_training=True)

    def program(x, y):
        z = checkpoint(lambda a, b: (a.sin() @ b.t()).cos(), x, y, use_reentrant=False)
        return z @ (torch.sin(x) * torch.cos(y))

    assert applied(trained(program, X, Y), wave) == 1


def test_fuel_stops_it(operators):
    register_plugin_pattern(swiglu, (X, Y), operators.swiglu, "none", is_training=True)
    graphs = trained(swiglu, X, Y, fuel=0)
    assert "out of fuel" in reasons(graphs, swiglu)


def test_the_interceptor_says_what_it_leaves_out(operators):
    register_plugin_pattern(swiglu, (X, Y), operators.swiglu, "none", is_training=True)
    (report,) = pregrad(trained(swiglu, X, Y, enable_interceptor="rtol=1e-5,atol=1e-6"))
    assert "interceptor" in report.notes[0]


def test_the_key_says_what_was_replaced(operators):
    cache = XpuGraphMemoryCache()

    def keys(outcome):
        graphs = trained(swiglu, X, Y, backend=backend_for(cache))
        kept = [graph for graph in graphs if graph.key]
        assert [graph.cache for graph in kept] == [outcome, outcome]
        return [graph.key for graph in kept]

    plain = keys("miss")
    with enable_plugin_patterns():
        register_plugin_pattern(swiglu, (X, Y), operators.swiglu, "none", is_training=True)
        replaced = keys("miss")
        assert keys("hit") == replaced
    assert set(plain).isdisjoint(replaced)
    assert keys("hit") == plain


PROCESS = """
import json, sys
import torch
from torch.nn import functional
from xpu_graph import XpuGraph, XpuGraphConfig, XpuGraphLocalCache, register_plugin_pattern

def layer_norm(x, w, eps):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt(centred.pow(2).mean(-1, keepdim=True) + eps) * w

def whole(x, w, eps):
    return functional.layer_norm(x, (x.shape[-1],), w, None, eps)

x, w = torch.arange(32.0).view(4, 8).cos(), torch.ones(8, requires_grad=True)
register_plugin_pattern(layer_norm, (x, w, 1e-5), whole, "none", is_training=True, verify=True)
backend = XpuGraph(XpuGraphConfig(), XpuGraphLocalCache(sys.argv[1]))
torch.compile(layer_norm, backend=backend)(x, w, 1e-4).square().sum().backward()
graphs = backend.reports[-1].graphs
found = graphs[0].passes["__main__-layer_norm"].applied
kept = [(graph.cache, graph.key) for graph in graphs if graph.key]
print(json.dumps([found, kept, w.grad.tolist()]))
"""


def test_a_second_process_starts_warm(tmp_path):
    first, second = (
        json.loads(
            subprocess.run(
                [sys.executable, "-c", PROCESS, str(tmp_path / "cache")],
                env={**os.environ, "PYTHONHASHSEED": seed},
                check=True,
                capture_output=True,
                text=True,
            ).stdout.splitlines()[-1]
        )
        for seed in ("1", "2")
    )
    assert first[0] == second[0] == 1
    assert [cache for cache, _ in first[1]] == ["miss", "miss"]
    assert [cache for cache, _ in second[1]] == ["hit", "hit"]
    assert [key for _, key in first[1]] == [key for _, key in second[1]]
    assert first[2] == second[2]


@pytest.fixture
def process_group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Wide(Model):
    """With layers that fill a bucket each."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(8, 600), nn.Linear(600, 600), nn.Linear(600, 8))

    def forward(self, x):
        return super().forward(self.enter(x))


def test_a_graph_that_was_split_for_ddp_is_left_alone(operators, process_group):
    register_plugin_pattern(swiglu, (X, Y), operators.swiglu, "none", is_training=True)
    torch.compiler.reset()
    backend = backend_for()
    sides = []
    for compile_ in (lambda model: torch.compile(model, backend=backend), lambda model: model):
        torch.manual_seed(3)
        wrapped = nn.parallel.DistributedDataParallel(Wide(), bucket_cap_mb=1)
        sides.append(learned(wrapped, compile_(wrapped), 2))
    assert_same(*sides, bitwise=False, rtol=1e-4, atol=1e-4)
    reports = [g for report in backend.reports for g in pregrad(report.graphs)]
    assert len(reports) > 1
    assert all("split the graph for DDP" in report.notes[0] for report in reports)


def test_with_compiled_autograd(operators):
    register_plugin_pattern(swiglu, (X, Y), operators.swiglu, "none", is_training=True)
    torch.compiler.reset()
    backend = backend_for()

    def step(x, y):
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend=backend)):
            torch.compile(swiglu, backend=backend)(x, y).square().sum().backward()
        return x.grad, y.grad

    got = step(*leaves(X, Y))
    _, want = differentiated(swiglu, leaves(X, Y))
    assert_same(list(got), want, bitwise=False, rtol=1e-5, atol=1e-5)
    assert applied([g for report in backend.reports for g in report.graphs], swiglu) == 1


def test_only_for_its_target_and_skipped_by_name(operators):
    register_plugin_pattern(swiglu, (X, Y), operators.swiglu, "cpu", is_training=True)
    assert not pregrad(trained(swiglu, X, Y))
    deregister_plugin_patterns(swiglu)
    register_plugin_pattern(swiglu, (X, Y), operators.swiglu, "none", is_training=True)
    assert not pregrad(trained(swiglu, X, Y, skip_patterns=(name_of(swiglu),)))


def test_one_for_training_and_one_for_inference(operators):
    register_plugin_pattern(swiglu, (X, Y), operators.swiglu, "none", is_training=True)
    register_plugin_pattern(swiglu, (X, Y), operators.no_formula, "none", postfix="inference")
    torch.compiler.reset()
    backend = backend_for()
    call = torch.compile(swiglu, backend=backend)
    with torch.no_grad():
        call(X, Y)
    call(*leaves(X, Y)).sum().backward()
    inference, training = backend.reports
    assert inference.graphs[0].passes[name_of(swiglu, "-inference")].applied == 1
    assert applied(training.graphs, swiglu) == 1


def test_a_constraint_decides(operators):
    @register_this_as_plugin_pattern((X, Y), operators.swiglu, "none", is_training=True)
    def gated(gate, up):
        return functional.silu(gate) * up

    @register_this_as_pattern_constraint
    def is_wide(gate, up):
        return gate.shape[-1] > 8

    graphs = trained(lambda x, y: gated(x, y) + gated(x.repeat(1, 2), y.repeat(1, 2))[:, :8], X, Y)
    assert applied(graphs, gated) == 1
    assert "is_wide says no" in reasons(graphs, gated)


# --- errors at registration ---


class Tripled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return functional.silu(gate) * up

    @staticmethod
    def backward(ctx, grad):
        gate, up = ctx.saved_tensors
        return 3 * grad * up, 3 * grad * gate


def half_detached(gate, up):
    return functional.silu(gate) * up.detach()


def without_gradients(gate, up):
    with torch.no_grad():
        scaled = functional.silu(gate)
    return scaled * up


ERRORS = {
    "an operator without a formula": (
        lambda ops: ops.no_formula,
        "needs register_autograd",
    ),
    "another gradient": (lambda ops: ops.five, "the gradient of input 0 differs"),
    "no gradient of one input": (
        lambda ops: half_detached,
        "input 1 has none in the replacement",
    ),
    "an autograd.Function": (lambda ops: Tripled.apply, "takes|autograd.Function"),
    "an autograd.Function inside": (
        lambda ops: lambda gate, up: Tripled.apply(gate, up) * 1,
        "Tripled.*formula would be lost",
    ),
    "no_grad inside": (lambda ops: without_gradients, "_set_grad_enabled"),
    "other numbers": (lambda ops: lambda gate, up: torch.tanh(gate) * up, "result 0 of the repl"),
    "another shape": (lambda ops: lambda gate, up: up.sum() * gate.sum(), "has shape"),
    "itself": (lambda ops: lambda gate, up: functional.silu(gate) * up + 0, "contains the pattern"),
}


@pytest.mark.filterwarnings("ignore:.*autograd kernel was not registered")
@pytest.mark.parametrize(("make", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(operators, make, message):
    with pytest.raises(ConfigError, match=message):
        register_plugin_pattern(
            swiglu, (X, Y), make(operators), "none", is_training=True, verify=True
        )


@pytest.mark.filterwarnings("ignore:.*autograd kernel was not registered")
def test_without_a_formula_nothing_is_computed_to_say_so(operators):
    with pytest.raises(ConfigError, match="needs register_autograd"):
        register_plugin_pattern(swiglu, (X, Y), operators.no_formula, "none", is_training=True)


def test_a_pattern_that_has_no_gradient():
    with pytest.raises(ConfigError, match="floating-point"):
        register_plugin_pattern(
            lambda x: (x + 1) * 2,
            (torch.arange(3),),
            lambda x: x * 2 + 2,
            "none",
            is_training=True,
        )
    with pytest.raises(ConfigError, match="have no gradients"):
        register_plugin_pattern(
            lambda x, y: (x > y).logical_not(),
            (X, Y),
            lambda x, y: (x <= y) | x.isnan() | y.isnan(),
            "none",
            is_training=True,
        )
