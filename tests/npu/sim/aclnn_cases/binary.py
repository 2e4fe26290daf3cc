"""Operators of two or three tensors, element by element."""

from __future__ import annotations

import torch

from aclnn_cases.maker import (
    ALL,
    BOOL,
    FLOATS,
    INTS,
    NUMBERS,
    Case,
    divisors,
    pair,
    positive,
    spread,
)

CASES: dict[str, Case] = {}

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
    "rsub tensor": Case(torch.rsub, pair, NUMBERS),
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
