"""Every model of the table in docs/patterns.md, in every setting; some minutes.

python -m pytest tests/sweeps/structures.py
"""

import itertools

import pytest

from tests.zoo import RECOMMENDERS, build
from tests.zoo.found import DTYPES, found_in, rows

ROWS = rows()
SAFE_SOFTMAX = {"deepseek-v3"}
"""Heads of query and value differ, and torch takes its formula with ``_safe_softmax``."""

NO_SDPA = {"gemma2", *RECOMMENDERS}


def settings():
    for name, attention, dtype, changing in itertools.product(
        ROWS, ("eager", "sdpa"), DTYPES, (False, True)
    ):
        if attention == "eager" or name not in NO_SDPA:
            sizes = "changing" if changing else "fixed"
            yield pytest.param(
                name, attention, dtype, changing, id=f"{name}-{attention}-{dtype}-{sizes}"
            )


@pytest.mark.parametrize(("name", "attention", "dtype", "changing"), settings())
def test_the_same_is_found(name, attention, dtype, changing):
    found = found_in(name, attention, DTYPES[dtype], changing=changing)
    expected = ROWS[name].found.copy()
    given = build(name).small
    if attention == "sdpa" and (changing or "attention_mask" in given or name in SAFE_SOFTMAX):
        # the mask is computed from what is given, with -inf in it
        del found["SDPA"], expected["SDPA"]
    assert found == expected
