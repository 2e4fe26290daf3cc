"""Every model of the zoo is the same each time it is built, and compiles to what eager gives."""

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.zoo import NAMES, RECOMMENDERS, build
from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.testing import assert_same, check_against_eager

TOLERANCES = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2},
}
NO_SDPA = {"gemma2"}


def settings():
    """One for each model; attentions and dtypes take turns."""
    chosen = []
    for position, name in enumerate(NAMES):
        attention = ("sdpa", "eager")[position % 2]
        if name in NO_SDPA or name in RECOMMENDERS:
            attention = "eager"
        dtype = (torch.float32, torch.bfloat16)[position // 2 % 2]
        short = "f32" if dtype == torch.float32 else "bf16"
        chosen.append(pytest.param(name, attention, dtype, id=f"{name}-{attention}-{short}"))
    return chosen


def tensors(results):
    return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_is_the_same_each_time(name):
    one, other = build(name), build(name)
    assert_same(one.model.state_dict(), other.model.state_dict(), "state")
    for mine, others in ((one.small, other.small), (one.large, other.large)):
        assert_same(mine, others, "inputs")
        with torch.no_grad():
            got = tensors(one.model(**mine))
            assert_same(got, tensors(other.model(**others)))
        assert got and all(tensor.isfinite().all() for tensor in got if tensor.is_floating_point())
    for key, value in one.small.items():
        assert one.large[key].shape[0] != value.shape[0], key


@pytest.mark.parametrize(("name", "attention", "dtype"), settings())
def test_level2_agrees_with_eager(name, attention, dtype):
    sample = build(name, attention, dtype)

    def call(*values):
        return sample.model(**dict(zip(sample.small, values, strict=True)))

    def make_inputs():
        return [value.clone() for value in sample.small.values()]

    backend = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False, verify="final"))
    check_against_eager(call, make_inputs, backend, calls=1, bitwise=False, **TOLERANCES[dtype])


def test_an_attention_that_a_model_does_not_offer():
    with pytest.raises(ValueError, match="Gemma2"):
        build("gemma2", "sdpa")


def test_no_such_model():
    with pytest.raises(KeyError, match="zebra"):
        build("zebra")
