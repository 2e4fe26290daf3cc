"""Operators of lists of tensors."""

from __future__ import annotations

import torch

from aclnn_cases.maker import NUMBERS, Case, pair

CASES: dict[str, Case] = {}

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
    "foreach addcdiv": Case(
        lambda x, y, z: torch._foreach_addcdiv([x], [y], [z], 0.5),
        lambda m: (m(4), m(4), m.positive(4)),
    ),
    "foreach addcmul tensor": Case(
        lambda x, y, z: torch._foreach_addcmul([x], [y], [z], torch.tensor([0.5])),
        lambda m: (m(4), m(4), m(4)),
        ("float32",),
    ),
    "foreach lerp": Case(lambda x, y: torch._foreach_lerp([x], [y], 0.25), pair),
    "foreach norm": Case(lambda x, y: torch._foreach_norm([x, y]), pair),
}
