"""Which real tensors share memory, and copies that share it in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from xpu_graph.torch_compat import neg_view


def sharing(values: Sequence[Any]) -> list[int]:
    """For each value the position of the first tensor on its storage.

    -1 for what is no tensor, has no storage of the usual kind, or has one without bytes.
    """
    first: dict[tuple[torch.device, int], int] = {}
    classes = []
    for position, value in enumerate(values):
        place = _region(value)
        classes.append(-1 if place is None else first.setdefault((place[0], place[1]), position))
    return classes


def copies_of(values: Sequence[Any]) -> list[Any]:
    """Copies of the tensors, laid out as they are, that share memory among themselves as they do.

    What is not a tensor is handed on. A tensor without memory of the usual kind (sparse, a
    subclass) is cloned.
    """
    regions = [_region(value) for value in values]
    copied: dict[tuple[torch.device, int], tuple[int, torch.Tensor]] = {}
    for block in _blocks([region for region in regions if region is not None]):
        device, low, high = (
            block[0][0],
            block[0][1],
            max(start + size for _, start, size, _ in block),
        )
        memory = torch.empty(high - low, dtype=torch.uint8, device=device)
        for _, start, size, storage in block:
            bytes_of = torch.empty(0, dtype=torch.uint8, device=device).set_(storage)
            memory[start - low : start - low + size].copy_(bytes_of)
            copied[device, start] = (start - low, memory)
    copies = []
    for value, region in zip(values, regions, strict=True):
        if region is None:
            copies.append(value.clone() if isinstance(value, torch.Tensor) else value)
            continue
        shift, memory = copied[region[0], region[1]]
        copies.append(_laid_out(value, shift, memory))
    return copies


def _region(value: Any) -> tuple[torch.device, int, int, torch.UntypedStorage] | None:
    """Device, address, size and storage of a plain tensor's memory."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
        return None
    try:
        storage = value.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
    except (NotImplementedError, RuntimeError):
        return None
    return (value.device, address, size, storage) if address and size else None


def _blocks(
    regions: list[tuple[torch.device, int, int, torch.UntypedStorage]],
) -> list[list[tuple[torch.device, int, int, torch.UntypedStorage]]]:
    """The regions in groups that overlap: two storages may lie on the same memory."""
    blocks: list[list[tuple[torch.device, int, int, torch.UntypedStorage]]] = []
    end = 0
    for region in sorted(regions, key=lambda region: (str(region[0]), *region[1:3])):
        if blocks and blocks[-1][0][0] == region[0] and region[1] < end:
            blocks[-1].append(region)
            end = max(end, region[1] + region[2])
        else:
            blocks.append([region])
            end = region[1] + region[2]
    return blocks


def _laid_out(tensor: torch.Tensor, shift: int, memory: torch.Tensor) -> torch.Tensor:
    """A tensor like this one over other memory, that starts ``shift`` bytes before its storage."""
    first, rest = divmod(shift, tensor.element_size())
    if rest:
        return tensor.detach().clone()
    copy = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(
        memory.untyped_storage(), first + tensor.storage_offset(), tensor.shape, tensor.stride()
    )
    if tensor.is_conj():
        copy = copy.conj()
    return neg_view(copy) if tensor.is_neg() else copy
