"""Tensors as bytes, in the safetensors format, without numpy and without pickle.

Format (https://huggingface.co/docs/safetensors, "Format"): eight bytes, little-endian, with the
length of the header; the header, JSON, with dtype, shape and byte range of each tensor; the bytes.
The core depends on torch alone, which is why this is not the ``safetensors`` package; a test reads
these files with it.

The format knows no strides. A tensor is stored as the one-dimensional run of elements it spans, and
its shape and stride are kept beside it by the caller (``layout_of`` and ``with_layout``).
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from collections.abc import Mapping

import torch

from xpu_graph.errors import CacheError, NotCacheable

_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


def layout_of(tensor: torch.Tensor) -> dict[str, object]:
    """What ``with_layout`` needs to lay the stored elements out again: shape, stride, device."""
    return {
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "device": str(tensor.device),
    }


def span_of(tensor: torch.Tensor) -> torch.Tensor:
    """The elements a strided tensor spans in memory, as one dimension.

    Raises:
        NotCacheable: the tensor is not an ordinary strided one, or of a dtype the format lacks.
    """
    if tensor.layout != torch.strided or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        raise NotCacheable(f"a constant is a {type(tensor).__name__} of layout {tensor.layout}")
    if tensor.device.type == "meta":
        raise NotCacheable("a constant is on the meta device, where it has no content")
    if tensor.is_conj() or tensor.is_neg():
        raise NotCacheable("a constant has a lazy conjugate or negative bit")
    if tensor.dtype not in _NAMES:
        raise NotCacheable(f"a constant has dtype {tensor.dtype}, which has no stored form")
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    length = 1 + sum((size - 1) * stride for size, stride in steps) if tensor.numel() else 0
    return tensor.detach().as_strided((length,), (1,), tensor.storage_offset())


def with_layout(span: torch.Tensor, layout: Mapping[str, object]) -> torch.Tensor:
    """The inverse of ``span_of`` and ``layout_of``."""
    flat = span.to(str(layout["device"]))
    return flat.as_strided(layout["shape"], layout["stride"])  # type: ignore[arg-type]


def raw_bytes(span: torch.Tensor) -> memoryview:
    """The bytes of a contiguous tensor, in this machine's order; nothing is copied on a CPU."""
    held = span.detach().cpu().contiguous()
    window = (ctypes.c_char * (held.numel() * held.element_size())).from_address(held.data_ptr())
    window.tensor = held  # type: ignore[attr-defined]  # whoever holds the window holds the memory
    return memoryview(window)


def encode_tensors(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """Write contiguous tensors as one safetensors file.

    Raises:
        NotCacheable: a tensor has a dtype the format lacks, or this machine another byte order.
    """
    if sys.byteorder != "little":
        raise NotCacheable("constants are stored in little-endian order, this machine has another")
    header: dict[str, dict[str, object]] = {}
    parts: list[bytes | memoryview] = []
    offset = 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise NotCacheable(f"a constant has dtype {tensor.dtype}, which has no stored form")
        data = raw_bytes(tensor)
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        parts.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([struct.pack("<Q", len(text)), text, *parts])


def decode_tensors(data: bytes) -> dict[str, torch.Tensor]:
    """Read what ``encode_tensors`` wrote.

    Raises:
        CacheError: the bytes are not a whole safetensors file, or this machine has another byte
            order.
    """
    if sys.byteorder != "little":
        raise CacheError("constants are stored in little-endian order, this machine has another")
    try:
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        start = 8 + length
        tensors = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            dtype = _DTYPES[entry["dtype"]]
            first, last = entry["data_offsets"]
            piece = bytearray(data[start + first : start + last])
            if len(piece) != last - first:
                raise CacheError(f"tensor {name!r} is cut short")
            flat = torch.frombuffer(piece, dtype=dtype) if piece else torch.empty(0, dtype=dtype)
            tensors[name] = flat.reshape(entry["shape"])
    except CacheError:
        raise
    except (
        *(struct.error, LookupError, ValueError, TypeError),
        *(AttributeError, RuntimeError),
    ) as error:
        raise CacheError(f"not a safetensors file: {error}") from error
    return tensors
