"""Memory of a graph's own for tensors of others: laid out alike, filled before each replay."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch

from xpu_graph.torch_compat import foreach_copy


def buffer_for(tensor: torch.Tensor) -> torch.Tensor:
    """New memory with the shape and strides of a tensor, expanded dimensions included."""
    return torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
    )


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the strides of the original."""
    copy = buffer_for(tensor)
    _fill_one(copy, tensor)
    return copy


def fill(
    pairs: Sequence[tuple[torch.Tensor, torch.Tensor]],
    has_plain_layout: Callable[[torch.Tensor], bool],
) -> None:
    """Copy into buffers, at one go where that can be.

    Args:
        pairs: each a buffer and a tensor of equal shape, strides and dtype.
        has_plain_layout: whether the bytes of a tensor are where its strides say; others are
            copied one by one.
    """
    together: dict[torch.dtype, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
    with torch.no_grad():
        for buffer, source in pairs:
            if buffer.is_contiguous() and has_plain_layout(source):
                buffers, sources = together.setdefault(buffer.dtype, ([], []))
                buffers.append(buffer)
                sources.append(source)
            else:
                _fill_one(buffer, source)
        for buffers, sources in together.values():
            if len(buffers) > 1:
                foreach_copy(buffers, sources)
            else:
                _fill_one(buffers[0], sources[0])


def _fill_one(buffer: torch.Tensor, source: torch.Tensor) -> None:
    if buffer.numel() == 0:
        return
    if _may_overlap(buffer):
        buffer, source = _whole_span(buffer), _whole_span(source)
    buffer.copy_(source)


def _may_overlap(tensor: torch.Tensor) -> bool:
    """Whether two elements may be in one place; ``copy_`` refuses to write to such a tensor."""
    sizes = zip(tensor.stride(), tensor.shape, strict=True)
    steps = sorted((stride, size) for stride, size in sizes if size > 1)
    reach = itertools.accumulate((stride * (size - 1) for stride, size in steps), initial=0)
    return any(stride <= before for (stride, _), before in zip(steps, reach, strict=False))


def _whole_span(tensor: torch.Tensor) -> torch.Tensor:
    """The memory from a tensor's first element to its last, gaps included, as one dimension."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    length = 1 + sum((size - 1) * stride for size, stride in steps)
    return tensor.as_strided((length,), (1,), tensor.storage_offset())
