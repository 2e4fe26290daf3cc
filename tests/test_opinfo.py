"""Operators of torch's own catalogue, with its sample inputs, against eager, to the last bit.

Where AOTAutograd alone (``aot_eager``) already differs from eager, that is found by running it, and
then its result is what ours has to equal.
"""

from __future__ import annotations

import copy
import itertools

import pytest
import torch
from torch.testing._internal import common_methods_invocations as catalogue
from torch.utils import _pytree as pytree

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.testing import alias_classes, assert_same

SAMPLES = 2

FLOAT = """
    abs add addcdiv addcmul addmm addmv all any acos argmax argmin as_strided atan2 baddbmm bmm
    broadcast_to cat ceil chunk clamp clone contiguous copysign cos cosh cummax cumprod cumsum
    diag diagonal diagonal_scatter diff div.no_rounding_mode div.floor_rounding dot dstack
    einsum eq erf exp expand expm1 fft.fft fft.rfft fill flatten flip fmod frac full_like gather
    ge gradient gt heaviside hypot index_add index_copy index_fill index_put index_select
    isfinite isnan kron kthvalue lerp linalg.cholesky linalg.det linalg.inv linalg.norm
    linalg.qr linalg.vector_norm log log1p log_softmax logaddexp logcumsumexp logical_not
    logsumexp masked_fill masked_scatter matmul max.reduction_with_dim maximum mean median
    min.binary minimum mm mode movedim mul mv nan_to_num native_layer_norm neg new_full
    nn.functional.adaptive_avg_pool2d nn.functional.avg_pool2d nn.functional.batch_norm
    nn.functional.conv1d nn.functional.conv2d nn.functional.conv_transpose2d
    nn.functional.cosine_similarity nn.functional.elu nn.functional.embedding
    nn.functional.embedding_bag nn.functional.gelu nn.functional.glu nn.functional.group_norm
    nn.functional.hardswish nn.functional.interpolate.bilinear nn.functional.layer_norm
    nn.functional.leaky_relu nn.functional.linear nn.functional.max_pool2d nn.functional.mish
    nn.functional.mse_loss nn.functional.nll_loss nn.functional.normalize
    nn.functional.pad.constant nn.functional.pixel_shuffle nn.functional.relu
    nn.functional.rms_norm nn.functional.scaled_dot_product_attention nn.functional.silu
    nn.functional.softplus nn.functional.unfold norm outer permute pow prod ravel reciprocal
    remainder repeat repeat_interleave reshape resolve_conj roll rot90 round rsqrt rsub scatter
    scatter_add scatter_reduce.sum searchsorted select select_scatter sgn sigmoid sign sin slice
    slice_scatter softmax sort split split_with_sizes sqrt square squeeze stack std sub sum t
    take take_along_dim tanh tensordot tile topk trace transpose tril triu true_divide trunc
    unbind unflatten unfold unsqueeze var var_mean view view_as vstack where zeros_like
"""

RANDOM = """
    bernoulli multinomial nn.functional.dropout normal rand_like randint_like randn_like uniform
    nn.functional.dropout2d nn.functional.rrelu
"""

OTHER = {
    torch.int64: "add bitwise_and clamp cumsum div.trunc_rounding floor_divide gather mul "
    "remainder sub sum where sort",
    torch.bool: "add all any cat logical_and logical_or masked_fill mul sum where clone",
    torch.bfloat16: "add addmm cumsum div.no_rounding_mode exp mul matmul mean softmax sub sum "
    "nn.functional.layer_norm nn.functional.gelu nn.functional.scaled_dot_product_attention",
    torch.complex64: "add angle conj conj_physical div.no_rounding_mode fft.ifft imag linalg.inv "
    "matmul mul real resolve_conj sub sum view_as_real clone neg",
}


def named(info):
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name


CATALOGUE = {named(info): info for info in catalogue.op_db}
CASES = [
    *((name, torch.float32) for name in (FLOAT + RANDOM).split()),
    *((name, dtype) for dtype, names in OTHER.items() for name in names.split()),
]


