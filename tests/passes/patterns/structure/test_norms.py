"""RMSNorm, LayerNorm, and both with a residual that is added."""

import functools

import pytest
import torch
from torch.nn import functional

from tests.passes.patterns.stand_ins import implemented
from tests.passes.patterns.structure.finding import find
from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.testing import check_against_eager

X = torch.randn(3, 4, 16)
ROW = torch.rand(16) + 0.5
SHIFT = torch.randn(16)


def mean(x):
    return x.mean(-1, keepdim=True)


RMS = {
    "rsqrt": lambda x, w: x * torch.rsqrt(mean(x.pow(2)) + 1e-6) * w,
    "weight first": lambda x, w: w * (x * torch.rsqrt(mean(x * x) + 1e-6)),
    "sqrt": lambda x, w: x / torch.sqrt(mean(x.square()) + 1e-6) * w,
    "power": lambda x, w: x * (mean(x**2) + 1e-6) ** -0.5 * w,
    "one more than the weight": lambda x, w: x * torch.rsqrt(mean(x * x) + 1e-6) * (1 + w),
    "no weight": lambda x, w: x * torch.rsqrt(mean(x * x) + 1e-6),
    "last dimension by number": lambda x, w: x * torch.rsqrt(x.pow(2).mean(2, True) + 1e-6) * w,
    "torch's own": lambda x, w: functional.rms_norm(x, (16,), w, 1e-6),
}
LAYER = {
    "squares": lambda x, w, b: (x - mean(x)) / torch.sqrt(mean((x - mean(x)) ** 2) + 1e-5) * w + b,
    "rsqrt": lambda x, w, b: (x - mean(x)) * torch.rsqrt(mean((x - mean(x)).pow(2)) + 1e-5) * w + b,
    "var": lambda x, w, b: (
        (x - mean(x)) / torch.sqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5) * w + b
    ),
    "operands the other way round": lambda x, w, b: (
        b + w * ((x - mean(x)) * torch.rsqrt(mean((x - mean(x)) ** 2) + 1e-5))
    ),
    "no bias": lambda x, w, b: (x - mean(x)) * torch.rsqrt(mean((x - mean(x)) ** 2) + 1e-5) * w,
    "neither": lambda x, w, b: (x - mean(x)) * torch.rsqrt(mean((x - mean(x)) ** 2) + 1e-5),
    "torch's own": lambda x, w, b: functional.layer_norm(x, (16,), w, b, 1e-5),
    "torch's own, plain": lambda x, w, b: functional.layer_norm(x, (16,)),
}


