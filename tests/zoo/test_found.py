"""The table of models in docs/patterns.md; tests/sweeps/structures.py has the other settings."""

import pytest
import torch

from tests.zoo import LANGUAGE
from tests.zoo.found import found_in, rows

ROWS = rows()


def test_the_page_has_every_model():
    assert sorted(LANGUAGE) == sorted(name for name in ROWS if name in LANGUAGE)


@pytest.mark.parametrize("name", ROWS)
def test_what_the_page_says_is_found(name):
    assert found_in(name, "eager", torch.float32, changing=False) == ROWS[name].found


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_what_is_missed_has_a_reason(row):
    assert bool(row.why) >= bool(row.missed)