def outcome(call, arguments):
    """What a call gives: its result, its arguments afterwards, and what of these is one memory."""
    torch.manual_seed(1)
    with torch.no_grad():
        result = call(*arguments)
    leaves = [t for t in pytree.tree_leaves([arguments, result]) if isinstance(t, torch.Tensor)]
    return result, arguments, alias_classes(leaves)


def gradients(call, arguments):
    """The same, with the gradients of the arguments in place of what is shared."""
    torch.manual_seed(1)
    result = call(*arguments)
    outputs = [
        t
        for t in pytree.tree_leaves(result)
        if isinstance(t, torch.Tensor) and t.requires_grad and t.grad_fn is not None
    ]
    given = [t for t in pytree.tree_leaves(arguments) if isinstance(t, torch.Tensor)]
    if outputs:
        # of unlike weights, so that no gradient is that of a sum, which may be expanded
        weights = [torch.linspace(0.5, 1.5, t.numel(), dtype=t.real.dtype) for t in outputs]
        pairs = zip(outputs, weights, strict=True)
        torch.autograd.backward(outputs, [w.view(t.shape).to(t.dtype) for t, w in pairs])
    return (
        pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, result),
        [],
        [t.grad for t in given],
    )


def difference(got, want):
    """What tells two outcomes apart; None for nothing."""
    try:
        assert_same(got[:2], want[:2])
        assert_same(got[2], want[2], "gradient or sharing of memory")
    except AssertionError as error:
        return str(error)
    return None


def attempt(backend, function, arguments, observe):
    """What a compiled call gives, or the error it raised."""
    torch._dynamo.reset()
    try:
        return observe(torch.compile(function, backend=backend), arguments)
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
        return error


def check(info, samples, observe=outcome, verify="each"):
    """Compare a program that calls the operator on every sample."""

    def function(*samples):
        return [info.op(x, *args, **kwargs) for x, args, kwargs in samples]

    ours = XpuGraph(XpuGraphConfig(verify=verify, enable_cache=False))
    want = observe(function, copy.deepcopy(samples))
    got = attempt(ours, function, copy.deepcopy(samples), observe)
    assert ours.reports or isinstance(got, Exception)
    if not isinstance(got, Exception) and difference(got, want) is None:
        return
    torchs = attempt("aot_eager", function, copy.deepcopy(samples), observe)
    if isinstance(got, Exception) or isinstance(torchs, Exception):
        assert type(got) is type(torchs), repr(got)
    else:
        assert difference(got, torchs) is None, difference(got, torchs)


@pytest.fixture(autouse=True)
def traceable(monkeypatch):
    """The catalogue seeds before every random call, which Dynamo cannot trace."""
    monkeypatch.setattr(catalogue, "wrapper_set_seed", lambda call, *args, **kw: call(*args, **kw))


def samples_of(info, dtype, *, requires_grad=False):
    torch.manual_seed(0)
    found = info.sample_inputs("cpu", dtype, requires_grad=requires_grad)
    samples = [(s.input, s.args, s.kwargs) for s in itertools.islice(found, SAMPLES)]
    assert samples
    return samples


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=lambda value: str(value).split(".")[-1])
def test_operator(name, dtype):
    info = CATALOGUE[name]
    check(info, samples_of(info, dtype))


UNTRACEABLE = {"index_fill", "index_put"}
"""For 0-dimensional tensors their derivatives have sizes that depend on data."""

DIFFERENTIABLE = [
    name
    for name in (FLOAT + RANDOM).split()
    if CATALOGUE[name].supports_autograd and name not in UNTRACEABLE
][::2]
"""Every second one; ``tests/sweeps/opinfo.py`` differentiates all of them."""


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients(name):
    info = CATALOGUE[name]
    samples = samples_of(info, torch.float32, requires_grad=True)
    check(info, samples, gradients, verify="final")