@pytest.mark.parametrize("function", RMS.values(), ids=RMS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_rms_norm_is_found(function, dynamic):
    applied, refused = find("RMSNorm", function, X, ROW, dynamic=dynamic)
    assert applied == 1
    assert not refused


@pytest.mark.parametrize("function", LAYER.values(), ids=LAYER)
@pytest.mark.parametrize("dynamic", [None, True])
def test_layer_norm_is_found(function, dynamic):
    assert find("LayerNorm", function, X, ROW, SHIFT, dynamic=dynamic)[0] == 1


def cast_llama(x, w):
    wide = x.float()
    return w * (wide * torch.rsqrt(mean(wide.pow(2)) + 1e-6)).to(x.dtype)


def cast_gemma(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(mean(wide.pow(2)) + 1e-6) * (1.0 + w.float())).type_as(x)


def cast_t5(x, w):
    return w * (x * torch.rsqrt(mean(x.float().pow(2)) + 1e-6)).to(w.dtype)


def cast_plain(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(mean(wide.pow(2)) + 1e-6)).to(x.dtype)


@pytest.mark.parametrize("function", [cast_llama, cast_gemma, cast_t5, cast_plain])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_casts_inside_and_after_it(function, dtype):
    assert find("RMSNorm", function, X.to(dtype), ROW.to(dtype))[0] == 1


def test_a_layer_norm_in_a_wider_dtype():
    def function(x, w, b):
        wide = x.float()
        centred = wide - mean(wide)
        return (centred * torch.rsqrt(mean(centred**2) + 1e-5)).to(x.dtype) * w + b

    given = (X.bfloat16(), ROW.bfloat16(), SHIFT.bfloat16())
    assert find("LayerNorm", function, *given)[0] == 1


def through(dtype):
    def function(x, w):
        other = x.to(dtype)
        return (other * torch.rsqrt(mean(other.pow(2)) + 1e-6)).to(x.dtype) * w

    return function


def test_what_only_float64_holds():
    assert find("RMSNorm", through(torch.float64), X * 1e25, ROW)[0] == 1  # of what it is cast to


def test_squares_that_overflow_in_float16():
    reason = "it is computed in torch.float16, and no operand is"
    assert find("RMSNorm", through(torch.float16), X * 1e3, ROW) == (0, {reason})
    reason = "a mean is computed in float16, where squares overflow"
    assert find("RMSNorm", RMS["rsqrt"], X.half() * 1e3, ROW.half()) == (0, {reason})
    assert find("LayerNorm", LAYER["var"], X.half(), ROW.half(), SHIFT.half()) == (0, {reason})


@pytest.mark.parametrize("shape", [(16,), (1, 16), (1, 1, 1, 16)])
def test_shapes_at_the_border(shape):
    assert find("RMSNorm", RMS["rsqrt"], torch.randn(shape), ROW)[0] == 1
    assert find("LayerNorm", LAYER["rsqrt"], torch.randn(shape), ROW, SHIFT)[0] == 1


@pytest.mark.parametrize("shape", [(0, 16), (2, 0, 16)])
def test_no_elements_keep_the_strides_that_eager_gives(shape):
    assert find("RMSNorm", RMS["rsqrt"], torch.randn(shape), ROW) == (
        0,
        {
            "an empty tensor may have other strides than its fake value",
            "the layout that was found is not made of it",
        },
    )


def test_float64_stays_float64():
    assert find("RMSNorm", RMS["rsqrt"], X.double(), ROW.double())[0] == 1


def test_strided_inputs():
    assert find("RMSNorm", RMS["rsqrt"], X.transpose(0, 1), ROW)[0] == 1
    assert find("LayerNorm", LAYER["rsqrt"], X.transpose(0, 1), ROW, SHIFT)[0] == 1


def leaking(x, w):
    normed = x * torch.rsqrt(mean(x * x) + 1e-6)
    return w * normed, normed


def leaking_mean(x, w):
    square = mean(x * x)
    return w * (x * torch.rsqrt(square + 1e-6)), square


RMS_REFUSED = {
    "another dimension": (
        lambda x, w: x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + 1e-6) * w,
        "it does not go over the last dimension alone",
    ),
    "several dimensions": (
        lambda x, w: x * torch.rsqrt(x.pow(2).mean((-2, -1), keepdim=True) + 1e-6) * w,
        "it does not go over the last dimension alone",
    ),
    "a mean that is read elsewhere": (leaking_mean, "something else reads a value inside"),
}


@pytest.mark.parametrize(("function", "reason"), RMS_REFUSED.values(), ids=RMS_REFUSED)
def test_rms_norm_is_refused(function, reason):
    applied, refused = find("RMSNorm", function, X, ROW)
    assert applied == 0
    assert reason in refused


def test_what_is_read_elsewhere_is_left_outside():
    applied, refused = find("RMSNorm", leaking, X, ROW)
    assert applied == 1  # without its weight
    assert refused == {"something else reads a value inside"}


def test_an_eps_that_is_known_at_run_time_only():
    def function(x, w, eps):
        return x * torch.rsqrt(mean(x * x) + eps) * w

    applied, refused = find("RMSNorm", function, X, ROW, torch.tensor(1e-6))
    assert applied == 0
    assert "eps is known at run time only" in refused


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (lambda x, w: x * torch.rsqrt(mean(x * x * x) + 1e-6) * w, "other arguments"),
        (lambda x, w: x * torch.rsqrt(mean(x * x) * 1e-6) * w, None),
        (lambda x, w: x * torch.rsqrt(mean(x * w) + 1e-6) * w, None),
    ],
)
def test_something_like_it_is_told_of(function, part):
    applied, refused = find("RMSNorm", function, X, ROW)
    assert applied == 0
    assert part is None or any(part in reason for reason in refused)


