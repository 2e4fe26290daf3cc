"""Patterns of users: registered, found, replaced, checked and forgotten."""

import pytest
import torch
from torch.nn import functional

from xpu_graph import (
    ConfigError,
    PassError,
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

X, Y = torch.randn(4, 8), torch.randn(4, 8)


@pytest.fixture(autouse=True)
def scope():
    with enable_plugin_patterns():
        yield


@pytest.fixture
def operator():
    """A custom operator that counts its calls."""
    calls = []
    with torch.library._scoped_library("plugin_test", "FRAGMENT") as library:
        library.define("swiglu(Tensor gate, Tensor up) -> Tensor")

        def swiglu(gate, up):
            calls.append(tuple(gate.shape))
            return functional.silu(gate) * up

        library.impl("swiglu", swiglu, "CPU")
        library.impl("swiglu", lambda gate, up: torch.empty_like(gate), "Meta")
        yield torch.ops.plugin_test.swiglu, calls


def swiglu(gate, up):
    return functional.silu(gate) * up


def compiled(function, *inputs, cache=None, dynamic=False, **fields):
    """The report of the one graph of a compiled call, whose result must be eager's."""
    torch.compiler.reset()
    fields = {"enable_cache": cache is not None, "verify": "each", **fields}
    backend = XpuGraph(XpuGraphConfig(**fields), cache=cache)
    call = torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)
    with torch.no_grad():
        got, want = call(*inputs), function(*inputs)
    assert_same(got, want, bitwise=False, rtol=1e-5, atol=1e-6)
    (report,) = backend.reports[-1].graphs
    return report


def name_of(function, postfix=""):
    return f"{function.__module__}-{function.__qualname__}{postfix}"


# --- found and replaced ---


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "program",
    [
        lambda x, y: functional.silu(x) * y,
        lambda x, y: y * functional.silu(x),
        lambda x, y: (y * functional.silu(x * 1)).clone() + 1,
        lambda x, y: (functional.silu(x.view(2, 16)) * y.view(2, 16)).sum(0),
        lambda x, y: functional.silu(x.double()) * y.double(),
        lambda x, y: functional.silu(x)[1:] * y[1:] + functional.silu(x[1:]) * y[1:],
    ],
)
def test_it_is_found(operator, program, dynamic):
    fused, calls = operator
    register_plugin_pattern(swiglu, (X, Y), fused, "none", verify=True)
    calls.clear()
    report = compiled(program, X, Y, dynamic=dynamic)
    assert report.passes[name_of(swiglu)].applied == 1
    assert len(calls) == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_numbers_are_captured(dynamic):
    def rms(x, weight, eps):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight

    def fused(x, weight, eps):
        return functional.rms_norm(x, (x.shape[-1],), weight, eps)

    def program(x, y, w):
        small = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-3) * w
        return small, w * (y * torch.rsqrt(0.25 + y.pow(2).mean(-1, keepdim=True)))

    register_plugin_pattern(rms, (X, torch.randn(8), 1e-6), fused, "none", verify=True)
    report = compiled(program, X, Y, torch.randn(8), dynamic=dynamic)
    assert report.passes[name_of(rms)].applied == 2
    assert report.after["aten.add.Scalar"] == 2  # of the replacement


def test_several_results():
    def both(x, y):
        total = x + y
        return total, functional.relu(total)

    def instead(x, y):
        total = x - (-y)
        return total, total.clamp_min(0)

    register_plugin_pattern(both, (X, Y), instead, "none", verify=True)

    def program(x, y):
        total = y + x
        return total, functional.relu(total).sin()

    report = compiled(program, X, Y)
    assert report.passes[name_of(both)].applied == 1
    assert report.after["aten.sub.Tensor"] == 1
    assert report.after["aten.add.Tensor"] == 0


def test_sizes_that_the_function_takes_from_its_inputs_are_compared():
    def flatten(x):
        return x.view(x.shape[0] * x.shape[1]).sin()

    register_plugin_pattern(
        flatten, (X,), lambda x: x.sin().view(x.shape[0] * x.shape[1]), "none", verify=True
    )
    assert compiled(lambda x: x.view(32).sin(), X).passes[name_of(flatten)].applied == 1
    whole = compiled(lambda x: x.view(x.shape[1] * x.shape[0]).sin(), X, dynamic=True)
    assert whole.passes[name_of(flatten)].applied == 1
    assert not compiled(lambda x: x.view(2, 16).sin(), X).passes[name_of(flatten)].applied


