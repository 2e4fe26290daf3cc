"""Every model of the zoo is the same each time it is built."""

import pytest
import torch
from torch.utils import _pytree as pytree

from tests.zoo import NAMES, build
from xpu_graph.testing import assert_same


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


def test_an_attention_that_a_model_does_not_offer():
    with pytest.raises(ValueError, match="Gemma2"):
        build("gemma2", "sdpa")


def test_no_such_model():
    with pytest.raises(KeyError, match="zebra"):
        build("zebra")
