import pytest
import torch
from torch import fx

from xpu_graph.passes.arguments import argument

aten = torch.ops.aten


def call(target, *args, **kwargs):
    return fx.Graph().call_function(target, args, kwargs)


def test_by_place_by_name_and_by_default():
    assert argument(call(aten.amax.default, None, [1], True), "keepdim") is True
    assert argument(call(aten.amax.default, None, keepdim=True), "keepdim") is True
    assert argument(call(aten.amax.default, None), "keepdim") is False
    assert argument(call(aten.amax.default, None), "dim") == []
    assert argument(call(aten.sum.dim_IntList, None, None), "dim") is None
    assert argument(call(aten.add.Tensor, 1, 2), "alpha") == 1


def test_no_such_argument():
    with pytest.raises(KeyError, match="gamma"):
        argument(call(aten.add.Tensor, 1, 2), "gamma")
