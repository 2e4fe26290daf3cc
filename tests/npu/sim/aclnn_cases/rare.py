"""Operators that few models use."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from aclnn_cases.maker import ALL, FLOATS, INTS, NUMBERS, Case, cube, image, pair, positive, unit

CASES: dict[str, Case] = {}

CASES |= {
    "adaptive_avg_pool3d": Case(
        lambda x: F.adaptive_avg_pool3d(x, 2), lambda m: (m(1, 2, 4, 4, 4),), ("float32",)
    ),
    "avg_pool3d": Case(lambda x: F.avg_pool3d(x, 2), lambda m: (m(1, 2, 4, 4, 4),), ("float32",)),
    "celu_": Case(lambda x: F.celu_(x, 1.2)),
    "round_ decimals": Case(lambda x: x.round_(decimals=2)),
    "xlogy_ scalar": Case(lambda x: x.xlogy_(2.0)),
    "scalar xlogy": Case(lambda x: torch.xlogy(2.0, x), positive),
    "angle": Case(torch.angle, dtypes=("float32",)),
    "bitwise left scalar": Case(lambda x: x << 2, dtypes=INTS),
    "scalar isin": Case(lambda x: torch.isin(2, x), dtypes=INTS),
    "logspace": Case(
        lambda x: torch.logspace(0, 2, 5, dtype=x.dtype, device=x.device), dtypes=("float32",)
    ),
    "range": Case(
        lambda x: torch.range(1, 5, 2, dtype=x.dtype, device=x.device), dtypes=("float32",)
    ),
    "nll_loss 2d": Case(F.nll_loss, lambda m: (m(2, 3, 4, 4), m.index(3, 2, 4, 4)), ("float32",)),
    "nanmedian": Case(torch.nanmedian, lambda m: (m(5),), ("float32",)),
    "nanmedian dim": Case(
        lambda x: tuple(torch.nanmedian(x, 1)), lambda m: (m(3, 5),), ("float32",)
    ),
    "renorm embedding": Case(
        lambda i, w: F.embedding(i, w, max_norm=1.0),
        lambda m: (m.index(5, 2, 3), m(5, 4)),
        ("float32",),
    ),
    "scatter_reduce_": Case(
        lambda x, i, s: x.scatter_reduce_(1, i, s, "amax"),
        lambda m: (m(3, 4), m.index(4, 3, 2), m(3, 2)),
        ("float32",),
    ),
    "split out": Case(lambda x: torch.split_with_sizes_copy(x, [1, 3], 1), dtypes=FLOATS),
    "unique dim": Case(lambda x: torch.unique(x, dim=0), lambda m: (m(6, 1),), ("int64",)),
    "upsample nearest 1d": Case(lambda x: F.interpolate(x, scale_factor=2), cube),
    "complex": Case(torch.complex, pair, ("float32",)),
    "norm p 3": Case(lambda x: x.norm(3)),
    "sub scalar": Case(lambda x: torch.sub(x, 2, alpha=3), dtypes=NUMBERS),
    "_add_relu": Case(torch.ops.aten._add_relu.Tensor, pair, ("float32",)),
    "_add_relu_": Case(torch.ops.aten._add_relu_.Tensor, pair, ("float32",)),
    "scalar tensor add": Case(lambda x: torch.tensor(2.0) + x),
    "aminmax whole": Case(torch.ops.aten._aminmax, dtypes=("float32",)),
    "aminmax one": Case(lambda x: torch.ops.aten._aminmax.dim(x, 1), dtypes=("float32",)),
    "clamp_max only": Case(lambda x: torch.clamp_max(x, 0), dtypes=NUMBERS),
    "clamp_max only tensor": Case(torch.clamp_max, pair, NUMBERS),
    "clamp_min only tensor": Case(torch.clamp_min, pair, NUMBERS),
    "searchsorted scalar": Case(
        lambda x: torch.searchsorted(x, 0.5), lambda m: (m(5).sort().values,), ("float32",)
    ),
    "_unique": Case(lambda x: torch._unique(x)[0], lambda m: (m(20),), INTS),
    "polar": Case(lambda x, y: torch.view_as_real(torch.polar(x.abs(), y)), pair, ("float32",)),
    "dist": Case(torch.dist, pair, ("float32",)),
    "renorm": Case(lambda x: torch.renorm(x, 2, 0, 1.0), dtypes=("float32",)),
    "renorm_": Case(lambda x: x.renorm_(2, 0, 1.0), dtypes=("float32",)),
    "rrelu": Case(F.rrelu),
    "rrelu_": Case(lambda x: F.rrelu(x, inplace=True)),
    "soft_margin_loss": Case(
        lambda x: F.soft_margin_loss(x, torch.ones_like(x)), dtypes=("float32",)
    ),
    "cross": Case(torch.linalg.cross, lambda m: (m(4, 3), m(4, 3)), ("float32",)),
    "inverse": Case(
        lambda x: torch.inverse(x + 9 * torch.eye(3, device=x.device)),
        lambda m: (m(3, 3),),
        ("float32",),
    ),
    "max_pool3d": Case(lambda x: F.max_pool3d(x, 2), lambda m: (m(1, 2, 4, 4, 4),), ("float32",)),
    "fold": Case(lambda x: F.fold(x, (4, 4), (2, 2)), lambda m: (m(1, 12, 9),), ("float32",)),
    "grid_sample": Case(
        lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
        lambda m: (m(2, 3, 6, 8), m(2, 4, 4, 2)),
        ("float32",),
    ),
    "affine_grid": Case(
        lambda x: F.affine_grid(x, (2, 3, 4, 4), align_corners=False),
        lambda m: (m(2, 2, 3),),
        ("float32",),
    ),
    "reflection_pad3d": Case(
        lambda x: F.pad(x, (1,) * 6, mode="reflect"), lambda m: (m(1, 2, 3, 3, 3),), ("float32",)
    ),
    "replication_pad3d": Case(
        lambda x: F.pad(x, (1,) * 6, mode="replicate"), lambda m: (m(1, 2, 3, 3, 3),), ("float32",)
    ),
    "interpolate bicubic": Case(
        lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), image, ("float32",), 1e-3
    ),
    "interpolate linear": Case(
        lambda x: F.interpolate(x, scale_factor=2, mode="linear"), cube, ("float32",), 1e-3
    ),
    "interpolate trilinear": Case(
        lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"),
        lambda m: (m(1, 2, 3, 4, 4),),
        ("float32",),
        1e-3,
    ),
    "index_fill tensor": Case(
        lambda x, i, v: x.index_fill(1, i, v), lambda m: (m(5, 4), m.places(4, 2), m()), NUMBERS
    ),
    "repeat_interleave counts": Case(
        torch.repeat_interleave, lambda m: (m.index(4, 5),), ("int64",)
    ),
    "repeat_interleave flat tensor": Case(
        lambda x: torch.repeat_interleave(x, torch.tensor([1, 0, 2], device=x.device)),
        lambda m: (m(3),),
        ALL,
    ),
    "foreach pow of scalar": Case(lambda x, y: torch._foreach_pow(2.0, [x, y]), pair),
    "foreach lerp list": Case(
        lambda x, y, z: torch._foreach_lerp([x], [y], [z]), lambda m: (m(4), m(4), m(4))
    ),
}
for _name in ["cos", "cosh", "erf", "erfc", "expm1", "sign", "sin", "sinh", "tan", "tanh", "atan"]:
    CASES[f"foreach {_name}"] = Case(
        lambda x, y, _n=f"_foreach_{_name}": getattr(torch, _n)([x, y]), pair
    )
for _name in ["log", "log10", "log1p", "log2"]:
    CASES[f"foreach {_name}"] = Case(
        lambda x, _n=f"_foreach_{_name}": getattr(torch, _n)([x]), positive
    )
for _name in ["ceil", "floor", "round", "trunc", "frac"]:
    CASES[f"foreach {_name}"] = Case(lambda x, _n=f"_foreach_{_name}": getattr(torch, _n)([x]))
for _name in ["acos", "asin"]:
    CASES[f"foreach {_name}"] = Case(
        lambda x, _n=f"_foreach_{_name}": getattr(torch, _n)([x]), unit
    )
