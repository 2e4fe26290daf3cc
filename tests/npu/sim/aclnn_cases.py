"""Calls of operators that reach an aclnn function, by name: what is called, on what, in which types."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

FLOATS = ("float32", "float16", "bfloat16")
INTS = ("int64", "int32")
BOOL = ("bool",)
NUMBERS = FLOATS + INTS
ALL = NUMBERS + BOOL


class Maker:
    """Makes CPU inputs of one data type, the same ones for a seed."""

    def __init__(self, dtype: torch.dtype, seed: int = 0) -> None:
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape: int) -> torch.Tensor:
        """Values around zero."""
        if self.dtype.is_floating_point:
            return torch.randn(shape, generator=self.generator).to(self.dtype)
        low, high = (0, 2) if self.dtype == torch.bool else (-5, 6)
        return torch.randint(low, high, shape, generator=self.generator).to(self.dtype)

    def positive(self, *shape: int) -> torch.Tensor:
        """Values from one to four, integers for integer types."""
        values = torch.rand(shape, generator=self.generator) * 3 + 1
        return values.to(self.dtype)

    def unit(self, *shape: int) -> torch.Tensor:
        """Values between zero and one, the ends excluded."""
        return (torch.rand(shape, generator=self.generator) * 0.8 + 0.1).to(self.dtype)

    def index(self, limit: int, *shape: int) -> torch.Tensor:
        """Integers from zero to the limit."""
        return torch.randint(0, limit, shape, generator=self.generator)

    def places(self, limit: int, count: int) -> torch.Tensor:
        """Different integers from zero to the limit."""
        return torch.randperm(limit, generator=self.generator)[:count]

    def mask(self, *shape: int) -> torch.Tensor:
        """Bools."""
        return torch.randint(0, 2, shape, generator=self.generator).bool()

    def turned(self, *shape: int) -> torch.Tensor:
        """A transposed view of a matrix."""
        return self(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2)

    def cut(self, *shape: int) -> torch.Tensor:
        """Every second element of the last dimension, from the second on."""
        return self(*shape[:-1], shape[-1] * 2 + 1)[..., 1::2]


@dataclasses.dataclass(frozen=True)
class Case:
    """One call.

    Args:
        call: what is called, with the inputs.
        inputs: makes them, of a :class:`Maker`.
        dtypes: names of the data types it is called with.
        loose: a tolerance for float32 that is wider than the usual one; 0 for the usual one.
    """

    call: Callable[..., Any]
    inputs: Callable[[Maker], tuple[Any, ...]] = lambda m: (m(3, 4),)
    dtypes: tuple[str, ...] = FLOATS
    loose: float = 0.0


def pair(m: Maker) -> tuple[Any, ...]:
    return m(3, 4), m(3, 4)


def spread(m: Maker) -> tuple[Any, ...]:
    return m(2, 3, 4), m(3, 1)


def divisors(m: Maker) -> tuple[Any, ...]:
    return m(3, 4), m.positive(3, 4)


def positive(m: Maker) -> tuple[Any, ...]:
    return (m.positive(3, 4),)


def unit(m: Maker) -> tuple[Any, ...]:
    return (m.unit(3, 4),)


def cube(m: Maker) -> tuple[Any, ...]:
    return (m(2, 3, 4),)


def image(m: Maker) -> tuple[Any, ...]:
    return (m(2, 3, 6, 8),)


CASES: dict[str, Case] = {}

# --- one tensor -------------------------------------------------------------------------------

for _name in [
    "abs",
    "neg",
    "relu",
    "sigmoid",
    "tanh",
    "exp",
    "exp2",
    "expm1",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "atan",
    "asinh",
    "erf",
    "erfc",
    "ceil",
    "floor",
    "round",
    "trunc",
    "frac",
    "sign",
    "reciprocal",
    "square",
    "sinc",
]:
    CASES[_name] = Case(getattr(torch, _name))
for _name in [
    "neg",
    "relu",
    "sigmoid",
    "tanh",
    "exp",
    "exp2",
    "expm1",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "atan",
    "asinh",
    "erf",
    "erfc",
]:
    CASES[f"{_name}_"] = Case(getattr(torch, f"{_name}_"))
for _name in ["ceil", "floor", "trunc", "frac", "reciprocal", "abs", "round", "sign", "sinc"]:
    CASES[f"{_name}_"] = Case(lambda x, _n=f"{_name}_": getattr(x, _n)())
for _name in ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "acosh"]:
    CASES[_name] = Case(getattr(torch, _name), positive)
    CASES[f"{_name}_"] = Case(lambda x, _n=f"{_name}_": getattr(x, _n)(), positive)
for _name in ["asin", "acos", "atanh", "erfinv", "logit"]:
    CASES[_name] = Case(getattr(torch, _name), unit)
    CASES[f"{_name}_"] = Case(lambda x, _n=f"{_name}_": getattr(x, _n)(), unit)
for _name in ["isfinite", "isnan", "isinf", "signbit", "isneginf", "isposinf"]:
    CASES[_name] = Case(
        getattr(torch, _name),
        lambda m: (torch.tensor([1.0, float("nan"), float("inf"), -float("inf")]).to(m.dtype),),
    )
CASES |= {
    "round decimals": Case(lambda x: torch.round(x, decimals=2)),
    "nan_to_num": Case(
        torch.nan_to_num, lambda m: (torch.tensor([1.0, float("nan"), float("inf")]).to(m.dtype),)
    ),
    "nan_to_num_": Case(
        lambda x: x.nan_to_num_(1.0, 2.0, 3.0),
        lambda m: (torch.tensor([1.0, float("nan"), float("inf")]).to(m.dtype),),
    ),
    "logical_not": Case(torch.logical_not, dtypes=ALL),
    "logical_not_": Case(lambda x: x.logical_not_(), dtypes=ALL),
    "bitwise_not": Case(torch.bitwise_not, dtypes=INTS + BOOL),
    "abs int": Case(torch.abs, dtypes=INTS),
    "neg int": Case(torch.neg, dtypes=INTS),
    "sqrt int": Case(torch.sqrt, positive, INTS),
    "exp int": Case(torch.exp, dtypes=("int64", "bool")),
    "exp view": Case(torch.exp, lambda m: (m.turned(3, 4),)),
    "exp cut": Case(torch.exp, lambda m: (m.cut(3, 4),)),
    "exp empty": Case(torch.exp, lambda m: (m(0, 4),)),
    "exp scalar": Case(torch.exp, lambda m: (m(),)),
    "exp_ cut": Case(lambda x: x[:, 1::2].exp_(), lambda m: (m(3, 8),)),
    "exp out": Case(lambda x: torch.exp(x, out=torch.empty_like(x))),
    "silu": Case(F.silu),
    "silu_": Case(lambda x: F.silu(x, inplace=True)),
    "gelu": Case(F.gelu),
    "fast_gelu": Case(lambda x: x * torch.sigmoid(1.702 * x)),
    "mish": Case(F.mish),
    "mish_": Case(lambda x: F.mish(x, inplace=True)),
    "leaky_relu": Case(lambda x: F.leaky_relu(x, 0.1)),
    "leaky_relu_": Case(lambda x: F.leaky_relu_(x, 0.1)),
    "elu": Case(lambda x: F.elu(x, 1.2)),
    "elu_": Case(lambda x: F.elu_(x, 1.2)),
    "selu": Case(F.selu),
    "celu": Case(lambda x: F.celu(x, 1.2)),
    "relu6": Case(F.relu6),
    "hardtanh": Case(F.hardtanh),
    "hardtanh_": Case(F.hardtanh_),
    "hardswish": Case(F.hardswish),
    "hardswish_": Case(lambda x: F.hardswish(x, inplace=True)),
    "hardsigmoid": Case(F.hardsigmoid),
    "hardsigmoid_": Case(lambda x: F.hardsigmoid(x, inplace=True)),
    "hardshrink": Case(F.hardshrink),
    "softshrink": Case(F.softshrink),
    "tanhshrink": Case(F.tanhshrink),
    "softsign": Case(F.softsign),
    "softplus": Case(F.softplus),
    "logsigmoid": Case(F.logsigmoid),
    "threshold": Case(lambda x: F.threshold(x, 0.1, 20.0)),
    "threshold_": Case(lambda x: F.threshold_(x, 0.1, 20.0)),
    "glu": Case(F.glu),
    "prelu": Case(F.prelu, lambda m: (m(2, 3, 4), m(3))),
}

# --- two tensors ------------------------------------------------------------------------------

for _name in ["add", "sub", "mul", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge"]:
    _dtypes = ALL if _name not in ("sub",) else NUMBERS
    CASES[_name] = Case(getattr(torch, _name), pair, _dtypes)
    CASES[f"{_name} broadcast"] = Case(getattr(torch, _name), spread)
for _name in ["eq", "ne", "lt", "le", "gt", "ge"]:
    CASES[f"{_name} scalar"] = Case(lambda x, _n=_name: getattr(torch, _n)(x, 1), dtypes=NUMBERS)
    CASES[f"{_name}_"] = Case(lambda x, y, _n=f"{_name}_": getattr(x, _n)(y), pair, NUMBERS)
    CASES[f"{_name}_ scalar"] = Case(lambda x, _n=f"{_name}_": getattr(x, _n)(1), dtypes=NUMBERS)
for _name in ["div", "floor_divide", "remainder", "fmod"]:
    CASES[_name] = Case(getattr(torch, _name), divisors, NUMBERS)
    CASES[f"{_name} scalar"] = Case(lambda x, _n=_name: getattr(torch, _n)(x, 2), dtypes=NUMBERS)
    CASES[f"{_name}_"] = Case(lambda x, y, _n=f"{_name}_": getattr(x, _n)(y), divisors)
    CASES[f"{_name}_ scalar"] = Case(lambda x, _n=f"{_name}_": getattr(x, _n)(2.0))
for _name in ["add_", "sub_", "mul_"]:
    CASES[_name] = Case(lambda x, y, _n=_name: getattr(x, _n)(y), pair, NUMBERS)
    CASES[f"{_name} scalar"] = Case(lambda x, _n=_name: getattr(x, _n)(2), dtypes=NUMBERS)
    CASES[f"{_name} broadcast"] = Case(lambda x, y, _n=_name: getattr(x, _n)(y), spread, NUMBERS)
for _name in ["and", "or", "xor"]:
    CASES[f"logical_{_name}"] = Case(getattr(torch, f"logical_{_name}"), pair, ALL)
    CASES[f"logical_{_name}_"] = Case(
        lambda x, y, _n=f"logical_{_name}_": getattr(x, _n)(y), pair, INTS + BOOL
    )
    CASES[f"bitwise_{_name}"] = Case(getattr(torch, f"bitwise_{_name}"), pair, INTS + BOOL)
    CASES[f"bitwise_{_name} scalar"] = Case(
        lambda x, _n=f"bitwise_{_name}": getattr(torch, _n)(x, 3), dtypes=INTS
    )
    CASES[f"bitwise_{_name}_"] = Case(
        lambda x, y, _n=f"bitwise_{_name}_": getattr(x, _n)(y), pair, INTS + BOOL
    )
    CASES[f"bitwise_{_name}_ scalar"] = Case(
        lambda x, _n=f"bitwise_{_name}_": getattr(x, _n)(3), dtypes=INTS
    )
for _name in ["addcmul", "addcdiv"]:
    CASES[_name] = Case(
        lambda x, a, b, _n=_name: getattr(torch, _n)(x, a, b, value=0.5),
        lambda m: (m(3, 4), m(3, 4), m.positive(4)),
    )
    CASES[f"{_name}_"] = Case(
        lambda x, a, b, _n=f"{_name}_": getattr(x, _n)(a, b, value=0.5),
        lambda m: (m(3, 4), m(3, 4), m.positive(4)),
    )
CASES |= {
    "add alpha": Case(lambda x, y: torch.add(x, y, alpha=2), pair, NUMBERS),
    "add scalar": Case(lambda x: x + 2, dtypes=NUMBERS),
    "scalar add": Case(lambda x: 2 + x, dtypes=NUMBERS),
    "add mixed": Case(lambda x, y: x + y, lambda m: (m(3, 4), m.index(9, 3, 4))),
    "add strided": Case(torch.add, lambda m: (m.turned(3, 4), m.cut(3, 4)), NUMBERS),
    "add out": Case(lambda x, y: torch.add(x, y, out=torch.empty_like(x)), pair, NUMBERS),
    "add out strided": Case(
        lambda x, y: torch.add(x, y, out=torch.empty_like(x.t()).t()), pair, NUMBERS
    ),
    "add empty": Case(torch.add, lambda m: (m(0, 4), m(4)), NUMBERS),
    "add 0-dim": Case(torch.add, lambda m: (m(3, 4), m()), NUMBERS),
    "rsub": Case(lambda x: 1 - x, dtypes=NUMBERS),
    "rsub tensor": Case(lambda x, y: torch.rsub(x, y), pair, NUMBERS),
    "div trunc": Case(lambda x, y: torch.div(x, y, rounding_mode="trunc"), divisors, NUMBERS),
    "div floor": Case(lambda x, y: torch.div(x, y, rounding_mode="floor"), divisors, NUMBERS),
    "div floor scalar": Case(lambda x: torch.div(x, 2, rounding_mode="floor"), dtypes=NUMBERS),
    "div_ floor": Case(lambda x, y: x.div_(y, rounding_mode="floor"), divisors, NUMBERS),
    "div_ trunc scalar": Case(lambda x: x.div_(2, rounding_mode="trunc"), dtypes=NUMBERS),
    "scalar div": Case(lambda x: 1.0 / x, positive),
    "pow scalar": Case(lambda x: torch.pow(x, 3), dtypes=NUMBERS),
    "pow half": Case(lambda x: torch.pow(x, 0.5), positive),
    "pow tensor": Case(torch.pow, lambda m: (m.positive(3, 4), m.positive(3, 4)), NUMBERS),
    "scalar pow": Case(lambda x: torch.pow(2, x), positive, NUMBERS),
    "pow_ scalar": Case(lambda x: x.pow_(2), dtypes=NUMBERS),
    "pow_ tensor": Case(lambda x, y: x.pow_(y), lambda m: (m.positive(3, 4), m.positive(4))),
    "scalar remainder": Case(lambda x: torch.remainder(7, x), positive, NUMBERS),
    "atan2": Case(torch.atan2, pair),
    "atan2_": Case(lambda x, y: x.atan2_(y), pair),
    "xlogy": Case(torch.xlogy, divisors),
    "xlogy scalar": Case(lambda x: torch.xlogy(x, 2.0)),
    "logaddexp": Case(torch.logaddexp, pair),
    "logaddexp2": Case(torch.logaddexp2, pair, ("float32",)),
    "hypot": Case(torch.hypot, pair, ("float32",)),
    "gcd": Case(torch.gcd, lambda m: (m.positive(3, 4), m.positive(3, 4)), INTS),
    "shift left": Case(lambda x, y: x << y, lambda m: (m.positive(3), m.positive(3)), INTS),
    "shift right": Case(lambda x, y: x >> y, lambda m: (m.positive(3) * 64, m.positive(3)), INTS),
    "clamp": Case(lambda x: torch.clamp(x, -1, 1), dtypes=NUMBERS),
    "clamp_min": Case(lambda x: torch.clamp(x, min=0), dtypes=NUMBERS),
    "clamp_max": Case(lambda x: torch.clamp(x, max=0), dtypes=NUMBERS),
    "clamp_": Case(lambda x: x.clamp_(-1, 1), dtypes=NUMBERS),
    "clamp_min_": Case(lambda x: x.clamp_min_(0), dtypes=NUMBERS),
    "clamp_max_": Case(lambda x: x.clamp_max_(0), dtypes=NUMBERS),
    "clamp tensors": Case(torch.clamp, lambda m: (m(3, 4), m(4) - 1, m(4) + 1), FLOATS),
    "clamp min tensor": Case(lambda x, y: torch.clamp(x, min=y), pair, NUMBERS),
    "clamp max tensor": Case(lambda x, y: torch.clamp(x, max=y), pair, NUMBERS),
    "clamp_min_ tensor": Case(lambda x, y: x.clamp_min_(y), pair, NUMBERS),
    "clamp_max_ tensor": Case(lambda x, y: x.clamp_max_(y), pair, NUMBERS),
    "lerp": Case(torch.lerp, lambda m: (m(3, 4), m(3, 4), m(3, 4))),
    "lerp scalar": Case(lambda x, y: torch.lerp(x, y, 0.25), pair),
    "lerp_": Case(lambda x, y: x.lerp_(y, 0.25), pair),
    "lerp_ tensor": Case(lambda x, y, z: x.lerp_(y, z), lambda m: (m(3, 4), m(3, 4), m(3, 4))),
    "where": Case(torch.where, lambda m: (m.mask(3, 4), m(3, 4), m(4)), ALL),
    "where scalar": Case(lambda c, x: torch.where(c, x, 0.0), lambda m: (m.mask(3, 4), m(3, 4))),
    "isclose": Case(torch.isclose, lambda m: (m(3, 4),) * 2, NUMBERS),
    "allclose": Case(torch.allclose, lambda m: (m(3, 4),) * 2),
    "equal": Case(torch.equal, pair, ALL),
    "isin": Case(torch.isin, lambda m: (m(3, 4), m(5)), INTS),
    "isin scalar": Case(lambda x: torch.isin(x, 2), dtypes=INTS),
}

# --- copies and constants ---------------------------------------------------------------------

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

# --- by index ---------------------------------------------------------------------------------

CASES |= {
    "index": Case(lambda x, i: x[i], lambda m: (m(5, 4), m.index(5, 3)), ALL),
    "index two": Case(
        lambda x, i, j: x[i, j], lambda m: (m(5, 4), m.index(5, 3), m.index(4, 3)), ALL
    ),
    "index second": Case(lambda x, i: x[:, i], lambda m: (m(5, 4), m.index(4, 3)), ALL),
    "index apart": Case(
        lambda x, i, j: x[i, :, j], lambda m: (m(5, 4, 3), m.index(5, 2), m.index(3, 2)), ALL
    ),
    "index negative": Case(lambda x: x[:, -1], dtypes=ALL),
    "index mask": Case(lambda x, c: x[c], lambda m: (m(3, 4), m.mask(3, 4)), ALL),
    "index_put": Case(
        lambda x, i, v: x.index_put((i,), v), lambda m: (m(5, 4), m.places(5, 3), m(3, 4)), ALL
    ),
    "index_put_": Case(
        lambda x, i, v: x.index_put_((i,), v), lambda m: (m(5, 4), m.places(5, 3), m(4)), ALL
    ),
    "index_put_ accumulate": Case(
        lambda x, i, v: x.index_put_((i,), v, accumulate=True),
        lambda m: (m(5, 4), m.index(5, 7), m(7, 4)),
        ("float32", "int64"),
    ),
    "index_put_ mask": Case(
        lambda x, c: (x.__setitem__(c, 0), x)[1], lambda m: (m(3, 4), m.mask(3, 4)), ALL
    ),
    "index_put_ rows and columns": Case(
        lambda x, i, j, v: x.index_put_((i, j), v),
        lambda m: (m(5, 4), m.places(5, 3), m.places(4, 3), m(3)),
        ALL,
    ),
    "index_select": Case(
        lambda x, i: x.index_select(1, i), lambda m: (m(3, 4), m.index(4, 5)), ALL
    ),
    "index_add": Case(
        lambda x, i, s: x.index_add(0, i, s, alpha=2),
        lambda m: (m(5, 4), m.index(5, 3), m(3, 4)),
        ("float32", "int64"),
    ),
    "index_add_": Case(
        lambda x, i, s: x.index_add_(0, i, s),
        lambda m: (m(5, 4), m.index(5, 3), m(3, 4)),
        ("float32", "int64"),
    ),
    "index_copy": Case(
        lambda x, i, s: x.index_copy(1, i, s), lambda m: (m(5, 4), m.places(4, 2), m(5, 2)), ALL
    ),
    "index_copy_": Case(
        lambda x, i, s: x.index_copy_(0, i, s), lambda m: (m(5, 4), m.places(5, 2), m(2, 4)), ALL
    ),
    "index_fill": Case(
        lambda x, i: x.index_fill(1, i, 1), lambda m: (m(5, 4), m.places(4, 2)), NUMBERS
    ),
    "index_fill_": Case(
        lambda x, i: x.index_fill_(1, i, 1), lambda m: (m(5, 4), m.places(4, 2)), NUMBERS
    ),
    "gather": Case(lambda x, i: torch.gather(x, 1, i), lambda m: (m(3, 4), m.index(4, 3, 2)), ALL),
    "take_along_dim": Case(
        lambda x, i: torch.take_along_dim(x, i, 1), lambda m: (m(3, 4), m.index(4, 3, 2)), ALL
    ),
    "take": Case(torch.take, lambda m: (m(3, 4), m.index(12, 5)), FLOATS),
    "put_": Case(lambda x, i, s: x.put_(i, s), lambda m: (m(3, 4), m.places(12, 5), m(5)), NUMBERS),
    "scatter": Case(
        lambda x, i, s: x.scatter(1, i, s),
        lambda m: (m(3, 4), torch.stack([m.places(4, 2) for _ in range(3)]), m(3, 2)),
        ALL,
    ),
    "scatter_": Case(
        lambda x, i, s: x.scatter_(1, i, s),
        lambda m: (m(3, 4), torch.stack([m.places(4, 2) for _ in range(3)]), m(3, 2)),
        ALL,
    ),
    "scatter value": Case(
        lambda x, i: x.scatter(1, i, 1), lambda m: (m(3, 4), m.index(4, 3, 2)), NUMBERS
    ),
    "scatter_ value": Case(
        lambda x, i: x.scatter_(1, i, 1), lambda m: (m(3, 4), m.index(4, 3, 2)), NUMBERS
    ),
    "scatter add": Case(
        lambda x, i, s: x.scatter(1, i, s, reduce="add"),
        lambda m: (m(3, 4), m.index(4, 3, 2), m(3, 2)),
        ("float32",),
    ),
    "scatter_add": Case(
        lambda x, i, s: x.scatter_add(1, i, s),
        lambda m: (m(3, 4), m.index(4, 3, 2), m(3, 2)),
        ("float32", "int64"),
    ),
    "scatter_add_": Case(
        lambda x, i, s: x.scatter_add_(1, i, s),
        lambda m: (m(3, 4), m.index(4, 3, 2), m(3, 2)),
        ("float32", "int64"),
    ),
    "scatter_reduce": Case(
        lambda x, i, s: x.scatter_reduce(1, i, s, "amax"),
        lambda m: (m(3, 4), m.index(4, 3, 2), m(3, 2)),
        ("float32",),
    ),
    "embedding": Case(F.embedding, lambda m: (m.index(5, 2, 3), m(5, 4))),
    "embedding_bag sum": Case(
        lambda i, w, o: F.embedding_bag(i, w, o, mode="sum"),
        lambda m: (m.index(6, 7), m(6, 4), torch.tensor([0, 2, 2, 5])),
    ),
    "embedding_bag mean": Case(
        lambda i, w: F.embedding_bag(i, w, mode="mean"), lambda m: (m.index(6, 3, 2), m(6, 4))
    ),
    "embedding_bag max": Case(
        lambda i, w, o: F.embedding_bag(i, w, o, mode="max"),
        lambda m: (m.index(6, 7), m(6, 4), torch.tensor([0, 2, 5])),
        ("float32",),
    ),
    "embedding_bag weighted": Case(
        lambda i, w, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
        lambda m: (m.index(6, 7), m(6, 4), torch.tensor([0, 2, 5]), m(7)),
    ),
    "embedding_bag last offset": Case(
        lambda i, w, o: F.embedding_bag(i, w, o, mode="sum", include_last_offset=True),
        lambda m: (m.index(6, 7), m(6, 4), torch.tensor([0, 2, 5, 7])),
    ),
    "embedding_bag padding": Case(
        lambda i, w, o: F.embedding_bag(i, w, o, mode="sum", padding_idx=1),
        lambda m: (m.index(6, 7), m(6, 4), torch.tensor([0, 2, 5])),
    ),
    "one_hot": Case(lambda i: F.one_hot(i, 5), lambda m: (m.index(5, 2, 3),), ("int64",)),
    "nonzero": Case(torch.nonzero, lambda m: (m.mask(3, 4),), ("bool",)),
    "masked_select": Case(torch.masked_select, lambda m: (m(3, 4), m.mask(3, 4)), ALL),
    "unique": Case(torch.unique, lambda m: (m(20),), INTS),
    "unique counts": Case(
        lambda x: torch.unique(x, return_inverse=True, return_counts=True), lambda m: (m(20),), INTS
    ),
    "unique_consecutive": Case(torch.unique_consecutive, lambda m: (m(20),), INTS),
    "bucketize": Case(
        torch.bucketize, lambda m: (m(3, 4), m(5).sort().values), ("float32", "int64")
    ),
    "searchsorted": Case(
        torch.searchsorted, lambda m: (m(5).sort().values, m(3, 4)), ("float32", "int64")
    ),
    "bincount": Case(torch.bincount, lambda m: (m.index(6, 9),), ("int64",)),
}

# --- by shape ---------------------------------------------------------------------------------

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
    "tril": Case(lambda x: torch.tril(x), dtypes=ALL),
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

# --- reductions -------------------------------------------------------------------------------

for _name in ["sum", "mean", "amax", "amin"]:
    _dtypes = NUMBERS if _name != "mean" else FLOATS
    CASES[_name] = Case(lambda x, _n=_name: getattr(torch, _n)(x, dim=(0, 2)), cube, _dtypes)
    CASES[f"{_name} keep"] = Case(
        lambda x, _n=_name: getattr(torch, _n)(x, dim=-1, keepdim=True), cube, _dtypes
    )
for _name in [
    "sum",
    "mean",
    "max",
    "min",
    "prod",
    "std",
    "var",
    "any",
    "all",
    "argmax",
    "argmin",
    "norm",
    "logsumexp",
]:
    _call = getattr(torch, _name)
    if _name != "logsumexp":
        CASES[f"{_name} whole"] = Case(_call, dtypes=FLOATS)
    if _name not in ("norm",):
        CASES[f"{_name} dim"] = Case(lambda x, _c=_call: _c(x, dim=1), cube)
for _name in ["sum", "max", "min", "prod", "any", "all", "argmax", "argmin"]:
    CASES[f"{_name} int"] = Case(
        lambda x, _n=_name: getattr(torch, _n)(x.clamp(-2, 2), dim=1), cube, INTS
    )
CASES |= {
    "sum bool": Case(torch.sum, dtypes=BOOL),
    "sum dtype": Case(lambda x: torch.sum(x, -1, dtype=torch.float32), dtypes=NUMBERS),
    "sum view": Case(lambda x: x.sum(0), lambda m: (m.turned(3, 4),), NUMBERS),
    "any bool": Case(torch.any, dtypes=BOOL),
    "all bool": Case(lambda x: torch.all(x, dim=-1, keepdim=True), dtypes=BOOL),
    "std keep": Case(lambda x: torch.std(x, -1, keepdim=True, unbiased=False), cube),
    "var_mean": Case(lambda x: torch.var_mean(x, -1, keepdim=True), cube),
    "std_mean": Case(lambda x: torch.std_mean(x, -1, keepdim=True), cube),
    "norm 1": Case(lambda x: torch.norm(x, 1, -1), cube),
    "vector_norm": Case(lambda x: torch.linalg.vector_norm(x, 2, -1), cube),
    "normalize": Case(lambda x: F.normalize(x, dim=-1), cube),
    "nansum": Case(torch.nansum),
    "aminmax": Case(lambda x: tuple(torch.aminmax(x, dim=1)), cube, ("float32",)),
    "median": Case(torch.median, lambda m: (m(5),)),
    "median dim": Case(lambda x: tuple(torch.median(x, 1)), lambda m: (m(3, 5),), ("float32",)),
    "kthvalue": Case(lambda x: tuple(torch.kthvalue(x, 2, -1)), dtypes=("float32",)),
    "max pair": Case(torch.max, pair, NUMBERS),
    "cumsum": Case(lambda x: torch.cumsum(x, 1), dtypes=NUMBERS),
    "cumsum bool": Case(lambda x: torch.cumsum(x, 1), dtypes=BOOL),
    "cumsum_": Case(lambda x: x.cumsum_(1), dtypes=NUMBERS),
    "cumprod": Case(lambda x: torch.cumprod(x, 1), dtypes=NUMBERS),
    "cummax": Case(lambda x: tuple(torch.cummax(x, 1)), dtypes=("float32",)),
    "cummin": Case(lambda x: tuple(torch.cummin(x, 1)), dtypes=("float32",)),
    "sort": Case(lambda x: tuple(torch.sort(x, 1)), lambda m: (m(3, 5),)),
    "sort descending": Case(
        lambda x: torch.sort(x, 1, descending=True).values, lambda m: (m(3, 5),), NUMBERS
    ),
    "argsort": Case(torch.argsort, lambda m: (m(3, 5),), ("float32",)),
    "topk": Case(lambda x: tuple(torch.topk(x, 2)), lambda m: (m(3, 5),), ("float32",)),
    "topk smallest": Case(
        lambda x: torch.topk(x, 2, 0, largest=False).values, lambda m: (m(4, 5),), NUMBERS
    ),
    "softmax": Case(lambda x: torch.softmax(x, -1), cube),
    "softmax float": Case(lambda x: torch.softmax(x, 1, dtype=torch.float32), cube),
    "log_softmax": Case(lambda x: torch.log_softmax(x, -1), cube),
    "histc": Case(lambda x: torch.histc(x, 5, -2, 2), dtypes=("float32",)),
    "trace": Case(torch.trace, dtypes=("float32",)),
}

# --- products ---------------------------------------------------------------------------------

CASES |= {
    "mm": Case(torch.mm, lambda m: (m(3, 4), m(4, 5))),
    "mm turned": Case(torch.mm, lambda m: (m.turned(3, 4), m.turned(4, 5))),
    "mm cut": Case(torch.mm, lambda m: (m.cut(3, 4), m(4, 5))),
    "mm empty": Case(torch.mm, lambda m: (m(0, 4), m(4, 5))),
    "matmul 3": Case(torch.matmul, lambda m: (m(2, 3, 4), m(4, 5))),
    "matmul 4": Case(torch.matmul, lambda m: (m(2, 2, 3, 4), m(2, 2, 4, 3))),
    "matmul vector": Case(torch.matmul, lambda m: (m(3, 4), m(4))),
    "bmm": Case(torch.bmm, lambda m: (m(2, 3, 4), m.turned(2, 4, 5))),
    "mv": Case(torch.mv, lambda m: (m(3, 4), m(4))),
    "dot": Case(torch.dot, lambda m: (m(4), m(4))),
    "addmm": Case(
        lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=2), lambda m: (m(5), m(3, 4), m(4, 5))
    ),
    "addmm_": Case(
        lambda c, x, y: c.addmm_(x, y, beta=0.5, alpha=2), lambda m: (m(3, 5), m(3, 4), m(4, 5))
    ),
    "baddbmm": Case(
        lambda c, x, y: torch.baddbmm(c, x, y, beta=0.5, alpha=2),
        lambda m: (m(2, 3, 5), m(2, 3, 4), m(2, 4, 5)),
    ),
    "baddbmm_": Case(
        lambda c, x, y: c.baddbmm_(x, y), lambda m: (m(2, 3, 5), m(2, 3, 4), m(2, 4, 5))
    ),
    "addbmm": Case(torch.addbmm, lambda m: (m(3, 5), m(2, 3, 4), m(2, 4, 5)), ("float32",)),
    "addmv": Case(torch.addmv, lambda m: (m(3), m(3, 4), m(4)), ("float32",)),
    "addr": Case(torch.addr, lambda m: (m(3, 4), m(3), m(4)), ("float32",)),
    "addr_": Case(lambda c, x, y: c.addr_(x, y), lambda m: (m(3, 4), m(3), m(4)), ("float32",)),
    "linear": Case(F.linear, lambda m: (m(2, 3, 4), m(5, 4), m(5))),
    "linear no bias": Case(F.linear, lambda m: (m(2, 3, 4), m(5, 4))),
    "linear one": Case(F.linear, lambda m: (m(4), m(5, 4), m(5))),
    "bilinear": Case(F.bilinear, lambda m: (m(3, 4), m(3, 5), m(2, 4, 5), m(2)), ("float32",)),
    "einsum": Case(
        lambda x, y: torch.einsum("bij,bjk->bik", x, y), lambda m: (m(2, 3, 4), m(2, 4, 5))
    ),
    "conv1d": Case(
        lambda x, w, b: F.conv1d(x, w, b, padding=1), lambda m: (m(2, 3, 8), m(4, 3, 3), m(4))
    ),
    "conv2d": Case(
        lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1),
        lambda m: (m(2, 3, 6, 8), m(4, 3, 3, 3), m(4)),
    ),
    "conv2d groups": Case(
        lambda x, w: F.conv2d(x, w, groups=2, dilation=2), lambda m: (m(2, 4, 6, 8), m(4, 2, 2, 2))
    ),
    "conv2d depthwise": Case(
        lambda x, w: F.conv2d(x, w, groups=4), lambda m: (m(2, 4, 6, 8), m(4, 1, 3, 3))
    ),
    "conv3d": Case(F.conv3d, lambda m: (m(1, 2, 4, 4, 4), m(3, 2, 2, 2, 2), m(3)), ("float32",)),
    "conv_transpose2d": Case(
        lambda x, w: F.conv_transpose2d(x, w, stride=2), lambda m: (m(2, 3, 4, 4), m(3, 2, 3, 3))
    ),
}

# --- layers -----------------------------------------------------------------------------------

CASES |= {
    "layer_norm": Case(
        lambda x, w, b: F.layer_norm(x, (4,), w, b), lambda m: (m(2, 3, 4), m(4), m(4))
    ),
    "layer_norm plain": Case(lambda x: F.layer_norm(x, (3, 4)), cube),
    "rms_norm": Case(lambda x, w: F.rms_norm(x, (4,), w, 1e-6), lambda m: (m(2, 3, 4), m(4))),
    "group_norm": Case(
        lambda x, w, b: F.group_norm(x, 2, w, b), lambda m: (m(2, 4, 3, 3), m(4), m(4))
    ),
    "instance_norm": Case(F.instance_norm, image),
    "batch_norm": Case(
        lambda x, a, v, w, b: F.batch_norm(x, a, v, w, b),
        lambda m: (m(6, 4), m(4), m.positive(4), m(4), m(4)),
    ),
    "batch_norm 2d": Case(
        lambda x, a, v: F.batch_norm(x, a, v), lambda m: (m(2, 3, 4, 4), m(3), m.positive(3))
    ),
    "batch_norm training": Case(
        lambda x, a, v: (F.batch_norm(x, a, v, training=True), a, v),
        lambda m: (m(6, 4), m(4), m.positive(4)),
        ("float32",),
    ),
    "avg_pool1d": Case(lambda x: F.avg_pool1d(x, 2), cube),
    "avg_pool2d": Case(lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), image),
    "max_pool1d": Case(lambda x: F.max_pool1d(x, 2), cube),
    "max_pool2d": Case(lambda x: F.max_pool2d(x, 3, 2, 1), image),
    "adaptive_avg_pool1d": Case(lambda x: F.adaptive_avg_pool1d(x, 2), cube),
    "adaptive_avg_pool2d": Case(lambda x: F.adaptive_avg_pool2d(x, (2, 3)), image),
    "adaptive_avg_pool2d one": Case(lambda x: F.adaptive_avg_pool2d(x, 1), image),
    "adaptive_max_pool2d": Case(lambda x: F.adaptive_max_pool2d(x, (2, 3)), image, ("float32",)),
    "interpolate nearest": Case(lambda x: F.interpolate(x, scale_factor=2), image),
    "interpolate bilinear": Case(
        lambda x: F.interpolate(x, size=(5, 7), mode="bilinear"), image, loose=1e-3
    ),
    "pixel_shuffle": Case(lambda x: F.pixel_shuffle(x, 2), lambda m: (m(1, 4, 2, 2),), FLOATS),
    "channel_shuffle": Case(
        lambda x: F.channel_shuffle(x, 2), lambda m: (m(1, 4, 2, 2),), ("float32",)
    ),
    "sdpa": Case(
        F.scaled_dot_product_attention,
        lambda m: (m(2, 2, 5, 8), m(2, 2, 5, 8), m(2, 2, 5, 8)),
        loose=1e-3,
    ),
    "sdpa causal": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda m: (m(2, 2, 5, 8), m(2, 2, 5, 8), m(2, 2, 5, 8)),
        loose=1e-3,
    ),
    "sdpa mask": Case(
        F.scaled_dot_product_attention,
        lambda m: (
            m(2, 2, 5, 8),
            m(2, 2, 6, 8),
            m(2, 2, 6, 8),
            torch.ones(2, 1, 5, 6, dtype=torch.bool).tril(1),
        ),
        loose=1e-3,
    ),
    "sdpa bias": Case(
        F.scaled_dot_product_attention,
        lambda m: (m(2, 2, 5, 8), m(2, 2, 6, 8), m(2, 2, 6, 8), m(2, 1, 5, 6)),
        loose=1e-3,
    ),
    "sdpa gqa": Case(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        lambda m: (m(2, 4, 5, 8), m(2, 2, 5, 8), m(2, 2, 5, 8)),
        loose=1e-3,
    ),
    "sdpa one query": Case(
        F.scaled_dot_product_attention,
        lambda m: (m(2, 2, 1, 8), m(2, 2, 5, 8), m(2, 2, 5, 8)),
        loose=1e-3,
    ),
    "dropout eval": Case(lambda x: F.dropout(x, 0.5, training=False)),
    "cosine_similarity": Case(F.cosine_similarity, pair),
    "mse_loss": Case(F.mse_loss, pair),
    "l1_loss": Case(F.l1_loss, pair),
    "smooth_l1_loss": Case(F.smooth_l1_loss, pair),
    "kl_div": Case(lambda x, y: F.kl_div(x, y, reduction="sum"), lambda m: (m(3, 4), m.unit(3, 4))),
    "binary_cross_entropy": Case(F.binary_cross_entropy, lambda m: (m.unit(3, 4), m.unit(3, 4))),
    "binary_cross_entropy_with_logits": Case(
        F.binary_cross_entropy_with_logits, lambda m: (m(3, 4), m.unit(3, 4))
    ),
    "nll_loss": Case(F.nll_loss, lambda m: (m(3, 4), m.index(4, 3))),
    "cross_entropy": Case(F.cross_entropy, lambda m: (m(3, 4), m.index(4, 3))),
    "cross_entropy ignore": Case(
        lambda x, t: F.cross_entropy(x, t, ignore_index=1, reduction="sum"),
        lambda m: (m(3, 4), m.index(4, 3)),
    ),
}

# --- lists ------------------------------------------------------------------------------------

for _name in ["abs", "neg", "exp", "sqrt", "reciprocal", "sigmoid"]:
    CASES[f"foreach {_name}"] = Case(
        lambda x, y, _n=f"_foreach_{_name}": getattr(torch, _n)([x, y]),
        lambda m: (m.positive(3, 4), m.positive(5)),
    )
for _name in ["add", "sub", "mul", "div", "maximum", "minimum", "pow"]:
    CASES[f"foreach {_name}"] = Case(
        lambda x, y, _n=f"_foreach_{_name}": getattr(torch, _n)([x, y], [y, x]),
        lambda m: (m.positive(3, 4), m.positive(3, 4)),
    )
    CASES[f"foreach {_name} scalar"] = Case(
        lambda x, y, _n=f"_foreach_{_name}": getattr(torch, _n)([x, y], 2.0), pair
    )
    CASES[f"foreach {_name} scalars"] = Case(
        lambda x, y, _n=f"_foreach_{_name}": getattr(torch, _n)([x, y], [2.0, 3.0]), pair
    )
    CASES[f"foreach {_name}_"] = Case(
        lambda x, y, _n=f"_foreach_{_name}_": (getattr(torch, _n)([x, y], 2.0), x, y)[1:], pair
    )
CASES |= {
    "foreach copy_": Case(
        lambda x, y, a, b: (torch._foreach_copy_([x, y], [a, b]), x, y)[1:],
        lambda m: (m(3, 4), m(5), m(3, 4), m(5)),
        NUMBERS,
    ),
    "foreach add alpha": Case(lambda x, y: torch._foreach_add([x], [y], alpha=2), pair),
    "foreach zero_": Case(lambda x, y: (torch._foreach_zero_([x, y]), x, y)[1:], pair),
    "foreach addcmul": Case(
        lambda x, y, z: torch._foreach_addcmul([x], [y], [z], 0.5), lambda m: (m(4), m(4), m(4))
    ),
    "foreach addcdiv scalars": Case(
        lambda x, y, z: torch._foreach_addcdiv([x], [y], [z], [0.5]),
        lambda m: (m(4), m(4), m.positive(4)),
    ),
    "foreach lerp": Case(lambda x, y: torch._foreach_lerp([x], [y], 0.25), pair),
    "foreach norm": Case(lambda x, y: torch._foreach_norm([x, y]), pair),
}

# --- what is left -----------------------------------------------------------------------------

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
    "log_sigmoid": Case(lambda x: torch.log_sigmoid(x) if hasattr(torch, "log_sigmoid") else F.logsigmoid(x)),
    "logspace": Case(
        lambda x: torch.logspace(0, 2, 5, dtype=x.dtype, device=x.device), dtypes=("float32",)
    ),
    "range": Case(lambda x: torch.range(1, 5, 2, dtype=x.dtype, device=x.device), dtypes=("float32",)),
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
    "split out": Case(
        lambda x: torch.split_with_sizes_copy(x, [1, 3], 1), dtypes=FLOATS
    ),
    "unique dim": Case(lambda x: torch.unique(x, dim=0), lambda m: (m(6, 1),), ("int64",)),
    "upsample nearest 1d": Case(lambda x: F.interpolate(x, scale_factor=2), cube),
    "complex": Case(torch.complex, pair, ("float32",)),
    "norm p 3": Case(lambda x: x.norm(3)),
    "sub scalar": Case(lambda x: torch.sub(x, 2, alpha=3), dtypes=NUMBERS),
    "_add_relu": Case(torch._VF._add_relu if hasattr(torch._VF, "_add_relu") else torch.add, pair, ("float32",)),
    "index_fill tensor": Case(
        lambda x, i, v: x.index_fill(1, i, v), lambda m: (m(5, 4), m.places(4, 2), m()), NUMBERS
    ),
    "repeat_interleave counts": Case(torch.repeat_interleave, lambda m: (m.index(4, 5),), ("int64",)),
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
for _name in "cos cosh erf erfc expm1 sign sin sinh tan tanh atan".split():
    CASES[f"foreach {_name}"] = Case(
        lambda x, y, _n=f"_foreach_{_name}": getattr(torch, _n)([x, y]), pair
    )
for _name in "log log10 log1p log2".split():
    CASES[f"foreach {_name}"] = Case(
        lambda x, _n=f"_foreach_{_name}": getattr(torch, _n)([x]), positive
    )
for _name in "acos asin".split():
    CASES[f"foreach {_name}"] = Case(lambda x, _n=f"_foreach_{_name}": getattr(torch, _n)([x]), unit)
