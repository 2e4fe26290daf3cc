"""Calls of operators that reach an aclnn function, by name."""

from aclnn_cases import binary, copies, index, layers, lists, rare, reduce, unary
from aclnn_cases.maker import Case, Maker
from aclnn_cases.vendor import VENDOR_CASES

__all__ = ["CASES", "VENDOR_CASES", "Case", "Maker"]

CASES: dict[str, Case] = {}
for _group in (unary, binary, copies, index, reduce, layers, lists, rare):
    assert not CASES.keys() & _group.CASES.keys()
    CASES |= _group.CASES