def test_integers_are_no_norm():
    def function(x, w):
        return x * torch.rsqrt(mean((x * x).float()) + 1e-6) * w

    assert find("RMSNorm", function, torch.randint(5, (3, 16)), ROW)[0] == 0


LAYER_REFUSED = {
    "a corrected variance": lambda x, w, b: (
        (x - mean(x)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5) * w + b
    ),
    "eps beside the deviation": lambda x, w, b: (
        (x - mean(x)) / (x.std(-1, unbiased=False, keepdim=True) + 1e-5) * w + b
    ),
    "means of two tensors": lambda x, w, b: (
        (x - mean(x.sin())) * torch.rsqrt(mean((x - mean(x)) ** 2) + 1e-5) * w + b
    ),
    "several dimensions": lambda x, w, b: functional.layer_norm(x, (4, 16)) * w + b,
}


@pytest.mark.parametrize("function", LAYER_REFUSED.values(), ids=LAYER_REFUSED)
def test_layer_norm_is_refused(function):
    assert find("LayerNorm", function, X, ROW, SHIFT)[0] == 0


def add_rms(x, r, w):
    total = r + x
    return w * (total * torch.rsqrt(mean(total * total) + 1e-6)), total


def add_layer(x, r, w, b):
    total = x + r
    return functional.layer_norm(total, (16,), w, b), total.sin()


def add_layer_by_hand(x, r, w, b):
    return LAYER["squares"](x + r, w, b)


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_residual_is_taken_in(dynamic):
    dynamic_find = functools.partial(find, dynamic=dynamic)
    assert dynamic_find("AddRMSNorm", add_rms, X, X.flip(0), ROW)[0] == 1
    assert dynamic_find("AddLayerNorm", add_layer, X, X.flip(0), ROW, SHIFT)[0] == 1
    assert dynamic_find("AddLayerNorm", add_layer_by_hand, X, X.flip(0), ROW, SHIFT)[0] == 1


@pytest.mark.parametrize("residual", [X[:1], X.double(), X[..., :1]])
def test_a_residual_that_broadcasts_or_promotes_is_refused(residual):
    applied, refused = find("AddRMSNorm", add_rms, X, residual, ROW)
    assert applied == 0
    assert any("residual" in reason for reason in refused)


def test_a_scaled_residual_is_another_thing():
    def function(x, r, w):
        total = torch.add(x, r, alpha=2)
        return w * (total * torch.rsqrt(mean(total * total) + 1e-6))

    assert find("AddRMSNorm", function, X, X.flip(0), ROW)[0] == 0


def test_the_weight_may_be_computed_behind_the_sum():
    def function(x, r, w):
        total = x + r
        return total * torch.rsqrt(mean(total * total) + 1e-6) * (1 + w), total

    assert find("AddRMSNorm", function, X, X.flip(0), ROW)[0] == 1


def test_a_sum_that_is_read_before_the_weight_is_there_stays():
    def function(x, r, w):
        total = x + r
        later = total.sin().sum() * w
        return total * torch.rsqrt(mean(total * total) + 1e-6) * later, total

    applied, refused = find("AddRMSNorm", function, X, X.flip(0), ROW)
    assert applied == 0
    assert "one result is used before all that they are computed from is there" in refused


def test_an_input_that_is_written_to_afterwards():
    def function(x, w):
        result = RMS["rsqrt"](x, w)
        x.add_(1)
        return result

    backend = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False, verify="each"))
    with implemented("RMSNorm"):
        check_against_eager(
            function,
            lambda: [X.clone(), ROW.clone()],
            backend,
            bitwise=False,
            rtol=1e-5,
            atol=1e-6,
        )
    records = backend.reports[-1].graphs[0].passes.items()
    (record,) = [record for name, record in records if name.startswith("RMSNorm")]
    assert "a read would move across a write" in record.refused
