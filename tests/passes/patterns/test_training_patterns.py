"""Patterns for training: found before differentiation, so that the replacement is differentiated."""

import pytest
import torch
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


PROGRAMS = {
    "plain": lambda x, y: functional.silu(x) * y,
    "other order": lambda x, y: y * functional.silu(x),
    "inside": lambda x, y: (y.sin() * functional.silu(x * 1)).sum(0) + 1,
    "of views": lambda x, y: (functional.silu(x.view(2, 16)) * y.view(2, 16))[1:].t(),
    "of doubles": lambda x, y: functional.silu(x.double()) * y.double(),
    "under autocast": lambda x, y: _under_autocast(x, y),
    "beside a region without gradients": lambda x, y: _beside_no_grad(x, y),
}


def _under_autocast(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return functional.silu(x) * y


def _beside_no_grad(x, y):
    with torch.no_grad():
        scale = x.sum()
    return functional.silu(x * scale) * y


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
