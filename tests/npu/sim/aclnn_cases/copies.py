"""Copies, constants, and operators that move elements by shape."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from aclnn_cases.maker import ALL, BOOL, FLOATS, INTS, NUMBERS, Case, cube, image, pair

CASES: dict[str, Case] = {}

for _name in FLOATS + INTS + BOOL:
    CASES[f"to {_name}"] = Case(lambda x, _n=_name: x.to(getattr(torch, _n)), dtypes=ALL)
CASES |= {
    "clone": Case(torch.clone, lambda m: (m.turned(3, 4),), ALL),
    "contiguous": Case(lambda x: x.contiguous(), lambda m: (m.turned(2, 3, 4),), ALL),
    "contiguous cut": Case(lambda x: x.contiguous(), lambda m: (m.cut(2, 3, 4),), ALL),
    "contiguous expand": Case(lambda x: x.expand(3, 4).contiguous(), lambda m: (m(1, 4),), ALL),
    "contiguous permute": Case(lambda x: x.permute(2, 0, 1).contiguous(), cube, ALL),
    "reshape view": Case(lambda x: x.reshape(-1), lambda m: (m.turned(3, 4),), ALL),
    "copy_": Case(lambda x, y: x.copy_(y), pair, ALL),
    "copy_ broadcast": Case(lambda x, y: x.copy_(y), lambda m: (m(3, 4), m(4)), ALL),
    "copy_ other type": Case(lambda x, y: x.copy_(y), lambda m: (m(3, 4), m.index(9, 3, 4))),
    "copy_ into view": Case(lambda x, y: x.t().copy_(y), lambda m: (m(4, 3), m(3, 4)), ALL),
    "slice assign": Case(
        lambda x, y: x[:, 1:3].copy_(y).sum() + x.sum(), lambda m: (m(3, 4), m(3, 2)), FLOATS
    ),
    "setitem": Case(
        lambda x, y: (x.__setitem__((slice(None), slice(0, 4, 2)), y), x)[1],
        lambda m: (m(3, 4), m(3, 2)),
        ALL,
    ),
    "setitem scalar": Case(lambda x: (x.__setitem__((0, slice(1, 3)), 1), x)[1], dtypes=ALL),
    "zero_": Case(lambda x: x.zero_(), dtypes=ALL),
    "fill_": Case(lambda x: x.fill_(1), dtypes=ALL),
    "fill_ tensor": Case(lambda x, y: x.fill_(y), lambda m: (m(3, 4), m()), ALL),
    "fill_diagonal_": Case(lambda x: x.fill_diagonal_(1), dtypes=FLOATS),
    "masked_fill": Case(lambda x, c: x.masked_fill(c, 1), lambda m: (m(3, 4), m.mask(4)), ALL),
    "masked_fill -inf": Case(
        lambda x, c: x.masked_fill(c, float("-inf")), lambda m: (m(3, 4), m.mask(3, 1))
    ),
    "masked_fill tensor": Case(
        lambda x, c, v: x.masked_fill(c, v), lambda m: (m(3, 4), m.mask(3, 4), m()), ALL
    ),
    "masked_fill_": Case(lambda x, c: x.masked_fill_(c, 1), lambda m: (m(3, 4), m.mask(4)), ALL),
    "masked_scatter": Case(
        lambda x, c, s: x.masked_scatter(c, s), lambda m: (m(3, 4), m.mask(3, 4), m(12)), FLOATS
    ),
    "zeros_like": Case(torch.zeros_like, dtypes=ALL),
    "ones_like": Case(torch.ones_like, dtypes=ALL),
    "full_like": Case(lambda x: torch.full_like(x, 3), dtypes=NUMBERS),
    "new_zeros": Case(lambda x: x.new_zeros(2, 3), dtypes=ALL),
    "new_ones": Case(lambda x: x.new_ones(2, 3), dtypes=ALL),
    "new_full": Case(lambda x: x.new_full((2, 3), 1), dtypes=ALL),
    "zeros": Case(lambda x: torch.zeros(2, 3, dtype=x.dtype, device=x.device), dtypes=ALL),
    "ones": Case(lambda x: torch.ones(2, 3, dtype=x.dtype, device=x.device), dtypes=ALL),
    "full": Case(lambda x: torch.full((2, 3), 1, dtype=x.dtype, device=x.device), dtypes=ALL),
    "eye": Case(lambda x: torch.eye(3, 4, dtype=x.dtype, device=x.device), dtypes=FLOATS),
    "arange": Case(lambda x: torch.arange(2, 9, 3, dtype=x.dtype, device=x.device), dtypes=NUMBERS),
    "arange long": Case(lambda x: torch.arange(5, device=x.device), dtypes=("int64",)),
    "linspace": Case(
        lambda x: torch.linspace(0, 1, 5, dtype=x.dtype, device=x.device), dtypes=("float32",)
    ),
    "scalar_tensor": Case(lambda x: torch.scalar_tensor(2, dtype=x.dtype, device=x.device)),
    "item": Case(lambda x: x.item(), lambda m: (m(),), ALL),
    "tolist": Case(lambda x: x.tolist(), dtypes=ALL),
}

CASES |= {
    "cat": Case(lambda x, y: torch.cat([x, y], 1), lambda m: (m(3, 4), m.turned(3, 2)), ALL),
    "cat empty": Case(lambda x, y: torch.cat([x, y], 0), lambda m: (m(3, 4), m(0, 4)), ALL),
    "cat out": Case(lambda x: torch.cat([x, x], 0, out=x.new_empty(6, 4)), dtypes=ALL),
    "stack": Case(lambda x, y: torch.stack([x, y], 1), pair, ALL),
    "split": Case(lambda x: [p.contiguous() for p in torch.split(x, 2, 1)], dtypes=ALL),
    "chunk": Case(lambda x: [p * 1 for p in torch.chunk(x, 2, -1)], dtypes=NUMBERS),
    "repeat": Case(lambda x: x.repeat(2, 1, 3), dtypes=ALL),
    "tile": Case(lambda x: torch.tile(x, (2, 2)), dtypes=ALL),
    "repeat_interleave": Case(lambda x: torch.repeat_interleave(x, 2, 1), dtypes=ALL),
    "repeat_interleave flat": Case(lambda x: torch.repeat_interleave(x, 2), dtypes=ALL),
    "repeat_interleave tensor": Case(
        lambda x: torch.repeat_interleave(x, torch.tensor([1, 0, 2], device=x.device), 0),
        dtypes=ALL,
    ),
    "roll": Case(lambda x: torch.roll(x, (1, 2), (0, 1)), dtypes=ALL),
    "roll flat": Case(lambda x: torch.roll(x, 2), dtypes=ALL),
    "flip": Case(lambda x: torch.flip(x, (0, -1)), dtypes=ALL),
    "triu": Case(lambda x: torch.triu(x, 1), dtypes=ALL),
    "tril": Case(torch.tril, dtypes=ALL),
    "triu_": Case(lambda x: x.triu_(1), dtypes=ALL),
    "tril_": Case(lambda x: x.tril_(-1), dtypes=ALL),
    "constant_pad": Case(lambda x: F.pad(x, (1, 2, 0, 1), value=2), dtypes=NUMBERS),
    "reflection_pad1d": Case(lambda x: F.pad(x, (1, 2), mode="reflect"), cube),
    "reflection_pad2d": Case(lambda x: F.pad(x, (1, 2, 1, 1), mode="reflect"), image),
    "replication_pad1d": Case(lambda x: F.pad(x, (1, 2), mode="replicate"), cube),
    "replication_pad2d": Case(lambda x: F.pad(x, (1, 2, 1, 1), mode="replicate"), image),
    "diag_embed": Case(torch.diag_embed, dtypes=FLOATS),
    "meshgrid": Case(
        lambda x, y: [p.clone() for p in torch.meshgrid(x, y, indexing="ij")],
        lambda m: (m(3), m(4)),
    ),
    "unfold": Case(lambda x: x.unfold(1, 2, 1).contiguous(), dtypes=ALL),
    "im2col": Case(lambda x: F.unfold(x, (2, 2)), image),
    "outer": Case(torch.outer, lambda m: (m(3), m(4))),
    "broadcast_to": Case(lambda x: torch.broadcast_to(x, (2, 3, 4)) * 1, dtypes=NUMBERS),
}
