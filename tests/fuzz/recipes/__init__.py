"""What random graphs are made of, by theme."""

from tests.fuzz.recipes import (
    arithmetic,
    checks,
    constants,
    copies,
    joins,
    noops,
    pointwise,
    randomness,
    reductions,
    repeats,
    scatters,
    views,
    writes,
)
from tests.fuzz.recipes.registry import RECIPES

__all__ = [
    "RECIPES",
    "arithmetic",
    "checks",
    "constants",
    "copies",
    "joins",
    "noops",
    "pointwise",
    "randomness",
    "reductions",
    "repeats",
    "scatters",
    "views",
    "writes",
]
