"""Tensors as bytes: every dtype and layout comes back, and others can read the files."""

import hashlib
import json
import struct
import sys

import pytest
import torch

from xpu_graph import tensor_codec
from xpu_graph.errors import CacheError, NotCacheable
from xpu_graph.tensor_codec import (
    decode_tensors,
    encode_tensors,
    layout_of,
    raw_bytes,
    span_of,
    with_layout,
)

DTYPES = list(tensor_codec._NAMES)


def sample(dtype, count=6):
    if dtype.is_complex:
        return torch.arange(2.0 * count).view(count, 2).to(torch.float32).view(dtype).view(-1)
    return torch.arange(count).to(dtype)


def round_trip(tensor):
    stored = encode_tensors({"t": span_of(tensor)})
    return with_layout(decode_tensors(stored)["t"], json.loads(json.dumps(layout_of(tensor))))


def assert_equal_bits(got, want):
    assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
    assert bytes(raw_bytes(got)) == bytes(raw_bytes(want))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype):
    tensor = sample(dtype)
    assert_equal_bits(round_trip(tensor), tensor)


LAYOUTS = {
    "scalar": torch.tensor(3.5),
    "empty": torch.empty(0),
    "empty with a shape": torch.empty(3, 0, 2),
    "expanded": torch.tensor([[1.0], [2.0]]).expand(2, 5),
    "expanded scalar": torch.tensor(7.0).expand(2, 3),
    "transposed": torch.arange(6.0).view(2, 3).t(),
    "offset": torch.arange(9.0)[3:].view(2, 3),
    "steps": torch.arange(12.0).view(3, 4)[::2, 1::2],
    "channels last": torch.arange(24.0).view(1, 2, 3, 4).to(memory_format=torch.channels_last),
    "overlapping": torch.arange(5.0).as_strided((3, 3), (1, 1)),
    "parameter": torch.nn.Parameter(torch.ones(2)),
    "special": torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan")]),
}


@pytest.mark.parametrize("tensor", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_every_layout(tensor):
    assert_equal_bits(round_trip(tensor), tensor)


def test_no_more_than_the_span_is_stored():
    part = torch.arange(1000.0)[10:20:3]
    assert len(raw_bytes(span_of(part))) == 4 * 10
    assert len(raw_bytes(span_of(torch.zeros(1).expand(1000)))) == 4


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(2, dtype=torch.complex64).conj(),
        torch.ones(2, dtype=torch.complex64).conj().imag,
        torch.ones(2).to_sparse(),
        torch.ones(2, dtype=torch.complex128),
        torch.empty(2, device="meta"),
        torch.nn.parameter.UninitializedParameter(),
    ],
    ids=["conj", "neg", "sparse", "complex128", "meta", "uninitialised"],
)
def test_what_has_no_form_is_refused(tensor):
    with pytest.raises(NotCacheable):
        span_of(tensor)


def test_bytes_are_not_copied_and_live_as_long_as_they_are_held():
    tensor = torch.arange(4, dtype=torch.uint8)
    window = raw_bytes(tensor)
    tensor[0] = 9
    assert bytes(window) == b"\x09\x01\x02\x03"
    digest = hashlib.sha256(window).hexdigest()
    del tensor
    torch.full((4,), 7, dtype=torch.uint8)
    assert hashlib.sha256(window).hexdigest() == digest


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_safetensors_package_reads_it(dtype):
    safetensors = pytest.importorskip("safetensors.torch")
    tensors = {"a": sample(dtype), "b": torch.empty(0, dtype=dtype), "c": sample(dtype, 1)}
    loaded = safetensors.load(encode_tensors(tensors))
    assert sorted(loaded) == ["a", "b", "c"]
    for name, tensor in tensors.items():
        assert_equal_bits(loaded[name], tensor)


def test_what_the_safetensors_package_writes_is_read():
    safetensors = pytest.importorskip("safetensors.torch")
    tensors = {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([True])}
    loaded = decode_tensors(safetensors.save(tensors, metadata={"made": "elsewhere"}))
    assert sorted(loaded) == ["a", "b"]
    for name, tensor in tensors.items():
        assert_equal_bits(loaded[name], tensor)


def test_the_bytes_are_little_endian():
    data = encode_tensors({"t": torch.tensor([1], dtype=torch.int32)})
    assert data.endswith(b"\x01\x00\x00\x00")
    assert struct.unpack_from("<Q", data)[0] % 8 == 0


def test_a_machine_of_another_byte_order_keeps_nothing(monkeypatch):
    data = encode_tensors({"t": torch.ones(1)})
    monkeypatch.setattr(sys, "byteorder", "big")
    with pytest.raises(NotCacheable):
        encode_tensors({"t": torch.ones(1)})
    with pytest.raises(CacheError):
        decode_tensors(data)


def file_of(header, content=b""):
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text)) + text + content


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1234567",
        struct.pack("<Q", 2**63),
        file_of(b"not json"),
        file_of([]),
        file_of({"t": []}),
        file_of({"t": ENTRY}),
        file_of({"t": ENTRY}, b"1234567"),
        file_of({"t": {**ENTRY, "dtype": "F33"}}, b"12345678"),
        file_of({"t": {**ENTRY, "shape": [3]}}, b"12345678"),
        file_of({"t": {**ENTRY, "shape": "2"}}, b"12345678"),
        file_of({"t": {**ENTRY, "data_offsets": [0]}}, b"12345678"),
        file_of({"t": {**ENTRY, "data_offsets": [0, 7]}}, b"12345678"),
        file_of({"t": {**ENTRY, "data_offsets": ["0", "8"]}}, b"12345678"),
        file_of({"t": {"shape": [2]}}, b"12345678"),
    ],
)
def test_what_is_no_safetensors_file(data):
    with pytest.raises(CacheError):
        decode_tensors(data)
