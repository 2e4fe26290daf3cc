"""Operators of one tensor, element by element."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from aclnn_cases.maker import ALL, BOOL, INTS, Case, positive, unit

CASES: dict[str, Case] = {}

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
