"""Every model with every compiler and setting; ``tests/npu/test_models.py`` runs a part of them."""

import pytest
from models import ALL, check


@pytest.mark.parametrize("case", ALL, ids=str)
def test_numbers(case):
    check(case)
