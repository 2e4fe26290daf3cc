"""How many of each structure are found in a model; docs/patterns.md has the table."""

from __future__ import annotations

import dataclasses
import pathlib
from collections import Counter

import torch
from torch.utils import _pytree as pytree

from tests.passes.patterns.stand_ins import implemented
from tests.zoo.sample import build
from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.passes.patterns.structure import STRUCTURES
from xpu_graph.testing import assert_same

TOLERANCES = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-5},
    torch.bfloat16: {"rtol": 5e-2, "atol": 5e-2},
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "patterns.md"


@dataclasses.dataclass(frozen=True)
class Row:
    """What the page says of a model.

    Attributes:
        name: the model.
        found: structure -> how many of them the page says are found.
        missed: structure -> how many the model has beside these.
        why: why these are not found.
    """

    name: str
    found: Counter[str]
    missed: Counter[str]
    why: str


def rows() -> dict[str, Row]:
    """The rows of the page's table of models, by name."""
    lines = PAGE.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| model |"))
    header = [cell.strip() for cell in lines[start].strip("|").split("|")]
    result = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells, why = [cell.strip() for cell in line.strip("|").split("|")]
        found: Counter[str] = Counter()
        missed: Counter[str] = Counter()
        for structure, cell in zip(header[1:-1], cells, strict=True):
            number, _, held = cell.partition(" of ")
            found[structure] = int(number or 0)
            missed[structure] = int(held) - int(number) if held else 0
        result[name] = Row(name, +found, +missed, why)
    return result


def found_in(name: str, attention: str, dtype: torch.dtype, *, changing: bool) -> Counter[str]:
    """How many of each structure are found in a model, whose results must be those of eager.

    Args:
        name: the model.
        attention: as for ``build``.
        dtype: the same.
        changing: whether a second size follows, so that the graph that counts is symbolic.

    Raises:
        AssertionError: the results are not those of eager.
    """
    sample = build(name, attention, dtype)
    backend = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False, verify="final"))
    torch.compiler.reset()
    with torch.no_grad(), implemented():
        compiled = torch.compile(sample.model, backend=backend)
        for given in (sample.small, sample.large) if changing else (sample.small,):
            got, want = _tensors(compiled(**given)), _tensors(sample.model(**given))
            assert_same(got, want, name, bitwise=False, **TOLERANCES[dtype])
    (graph,) = backend.reports[-1].graphs
    found: Counter[str] = Counter()
    for pattern, record in graph.passes.items():
        structure = pattern.partition("-")[0]
        if structure in STRUCTURES:
            found[structure] += record.applied
    return +found


def _tensors(results: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(results) if isinstance(leaf, torch.Tensor)]
