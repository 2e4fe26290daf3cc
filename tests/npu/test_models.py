"""Whole models through every compiler of the npu target, against the CPU."""

import pytest
from models import ALL, check, pairwise


@pytest.mark.parametrize("case", pairwise(ALL), ids=str)
def test_numbers(case):
    check(case)
