"""What programs contain: every cell of the tables in docs/coverage.md is what happens."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # the rows are a package of the tests, and they are not installed
    sys.path.append(str(ROOT))

from tests.coverage import autograd, control_flow, operators, programs, tensors  # noqa: E402
from tests.coverage.check import check_cell  # noqa: E402
from tests.coverage.row import COLUMNS, WORKS  # noqa: E402

ROWS = [
    row for module in (control_flow, operators, autograd, tensors, programs) for row in module.ROWS
]
CELLS = [
    pytest.param(row, column, dynamic, id=f"{row.name}-{column}{'-dynamic' * dynamic}")
    for row in ROWS
    for column in ("inference", "training", "inductor")
    if row.outcome(column) != "-"
    for dynamic in ((False, True) if row.dynamic and column == row.fullest else (False,))
]


@pytest.mark.parametrize(("row", "column", "dynamic"), CELLS)
def test_cell(row, column, dynamic, tmp_path):
    check_cell(row, column, dynamic, tmp_path / "kept")


def test_the_document_says_the_same():
    told = []
    for line in (ROOT / "docs" / "coverage.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) == 6 and cells[0] != "what" and cells[0].strip("-"):
            told.append(cells)
    held = [[row.name, *map(row.outcome, COLUMNS)] for row in ROWS]
    assert [cells[:5] for cells in told] == held
    for *cells, note in told:
        plain = all(cell in (WORKS, "-") for cell in cells[1:])
        assert note or plain, f"{cells[0]}: the document does not say why, or what to do"


def test_every_row_has_a_name_of_its_own():
    names = [row.name for row in ROWS]
    assert sorted(set(names)) == sorted(names)
