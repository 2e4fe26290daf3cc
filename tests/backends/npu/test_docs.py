"""The option table of ``docs/npu.md`` says what the table in the code says."""

import pathlib

from xpu_graph.backends.npu.option_table import ENGINES, OPTIONS

DOCUMENT = pathlib.Path(__file__).parents[3] / "docs" / "npu.md"
LETTERS = dict(zip(ENGINES, "MRNDI", strict=True))
KINDS = {
    "decompositions": "dict",
    "dir": "directory",
    "gears": "dict",
    "int_list": "list of int",
    "partition_fn": "string, function",
    "pass": "function",
    "pool": "handle",
    "super_kernel_debug": "dict",
    "super_kernel_optimize": "dict",
}


def row(option):
    """The line of the document for an option."""
    if option.choices:
        kind = ", ".join(f"`{choice!r}`" for choice in option.choices)
    elif option.kind == "int":
        kind = f"int from {option.lo}"
    else:
        kind = KINDS.get(option.kind, option.kind)
    letters = " ".join(letter for engine, letter in LETTERS.items() if engine in option.modes)
    kept = " Not cached." if option.cache == "bypass" else ""
    cells = (f"`{option.name}`", kind, f"`{option.default!r}`", letters, option.doc + kept)
    return f"| {' | '.join(cells)} |"


def test_option_table():
    lines = DOCUMENT.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("| option |")) + 2
    wanted = [row(option) for option in OPTIONS.values()]
    table = lines[start : lines.index("", start)]
    assert table == wanted, "the table has to be:\n" + "\n".join(wanted)


def test_letters_of_the_modes():
    legend = ", ".join(f"{letter}: {engine}" for engine, letter in LETTERS.items())
    assert legend in DOCUMENT.read_text()