def test_argument_elimination():
    @register_this_as_plugin_pattern(
        (X, 3.0),
        lambda x, y, scale: x * scale * 2,
        "none",
        argument_elimination=lambda x, scale: ((x, x), {"scale": scale}),
        postfix="doubled",
        verify=True,
    )
    def scaled(x, y, scale):
        return x * scale + y * scale

    # with fewer arguments, the two products are one
    report = compiled(lambda x: x * 5.0 + x * 5.0, X)
    assert report.passes[name_of(scaled, "-doubled")].applied == 1


def test_a_function_that_writes_to_its_own_intermediate():
    def bumped(x):
        y = x.sin()
        y.add_(1)
        return y

    register_plugin_pattern(bumped, (X,), lambda x: torch.cos(x - torch.pi / 2) + 1, "none")
    report = compiled(lambda x: x.sin() + 1, X)
    assert report.passes[name_of(bumped)].applied == 1


# --- left alone, with a reason ---


def reasons(report, function, postfix=""):
    return " | ".join(report.passes[name_of(function, postfix)].refused)


def half(x, y):
    return (x.sin() + y).cos()


def double_angle(x, y):
    return torch.cos(y + x.sin() + 0 * y)


LEFT = {
    "a value inside is an output": (
        lambda x, y: (z := x.sin(), (z + y).cos()),
        "something else reads a value inside",
    ),
    "a value inside is read": (
        lambda x, y: ((z := x.sin()) + y).cos() * z,
        "something else reads a value inside",
    ),
    "another operator": (
        lambda x, y: ((x.tan() + y).cos(), x.sin().abs()),
        "aten.tan.default stands where aten.sin.default should",
    ),
    "another number": (lambda x, y: torch.add(x.sin(), y, alpha=2).cos(), "found in part"),
    "a number in place of a tensor": (lambda x, y: (x.sin() + 1.0).cos(), "found in part"),
}


@pytest.mark.parametrize(("program", "reason"), LEFT.values(), ids=LEFT)
def test_left_alone(program, reason):
    register_plugin_pattern(half, (X, Y), lambda x, y: torch.sub(x.sin(), -y).cos(), "none")
    report = compiled(program, X, Y)
    assert not report.passes[name_of(half)].applied
    assert reason in reasons(report, half)


def test_a_replacement_of_another_layout_is_refused():
    def transposed(x):
        return (x * 2).exp()

    register_plugin_pattern(
        transposed, (torch.randn(4, 4),), lambda x: (x + x).contiguous().exp(), "none"
    )
    # on a transposed input the pattern keeps its strides, and the replacement does not
    report = compiled(lambda x: (x.t() * 2).exp(), X)
    assert not report.passes[name_of(transposed)].applied
    assert "stride" in reasons(report, transposed)


def test_a_replacement_of_another_dtype_is_refused():
    def scale(x):
        return x * 2

    register_plugin_pattern(scale, (torch.ones(3, dtype=torch.int64),), lambda x: x + x, "none")
    report = compiled(lambda x: x * 2.0, torch.arange(3))
    assert not report.passes[name_of(scale)].applied
    assert "dtype" in reasons(report, scale)


def test_what_is_written_to_is_left_alone():
    def shifted(x, y):
        return (x + y).sin()

    register_plugin_pattern(shifted, (X, Y), lambda x, y: (y - (-x)).sin(), "none")

    def program(x, y):
        state = (x + y).sin()
        x.add_(1)
        return state, (x * 1 + y).sin()

    torch.compiler.reset()
    backend = XpuGraph(XpuGraphConfig(enable_cache=False, verify="each"))
    sides = []
    for call in (torch.compile(program, backend=backend), program):
        x, y = X.clone(), Y.clone()
        with torch.no_grad():
            sides.append((call(x, y), x, y))
    assert_same(*sides, bitwise=False)


def test_a_training_graph_is_left_alone():
    register_plugin_pattern(swiglu, (X, Y), lambda gate, up: gate * gate.sigmoid() * up, "none")
    backend = XpuGraph(XpuGraphConfig(enable_cache=False, verify="each"))
    torch.compiler.reset()
    leaf = X.clone().requires_grad_()
    torch.compile(swiglu, backend=backend)(leaf, Y).sum().backward()
    assert all(name_of(swiglu) not in g.passes for g in backend.reports[-1].graphs)


# --- checks ---


