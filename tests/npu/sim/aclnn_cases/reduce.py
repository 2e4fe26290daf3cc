"""Reductions, scans, sorting."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from aclnn_cases.maker import BOOL, FLOATS, INTS, NUMBERS, Case, cube, pair

CASES: dict[str, Case] = {}

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
