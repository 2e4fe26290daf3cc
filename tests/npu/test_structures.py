"""Structures become torch_npu's operators: they are in the graph that the vendor is given."""

import pytest
import torch
from programs import MODES, assert_same_numbers, backend, compiled, inference, on_npu

from tests.zoo import build
from xpu_graph import OptLevel, Target, XpuGraph, XpuGraphConfig, backends
from xpu_graph.backends.npu.option_checks import read_options
from xpu_graph.passes.patterns.targets import npu as targets
from xpu_graph.passes.patterns.targets.npu.made import engine_of

aten = torch.ops.aten
TOLERANCES = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 6e-2}
HALVES = (torch.float16, torch.bfloat16)
FLOATS = (*HALVES, torch.float32)


@pytest.fixture
def handed(monkeypatch):
    """Targets of the calls in the graphs that a vendor compiler was given."""
    seen = []
    vendor_compiler = backends.vendor_compiler

    def spy(gm, *args, **kwargs):
        seen.extend(str(node.target) for node in gm.graph.nodes if node.op == "call_function")
        return vendor_compiler(gm, *args, **kwargs)

    monkeypatch.setattr(backends, "vendor_compiler", spy)
    return seen


def rms_norm(x, weight):
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def bare_rms_norm(x):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5)


def add_rms_norm(x, residual, weight):
    total = x + residual
    return rms_norm(total, weight), total


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdim=True)
    variance = (centred * centred).mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + 1e-5) * weight + bias


def bare_layer_norm(x):
    centred = x - x.mean(-1, keepdim=True)
    return centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + 1e-5)


def add_layer_norm(x, residual, weight, bias):
    total = x + residual
    return layer_norm(total, weight, bias), total


def swiglu(x):
    gate, up = x.chunk(2, -1)
    return gate * torch.sigmoid(gate) * up


def sliced_swiglu(x):
    return torch.nn.functional.silu(x[..., :8]) * x[..., 8:]


def geglu(x):
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.gelu(gate, approximate="tanh") * up


def geglu_of_the_right(x):
    up, gate = x.chunk(2, -1)
    return up * torch.nn.functional.gelu(gate)


def rope(x, cos, sin):
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat([-right, left], -1) * sin


def attention(query, key, value):
    scores = query @ key.transpose(-2, -1) * 0.25
    return scores.softmax(-1) @ value


def masked_attention(query, key, value, seen):
    mask = torch.where(seen, 0.0, torch.finfo(query.dtype).min).to(query.dtype)
    scores = query @ key.transpose(-2, -1) / 4 + mask
    return scores.softmax(-1, dtype=torch.float32).to(query.dtype) @ value


def hiding_attention(query, key, value, hidden):
    scores = (query @ key.transpose(-2, -1) / 4).masked_fill(hidden, -1e4)
    return scores.softmax(-1) @ value


def gelu_with_erf(x):
    return x * 0.5 * (1 + torch.erf(x / 2**0.5))


def gelu_with_tanh(x):
    return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def turned(function):
    """The same of an operand whose first dimensions are swapped in memory."""

    def of_turned(x, *more):
        return function(x.transpose(0, 1), *more).flatten()

    return of_turned


X, WEIGHT, BIAS = torch.randn(2, 3, 16), torch.rand(16) + 0.5, torch.randn(16)
HEADS = torch.randn(2, 4, 5, 16)
ANGLE = torch.randn(1, 1, 5, 8).repeat(1, 1, 1, 2)
HIDDEN = torch.ones(5, 5, dtype=torch.bool).triu(1)
SEEN = torch.stack([~HIDDEN, ~HIDDEN.roll(1)])[:, None]
ATTENTION = "npu.npu_fused_infer_attention_score.default"

PROGRAMS = {
    "rms_norm": ("npu.npu_rms_norm.default", rms_norm, X, WEIGHT),
    "bare_rms_norm": ("npu.npu_rms_norm.default", bare_rms_norm, X),
    "turned_rms_norm": ("npu.npu_rms_norm.default", turned(rms_norm), X, WEIGHT),
    "add_rms_norm": ("npu.npu_add_rms_norm.default", add_rms_norm, X, X + 1, WEIGHT),
    "layer_norm": ("aten.native_layer_norm.default", layer_norm, X, WEIGHT, BIAS),
    "bare_layer_norm": ("aten.native_layer_norm.default", bare_layer_norm, X),
    "add_layer_norm": ("npu.npu_add_layer_norm.default", add_layer_norm, X, X + 1, WEIGHT, BIAS),
    "swiglu": ("npu.npu_swiglu.default", swiglu, X),
    "sliced_swiglu": ("npu.npu_swiglu.default", sliced_swiglu, X),
    "geglu": ("npu.npu_geglu.default", geglu, X),
    "geglu_of_the_right": ("npu.npu_geglu.default", geglu_of_the_right, X),
    "rope": ("npu.npu_rotary_mul.default", rope, HEADS, ANGLE.cos(), ANGLE.sin()),
    "attention": (ATTENTION, attention, HEADS, HEADS + 1, HEADS - 1),
    "attention_of_one_head": (ATTENTION, attention, X, X + 1, X - 1),
    "masked_attention": (ATTENTION, masked_attention, HEADS, HEADS, HEADS, SEEN),
    "hiding_attention": (ATTENTION, hiding_attention, HEADS, HEADS, HEADS, HIDDEN),
    "gelu_with_erf": ("npu.npu_gelu.default", gelu_with_erf, X),
    "gelu_with_tanh": ("npu.npu_gelu.default", gelu_with_tanh, X),
    "turned_gelu": ("npu.npu_gelu.default", turned(gelu_with_tanh), X),
}
GONE = {"aten.rsqrt.default", "aten.sqrt.default", "aten._softmax.default", "aten.bmm.default"} | {
    f"aten.{name}" for name in ("erf.default", "tanh.default", "sigmoid.default", "silu.default")
}
"""What each structure is made of, and none of the operators."""