def test_checks_and_constraints_decide():
    seen = []

    def is_wide(gate, up):
        seen.append((tuple(gate.shape), type(up).__name__))
        return gate.shape[-1] > 4

    @register_this_as_plugin_pattern(
        (X, Y), lambda gate, up: gate * gate.sigmoid() * up, "none", extra_checks=[is_wide]
    )
    def gated(gate, up):
        return functional.silu(gate) * up

    @register_this_as_pattern_constraint
    def is_even(gate, up):
        return gate.shape[0] % 2 == 0

    assert compiled(gated, X, Y).passes[name_of(gated)].applied == 1
    assert seen[-1] == ((4, 8), "FakeTensor")
    for rows, columns, reason in ((4, 2, "is_wide says no"), (3, 8, "is_even says no")):
        report = compiled(gated, torch.randn(rows, columns), torch.randn(rows, columns))
        assert not report.passes[name_of(gated)].applied
        assert reason in reasons(report, gated)


def test_a_check_that_says_neither_is_an_error():
    register_plugin_pattern(
        swiglu,
        (X, Y),
        lambda gate, up: gate * gate.sigmoid() * up,
        "none",
        extra_checks=[lambda gate, up: None],
    )
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="returned None") as error:
        compiled(swiglu, X, Y)
    assert isinstance(error.value.inner_exception, PassError)


def test_numbers_of_any_size_where_literals_are_ignored():
    def scaled(x):
        return x.sin() * 2.0

    register_plugin_pattern(scaled, (X,), lambda x: x.sin() + x.sin(), "none")
    register_plugin_pattern(
        scaled, (X,), lambda x: x.sin() * 3.0 - x.sin(), "none", postfix="any", ignore_literal=True
    )
    report = compiled(lambda x: x.sin() * 2.0, X)
    assert report.passes[name_of(scaled)].applied + report.passes[name_of(scaled, "-any")].applied


# --- names, targets, scopes, the cache ---


def test_only_for_its_target():
    register_plugin_pattern(swiglu, (X, Y), lambda gate, up: gate * gate.sigmoid() * up, "cpu")
    assert name_of(swiglu) not in compiled(swiglu, X, Y).passes


def test_deregistered_by_function_by_name_and_by_leaving_the_scope():
    def register():
        register_plugin_pattern(swiglu, (X, Y), lambda gate, up: gate * gate.sigmoid() * up, "none")

    for forget in (
        lambda: deregister_plugin_patterns(swiglu),
        lambda: deregister_plugin_patterns(name_of(swiglu)),
        lambda: deregister_plugin_patterns(swiglu, "none"),
    ):
        register()
        assert compiled(swiglu, X, Y).passes[name_of(swiglu)].applied == 1
        forget()
        assert name_of(swiglu) not in compiled(swiglu, X, Y).passes
    with enable_plugin_patterns():
        register()
        deregister_plugin_patterns(swiglu, "cpu")
        assert compiled(swiglu, X, Y).passes[name_of(swiglu)].applied == 1
    assert name_of(swiglu) not in compiled(swiglu, X, Y).passes
    with pytest.raises(ConfigError, match="not 3"):
        deregister_plugin_patterns(3)


def test_skipped_and_included_by_name():
    register_plugin_pattern(swiglu, (X, Y), lambda gate, up: gate * gate.sigmoid() * up, "none")
    register_plugin_pattern(half, (X, Y), lambda x, y: (y - (-x.sin())).cos(), "none")
    assert name_of(swiglu) not in compiled(swiglu, X, Y, skip_patterns=(name_of(swiglu),)).passes
    passes = compiled(swiglu, X, Y, include_patterns=(name_of(half),)).passes
    assert name_of(half) in passes
    assert name_of(swiglu) not in passes
    assert "cse" in passes
    with pytest.raises(ConfigError, match="did you mean"):
        XpuGraph(XpuGraphConfig(skip_patterns=(name_of(swiglu) + "s",)))


def test_patterns_are_part_of_the_key():
    cache = XpuGraphMemoryCache()
    keys = [compiled(swiglu, X, Y, cache=cache).key]
    for factor in (1.0, 2.0):
        with enable_plugin_patterns():
            register_plugin_pattern(swiglu, (X, Y), _times(factor), "none")
            keys.append(compiled(swiglu, X, Y, cache=cache).key)
            assert compiled(swiglu, X, Y, cache=cache).cache == "hit"
    assert len(set(keys)) == 3
    assert compiled(swiglu, X, Y, cache=cache).key == keys[0]


def _times(factor):
    def replacement(gate, up):
        return gate * gate.sigmoid() * up * factor / factor

    return replacement


