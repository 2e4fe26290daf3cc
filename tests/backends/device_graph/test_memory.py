"""Buffers for tensors of any layout."""

import pytest
import torch

from xpu_graph.backends.device_graph import memory

LAYOUTS = [
    pytest.param(torch.arange(12.0).view(4, 3), id="contiguous"),
    pytest.param(torch.arange(12.0).view(4, 3).t(), id="transposed"),
    pytest.param(torch.arange(3.0).expand(4, 3), id="expanded"),
    pytest.param(torch.arange(12.0).as_strided((3, 4), (2, 1), 2), id="overlapping"),
    pytest.param(torch.arange(24.0)[1:].as_strided((3, 4), (6, 1)), id="gaps"),
    pytest.param(torch.zeros(3, 0), id="empty"),
    pytest.param(torch.tensor(4.0), id="scalar"),
]


@pytest.mark.parametrize("tensor", LAYOUTS)
def test_a_copy_has_the_layout_and_memory_of_its_own(tensor):
    copy = memory.copy_of(tensor)
    assert torch.equal(copy, tensor)
    assert copy.stride() == tensor.stride()
    assert not tensor.numel() or copy.data_ptr() != tensor.data_ptr()


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "private_format"])
def test_all_buffers_are_filled(plain):
    tensors = [case.values[0] for case in LAYOUTS] + [torch.arange(5), torch.arange(6)]
    pairs = [(memory.buffer_for(tensor), tensor) for tensor in tensors]
    asked = []
    memory.fill(pairs, lambda tensor: bool(asked.append(tensor)) or plain)
    assert all(torch.equal(buffer, tensor) for buffer, tensor in pairs)
    assert asked