STAYS_IN_FLOAT16 = {
    "bare_rms_norm",
    "layer_norm",
    "bare_layer_norm",
    "add_layer_norm",
    "masked_attention",
    "hiding_attention",
}
"""Squares overflow in a float16 mean, and a row that is hidden throughout becomes even."""


def program(name, dtype):
    operator, function, *inputs = PROGRAMS[name]
    cast = [one.to(dtype) if one.is_floating_point() else one for one in inputs]
    return operator, function, cast


def at_level2(function, mode, **more):
    return compiled(function, mode, config={"opt_level": OptLevel.level2}, **more)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_vendor_gets_the_operator(name, mode, dtype, handed):
    operator, function, inputs = program(name, dtype)
    got = at_level2(function, mode)(*map(on_npu, inputs))
    if name == "add_layer_norm" and mode == "max-autotune":
        operator = "aten.native_layer_norm.default"  # torchair cannot convert the other one
    stays = operator == ATTENTION and dtype == torch.float32
    if stays or (dtype == torch.float16 and name in STAYS_IN_FLOAT16):
        assert operator not in handed
    else:
        assert handed.count(operator) == 1
        assert not GONE & set(handed)
        assert not any("cat" in target for target in handed)
    tolerance = TOLERANCES[dtype]
    assert_same_numbers(got, function(*inputs), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", MODES)
def test_one_graph_serves_all_lengths(mode, handed):
    def block(x, weight, hidden, cos, sin):
        heads = rms_norm(x.unflatten(-1, (4, 16)), weight).transpose(1, 2)
        turned = rope(heads, cos, sin)
        return hiding_attention(turned, turned, heads, hidden)

    run = at_level2(block, mode)
    weight = WEIGHT.bfloat16()
    for length in (5, 7, 3):
        x = torch.randn(2, length, 64, dtype=torch.bfloat16)
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        angle = torch.randn(1, 1, length, 16, dtype=torch.bfloat16)
        inputs = [x, weight, hidden, angle.cos(), angle.sin()]
        on_device = list(map(on_npu, inputs))
        for value, dim in zip(on_device, (1, None, (0, 1), 2, 2), strict=True):
            if dim is not None:
                torch._dynamo.mark_dynamic(value, dim)
        assert_same_numbers(run(*on_device), block(*inputs), rtol=6e-2, atol=6e-2)
    operators = ("npu.npu_rms_norm.default", "npu.npu_rotary_mul.default", ATTENTION)
    assert [handed.count(name) for name in operators] == [1, 1, 1]


def refusals(function, *inputs, mode="reduce-overhead", **options):
    """Why each structure was not replaced."""
    made = backend(mode, config={"opt_level": OptLevel.level2}, **options)
    run = inference(torch.compile(function, backend=made))
    want = function(*inputs)
    assert_same_numbers(run(*map(on_npu, inputs)), want, rtol=2e-2, atol=2e-2)
    (graph,) = made.reports[-1].graphs
    return {reason for record in graph.passes.values() for reason in record.refused}


def of(dtype, *tensors):
    return [one.to(dtype) for one in tensors]


REFUSED = {
    "dtype": (rms_norm, of(torch.float64, X, WEIGHT), "x is torch.float64"),
    "shape of the weight": (rms_norm, (X, torch.rand(3, 16)), "the weight does not have the shape"),
    "one dimension": (rms_norm, (X[0, 0], WEIGHT), "x has 1 dimensions, and not 2 to 8"),
    "dtype of the weight": (
        add_rms_norm,
        (*of(torch.float16, X, X), WEIGHT),
        "the weight is torch.float32, and not torch.float16",
    ),
    "halves of two tensors": (
        lambda gate, up: torch.nn.functional.silu(gate) * up,
        (X, X + 1),
        "gate and factor are not the left and the right half of one tensor",
    ),
    "halves the other way round": (
        lambda x: torch.nn.functional.silu(x[..., 8:]) * x[..., :8],
        (X,),
        "gate and factor are not the left and the right half of one tensor",
    ),
    "gelu of two tensors": (
        lambda gate, up: torch.nn.functional.gelu(gate) * up,
        (X, X + 1),
        "gate and factor are not the halves of one tensor",
    ),
    "angles of each head": (
        rope,
        (HEADS, *(torch.randn(1, 4, 5, 16) for _ in range(2))),
        "cos is (1, 4, 5, 16), which is not broadcast to (2, 4, 5, 16)",
    ),
    "rows of 16 bytes": (
        rope,
        of(torch.float16, HEADS[..., :8], ANGLE[..., :8], ANGLE[..., :8]),
        "a row of x is no multiple of 32 bytes",
    ),
    "rotation in three dimensions": (
        rope,
        (X, torch.rand(3, 16), torch.rand(3, 16)),
        "x has 3 dimensions, and not 4",
    ),
    "attention in float32": (attention, (HEADS, HEADS, HEADS), "the query is torch.float32"),
    "narrow values": (
        attention,
        of(torch.float16, HEADS, HEADS, HEADS[..., :4]),
        "the value does not have the shape",
    ),
    "keys for all batches": (
        attention,
        of(torch.float16, HEADS, HEADS[:1], HEADS),
        "the operands of a product are broadcast",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_an_operator_does_not_take_stays(case):
    function, inputs, reason = REFUSED[case]
    assert any(told.startswith(reason) for told in refusals(function, *inputs))


def test_a_wider_weight_widens_the_norm(handed):
    x = X.half()
    got = at_level2(rms_norm, "npugraph_ex")(x.npu(), WEIGHT.npu())
    assert got.dtype == torch.float32
    assert "npu.npu_rms_norm.default" in handed
    assert_same_numbers(got, rms_norm(x, WEIGHT), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_torchs_own_gelu_is_told_which_one(mode, approximate):
    """Torch_npu's kernel for it, and torchair's converter, are not: one of two would be wrong."""
    x = torch.linspace(-4, 4, 101)

    def gelu(x):
        return torch.nn.functional.gelu(x, approximate=approximate)

    assert_same_numbers(at_level2(gelu, mode)(x.npu()), gelu(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["rms_norm", "add_layer_norm", "masked_attention", "geglu"])
@pytest.mark.parametrize("options", [None, {"compiler": "device_graph"}], ids=str)
def test_without_the_vendors_compiler(name, options):
    operator, function, inputs = program(name, torch.bfloat16)
    config = XpuGraphConfig(
        target=Target.npu,
        vendor_compiler_config=options,
        opt_level=OptLevel.level2,
        enable_cache=False,
    )
    made = XpuGraph(config)
    got = inference(torch.compile(function, backend=made))(*map(on_npu, inputs))
    assert_same_numbers(got, function(*inputs), rtol=6e-2, atol=6e-2)
    (graph,) = made.reports[-1].graphs
    assert graph.after[operator] == 1


MODELS = {
    ("llama", torch.float16): {"add_rms_norm": 4, "rms_norm": 1, "fused_infer_attention_score": 2},
    ("llama", torch.float32): {"add_rms_norm": 4, "rms_norm": 1, "rotary_mul": 4},
    ("bert", torch.bfloat16): {"add_layer_norm": 4, "gelu": 3, "fused_infer_attention_score": 2},
    ("phi3", torch.bfloat16): {"add_rms_norm": 4, "swiglu": 2, "fused_infer_attention_score": 2},
}


@pytest.mark.parametrize(("name", "dtype"), MODELS, ids=str)
def test_models(name, dtype, handed):
    sample, on_device = build(name, dtype=dtype), build(name, dtype=dtype)
    inputs = {key: on_npu(value) for key, value in sample.small.items()}
    run = at_level2(on_device.model.npu(), "reduce-overhead")
    got, want = (next(iter(dict(out).values())) for out in (run(**inputs), _reference(sample)))
    assert_same_numbers(got, want, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
    counts = {name: handed.count(f"npu.npu_{name}.default") for name in MODELS[name, dtype]}
    assert counts == MODELS[name, dtype]


def _reference(sample):
    with torch.no_grad():
        return sample.model(**sample.small)


def test_torchair_converts_what_is_wanted_for_ge():
    """An operator that torchair learns to convert has to be wanted there."""
    for mode in MODES:
        options = {"compiler": "ge", "mode": mode}
        config = XpuGraphConfig(target=Target.npu, vendor_compiler_config=options)
        for one in targets.IMPLEMENTATIONS:
            operator = getattr(torch.ops.npu, one.label, None) or getattr(aten, one.label)
            has_converter = hasattr(operator.default, "_ge_converter")
            assert one.wanted(config) == (has_converter or mode != "max-autotune"), one.name


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compiler": "ge"},
        *({"mode": mode} for mode in MODES),
        *({"compiler": "ge", "mode": mode} for mode in MODES),
        *({"compiler": name} for name in ("npugraph_ex", "device_graph", "inductor")),
    ],
    ids=str,
)
def test_the_mode_is_the_one_that_the_backend_takes(options):
    assert engine_of(options) == read_options(options).engine