def test_fuel_stops_it():
    register_plugin_pattern(swiglu, (X, Y), lambda gate, up: gate * gate.sigmoid() * up, "none")
    report = compiled(swiglu, X, Y, fuel=0)
    assert "out of fuel" in reasons(report, swiglu)


# --- errors at registration ---


def wrong(pattern=swiglu, examples=(X, Y), replacement=lambda gate, up: up, **more):
    return pattern, examples, replacement, more.pop("target", "none"), more


ERRORS = {
    "too few examples": (wrong(examples=(X,)), "takes 2 arguments: gate, up"),
    "no tensor": (wrong(lambda a: a * 2, (3.0,), lambda a: a), "no tensor"),
    "other parameters": (wrong(replacement=lambda up, gate: up), r"takes \(up, gate\)"),
    "variadic": (wrong(lambda *x: x[0], (X,), lambda *x: x[0]), "name its parameters"),
    "an unknown target": (wrong(target="gpu"), "unknown target 'gpu'"),
    "a function that fails": (
        wrong(lambda gate, up: gate @ up, replacement=lambda gate, up: gate),
        "cannot be traced with the example inputs",
    ),
    "an argument that is not used": (
        wrong(lambda gate, up: gate.sin(), replacement=lambda gate, up: gate.sin()),
        "does not use its input 1",
    ),
    "a number that is computed with": (
        wrong(lambda x, n: x * (n * 2), (X, 3.0), lambda x, n: x),
        "not used as it is",
    ),
    "a number that decides": (
        wrong(lambda x, n: x.sin() if n == 3 else x.cos().sin(), (X, 3), lambda x, n: x),
        "another graph",
    ),
    "random numbers": (
        wrong(lambda gate, up: torch.rand_like(gate) * up, replacement=lambda gate, up: up),
        "draws random numbers",
    ),
    "an input as it is": (
        wrong(lambda gate, up: (gate * up, up), replacement=lambda gate, up: (gate, up)),
        "returns something that it does not compute",
    ),
    "a tensor of its own": (
        wrong(lambda x: x + torch.tensor([2.0] * 8), (X,), lambda x: x),
        "holds a tensor of its own",
    ),
    "another shape": (wrong(replacement=lambda gate, up: up.sum()), "has shape"),
    "another dtype": (wrong(replacement=lambda gate, up: up.double()), "has dtype"),
    "another stride": (
        wrong(lambda x: x.sin(), (torch.randn(3, 3),), lambda x: x.cos().t()),
        "has stride",
    ),
    "more results": (wrong(replacement=lambda gate, up: (up, gate)), "gives 2 results"),
    "a replacement that fails": (
        wrong(replacement=lambda gate, up: gate @ up),
        "the replacement failed on the example inputs",
    ),
    "itself": (
        wrong(replacement=lambda gate, up: functional.silu(gate) * up * 1.5),
        "contains the pattern",
    ),
    "other numbers": (
        wrong(replacement=lambda gate, up: gate * up, verify=True),
        "differs on the example inputs",
    ),
}


@pytest.mark.parametrize(("given", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_at_registration(given, message):
    pattern, examples, replacement, target, more = given
    with pytest.raises(ConfigError, match=message):
        register_plugin_pattern(pattern, examples, replacement, target, **more)


def test_twice_under_one_name():
    def replacement(gate, up):
        return gate * gate.sigmoid() * up

    register_plugin_pattern(swiglu, (X, Y), replacement, "none")
    register_plugin_pattern(swiglu, (X, Y), replacement, "none", postfix="other")
    with pytest.raises(ConfigError, match="postfix"):
        register_plugin_pattern(swiglu, (X, Y), replacement, "none")


def test_a_constraint_of_other_parameters():
    register_plugin_pattern(swiglu, (X, Y), lambda gate, up: gate * gate.sigmoid() * up, "none")
    with pytest.raises(ConfigError, match=r"takes \(x\)"):
        register_this_as_pattern_constraint(lambda x: True)
    deregister_plugin_patterns(swiglu)
    with pytest.raises(ConfigError, match="there is none"):
        register_this_as_pattern_constraint(lambda gate, up: True)


def test_a_replacement_that_fails_on_what_was_found():
    def fixed(gate, up):
        return (gate.view(4, 8) * gate.view(4, 8).sigmoid() * up).view_as(up)

    register_plugin_pattern(swiglu, (X, Y), fixed, "none")
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=r"failed on what was found"):
        compiled(swiglu, torch.randn(3, 8), torch.randn(3, 8))
