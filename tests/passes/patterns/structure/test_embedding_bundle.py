"""EmbeddingBundle: embeddings that one cat or stack joins."""

import pytest
import torch
from torch.nn.functional import embedding

from tests.passes.patterns.stand_ins import implemented
from tests.passes.patterns.structure.finding import found

S, T, U = torch.randn(11, 4), torch.randn(7, 3), torch.randn(9, 4)
IDS = torch.randint(0, 7, (5, 4))
X = torch.randn(5, 6)
INPUTS = (S, T, U, IDS, X)

SPELLINGS = {
    "columns": lambda s, t, u, i, x: torch.cat(
        [embedding(i[:, 0], s), embedding(i[:, 3], t), embedding(i[:, -2], u)], 1
    ),
    "columns by unbind": lambda s, t, u, i, x: torch.cat(
        [embedding(one, table) for one, table in zip(i.unbind(1), (s, t, u, s), strict=True)], -1
    ),
    "columns that are kept": lambda s, t, u, i, x: torch.cat(
        [embedding(i[:, 2:3], s), embedding(i[:, 3:], t)], -1
    ),
    "ids of their own": lambda s, t, u, i, x: torch.cat([embedding(i, s), embedding(i + 1, u)], -1),
    "one column is none": lambda s, t, u, i, x: torch.cat(
        [embedding(i[:, 0], s), embedding(i[:, 1] + 1, u)], 1
    ),
    "rows of the ids": lambda s, t, u, i, x: torch.cat([embedding(i[0], s), embedding(i[1], t)], 1),
    "a table twice": lambda s, t, u, i, x: torch.cat(
        [embedding(i[:, 0], t), embedding(i[:, 1], t)], 1
    ),
    "a result twice": lambda s, t, u, i, x: torch.cat(
        [(y := embedding(i[:, 0], t)), embedding(i[:, 1], t), y], 1
    ),
    "int32": lambda s, t, u, i, x: torch.cat(
        [embedding((j := i.int())[:, 0], s), embedding(j[:, 1], t)], 1
    ),
    "padding": lambda s, t, u, i, x: torch.cat(
        [embedding(i[:, 0], s, padding_idx=0), embedding(i[:, 1], t)], 1
    ),
    "others before": lambda s, t, u, i, x: torch.cat(
        [x, embedding(i[:, 0], s), embedding(i[:, 1], t)], 1
    ),
    "others behind": lambda s, t, u, i, x: torch.cat(
        [embedding(i[:, 0], s), embedding(i[:, 1], t), x], 1
    ),
    "a single one apart": lambda s, t, u, i, x: torch.cat(
        [embedding(i[:, 2], u), x, embedding(i[:, 0], s), embedding(i[:, 1], t)], 1
    ),
    "one that is read": lambda s, t, u, i, x: (
        torch.cat(
            [(y := embedding(i[:, 2], u)), embedding(i[:, 0], s), embedding(i[:, 1], t)], 1
        ).sum()
        + y
    ),
    "stacked": lambda s, t, u, i, x: torch.stack([embedding(i[:, 0], s), embedding(i[:, 1], u)], 1),
    "joined before the last dimension": lambda s, t, u, i, x: torch.cat(
        [embedding(i[:, :1], s), embedding(i[:, 1:2], u)], 1
    ),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_it_is_found(name):
    run = found("EmbeddingBundle", SPELLINGS[name], *INPUTS)
    assert run.applied == run.after["stand_in.EmbeddingBundle.default"] == 1
    is_apart = name in ("a single one apart", "one that is read")
    assert run.after["aten.embedding.default"] == is_apart


def test_two_runs():
    def program(s, t, u, i, x):
        found = [embedding(i[:, 0], one) for one in (s, t, u)]
        return torch.cat([*found, x, *(embedding(i[:, 1], one) for one in (s, t))], 1)

    run = found("EmbeddingBundle", program, *INPUTS)
    assert run.applied == run.after["stand_in.EmbeddingBundle.default"] == 2


@pytest.mark.parametrize("name", ["columns", "others behind", "stacked"])
def test_sizes_of_run_time(name):
    assert found("EmbeddingBundle", SPELLINGS[name], *INPUTS, dynamic=True).applied == 1


def test_no_rows():
    run = found("EmbeddingBundle", SPELLINGS["columns"], S, T, U, IDS[:0], X[:0])
    assert run.applied or "an empty tensor" in run.reasons


def test_columns_are_given_with_their_matrix():
    operators = "aten.select.int", "aten.unbind.int"
    for name in ("columns", "columns by unbind"):
        run = found("EmbeddingBundle", SPELLINGS[name], *INPUTS)
        assert not any(run.after[one] for one in operators)


LEFT = {
    "one": (lambda s, t, u, i, x: torch.cat([embedding(i[:, 0], s), x], 1), ""),
    "read": (
        lambda s, t, u, i, x: (
            torch.cat([(y := embedding(i[:, 0], s)), embedding(i[:, 1], t)], 1).sum() + y
        ),
        "something else reads an embedding, or stands between two",
    ),
    "apart": (
        lambda s, t, u, i, x: torch.cat([embedding(i[:, 0], s), x, embedding(i[:, 1], t)], 1),
        "something else reads an embedding, or stands between two",
    ),
    "tables of several dtypes": (
        lambda s, t, u, i, x: torch.cat([embedding(i[:, 0], s), embedding(i[:, 1], t.double())], 1),
        "the tables are of several dtypes",
    ),
    "ids of several dtypes": (
        lambda s, t, u, i, x: torch.cat([embedding(i[:, 0], s), embedding(i[:, 1].int(), t)], 1),
        "the ids are of several dtypes",
    ),
    "joined in the first dimension": (
        lambda s, t, u, i, x: torch.stack([embedding(i[:, 0], s), embedding(i[:, 1], u)]),
        "the embeddings are joined before the last two dimensions",
    ),
    "rows of rows": (
        lambda s, t, u, i, x: torch.cat([embedding(i, s), embedding(i + 1, u)], 1),
        "several rows of each table are joined before the last dimension",
    ),
    "stacked with others": (
        lambda s, t, u, i, x: torch.stack(
            [embedding(i[:, 0], s), embedding(i[:, 1], u), x[:, :4]], 1
        ),
        "the embeddings are stacked with something else",
    ),
    "ids that are written to after": (
        lambda s, t, u, i, x: (
            torch.cat([embedding(i[:, 0], s), embedding(i[:, 1], u)], 1),
            i.zero_(),
        )[0],
        "a read would move across a write",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_it_is_left_alone(name):
    program, reason = LEFT[name]
    run = found("EmbeddingBundle", program, *INPUTS)
    assert not run.applied
    assert reason in run.reasons if reason else not run.reasons


def test_the_stand_in_computes_it():
    with implemented("EmbeddingBundle", verify=True):
        pass
