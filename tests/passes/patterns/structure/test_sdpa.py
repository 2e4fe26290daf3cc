"""Scaled dot-product attention: its spellings, its masks, and what is left alone."""

import math

import pytest
import torch
from torch.nn import functional

from tests.passes.patterns.structure.finding import find

Q, K, V = (torch.randn(2, 3, size, 8) for size in (5, 7, 7))
MIN = torch.finfo(torch.float32).min


def softmax(scores, v):
    return torch.softmax(scores, -1) @ v


def scores(q, k):
    return q @ k.transpose(-2, -1)


SPELLINGS = {
    "no scale": lambda q, k, v: softmax(scores(q, k), v),
    "multiplied": lambda q, k, v: softmax(scores(q, k) * 8**-0.5, v),
    "divided": lambda q, k, v: softmax(scores(q, k) / math.sqrt(8), v),
    "query scaled before": lambda q, k, v: softmax(scores(q * 8**-0.5, k), v),
    "both scaled before": lambda q, k, v: softmax(scores(q * 8**-0.25, k * 8**-0.25), v),
    "einsum": lambda q, k, v: torch.einsum(
        "bhls,bhsd->bhld", torch.softmax(torch.einsum("bhld,bhsd->bhls", q, k) / 8, -1), v
    ),
    "softmax in float32": lambda q, k, v: (
        functional.softmax(scores(q, k) * 0.3, dim=3, dtype=torch.float32).to(q.dtype) @ v
    ),
    "finite mask": lambda q, k, v: softmax(scores(q, k) * 0.3 + torch.full((5, 7), -2.0), v),
    "causal, finite": lambda q, k, v: softmax(
        scores(q, k) * 0.3 + torch.full((5, 7), MIN).triu(1), v
    ),
    "causal, -inf": lambda q, k, v: softmax(
        scores(q, k) + torch.full((5, 7), -torch.inf).triu(1), v
    ),
    "torch's own": functional.scaled_dot_product_attention,
    "torch's own, scaled": lambda q, k, v: functional.scaled_dot_product_attention(
        q, k, v, scale=0.5
    ),
}


@pytest.mark.parametrize("function", SPELLINGS.values(), ids=SPELLINGS)
def test_it_is_found(function):
    applied, refused = find("SDPA", function, Q, K, V)
    assert applied == 1, refused


@pytest.mark.parametrize("name", ["multiplied", "divided", "torch's own, scaled"])
def test_it_is_found_in_sizes_that_change(name):
    assert find("SDPA", SPELLINGS[name], Q, K, V, dynamic=True)[0] == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("name", ["divided", "softmax in float32"])
def test_other_dtypes(name, dtype):
    # A float64 softmax in float32 is in float64 afterwards.
    limits = {"rtol": 1e-5, "atol": 1e-6} if dtype == torch.float64 else {}
    assert find("SDPA", SPELLINGS[name], *(one.to(dtype) for one in (Q, K, V)), **limits)[0] == 1


MASKED = {
    "added where": lambda s, m: s + torch.where(m, 0.0, MIN),
    "where": lambda s, m: torch.where(m, s, MIN),
    "where with a tensor": lambda s, m: torch.where(m, s, torch.tensor(MIN)),
    "masked_fill": lambda s, m: s.masked_fill(~m, -1e9),
    "masked_fill of the mask itself": lambda s, m: s.masked_fill(m, -1e4),
}


@pytest.mark.parametrize("mask", MASKED.values(), ids=MASKED)
@pytest.mark.parametrize("shape", [(5, 7), (2, 1, 5, 7), (2, 1, 1, 7)])
def test_a_mask_that_hides_with_a_finite_number(mask, shape):
    def function(q, k, v, m):
        return softmax(mask(scores(q, k) * 0.3, m), v)

    seen = torch.rand(shape) > 0.5
    seen[..., 0] = True
    applied, refused = find("SDPA", function, Q, K, V, seen)
    assert applied == 1, refused


def test_rows_that_are_hidden_throughout_by_a_finite_number_see_all_alike():
    def function(q, k, v, m):
        return softmax(torch.where(m, scores(q, k) * 0.3, MIN), v)

    assert find("SDPA", function, Q, K, V, torch.zeros(5, 7, dtype=torch.bool))[0] == 1


@pytest.mark.parametrize("hidden", [-1e4, -1e9, -3e38])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_hidden_rows_are_even_whatever_the_scores_are(hidden, dtype):
    def function(q, k, v, m):
        return softmax(torch.where(m, scores(q, k) * 30.0, hidden), v)

    operands = (one.to(dtype) for one in (Q, K, V))
    assert find("SDPA", function, *operands, torch.zeros(5, 7, dtype=torch.bool))[0] == 1


def test_a_number_of_float16_hides_no_whole_row():
    def given(q, k, v, m):
        return softmax(torch.where(m, scores(q, k), -65504.0), v)

    def constant(q, k, v, m):
        return softmax(torch.where(torch.ones(5, 7).tril() > 0, scores(q, k), -65504.0), v)

    operands = [*(one.half() for one in (Q, K, V)), torch.zeros(5, 7, dtype=torch.bool)]
    reason = "a row that is hidden throughout is not even in float16"
    assert find("SDPA", given, *operands) == (0, {reason})
    assert find("SDPA", constant, *operands)[0] == 1


@pytest.mark.parametrize(
    "masked",
    [
        lambda s, m: s + torch.where(m, 0.0, MIN),
        lambda s, m: torch.where(m, 0.0, MIN) + s,
        lambda s, m: torch.where(m, s, MIN),
    ],
)
@pytest.mark.parametrize(
    ("q", "k"),
    [((2, 3, 5, 8), (2, 3, 1, 8)), ((2, 3, 1, 8), (2, 3, 7, 8)), ((1, 3, 5, 8), (1, 3, 7, 8))],
    ids=["places", "queries", "batches"],
)
def test_scores_that_are_broadcast_to_the_mask(masked, q, k):
    def function(q, k, v, m):
        return softmax(masked(scores(q, k), m), v)

    seen = torch.rand(2, 1, 5, 7) > 0.5
    applied, refused = find("SDPA", function, torch.randn(q), torch.randn(k), V, seen)
    assert applied == 0
    assert "the scores are broadcast to the mask" in refused


def test_folded_scores_that_are_broadcast_to_the_mask():
    def function(q, k, v, m):
        added = torch.bmm(q, k.transpose(1, 2)).view(1, 1, 5, 7) + torch.where(m, 0.0, MIN)
        return torch.bmm(added.softmax(-1).view(2, 5, 7), v.view(2, 7, 8))

    operands = torch.randn(1, 5, 8), torch.randn(1, 7, 8), torch.randn(2, 1, 7, 8)
    assert find("SDPA", function, *operands, torch.rand(2, 1, 5, 7) > 0.5)[0] == 0


OPEN = "nothing shows that the mask leaves something to see in every row"
REFUSED = {
    "a float mask that is given": (lambda q, k, v, m: softmax(scores(q, k) + m.float(), v), OPEN),
    "-inf in where": (
        lambda q, k, v, m: softmax(torch.where(m, scores(q, k), -torch.inf), v),
        OPEN,
    ),
    "-inf in masked_fill": (
        lambda q, k, v, m: softmax(scores(q, k).masked_fill(m, -torch.inf), v),
        OPEN,
    ),
    "a constant row of -inf": (
        lambda q, k, v, m: softmax(scores(q, k) + torch.full((5, 7), -torch.inf).triu(0), v),
        OPEN,
    ),
    "a mask that a cast makes -inf": (
        lambda q, k, v, m: softmax(
            scores(q, k) + torch.where(m, 0.0, -1e38).to(torch.float16).float(), v
        ),
        OPEN,
    ),
    "a number that is added": (
        lambda q, k, v, m: softmax(scores(q, k) + 1.5, v),
        "what is added to the scores is a number",
    ),
    "a number that does not hide": (
        lambda q, k, v, m: softmax(torch.where(m, scores(q, k), 0.0), v),
        "what takes the place of scores does not hide them",
    ),
    "a number that hides little": (
        lambda q, k, v, m: softmax(scores(q, k).masked_fill(m, -100.0), v),
        "what takes the place of scores does not hide them",
    ),
    "division by zero": (
        lambda q, k, v, m: softmax(scores(q, k) / 0.0, v),
        "the scores are divided by zero",
    ),
    "a scale that is no number": (
        lambda q, k, v, m: softmax(scores(q, k) * math.nan, v),
        "the scale is nan",
    ),
    "an infinite scale": (
        lambda q, k, v, m: softmax(scores(q, k) * math.inf, v),
        "the scale is inf",
    ),
    "softmax over another dimension": (
        lambda q, k, v, m: torch.softmax(scores(q, k), -2) @ v,
        "the softmax does not go over the last dimension",
    ),
    "weights that are read elsewhere": (
        lambda q, k, v, m: (torch.softmax(scores(q, k), -1) @ v, torch.softmax(scores(q, k), -1)),
        "something else reads a value inside",
    ),
}


@pytest.mark.parametrize(("function", "reason"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused(function, reason):
    applied, refused = find("SDPA", function, Q, K, V, torch.rand(5, 7) > 0.5)
    assert applied == 0
    assert reason in refused


def test_a_scale_that_is_known_at_run_time_only():
    def function(q, k, s, v):
        return softmax(scores(q, k) * s, v)

    applied, refused = find("SDPA", function, Q, K, torch.tensor(0.3), V)
    assert applied == 0
    assert "the scale is known at run time only" in refused


OTHER = {
    "a cap": lambda q, k, v: softmax(torch.tanh(scores(q, k) / 50) * 50, v),
    "two masks": lambda q, k, v: softmax(scores(q, k) + q.sum() + k.sum(), v),
    "dropout": lambda q, k, v: functional.dropout(torch.softmax(scores(q, k), -1), 0.5, True) @ v,
    "log softmax": lambda q, k, v: torch.log_softmax(scores(q, k), -1) @ v,
    "sigmoid": lambda q, k, v: torch.sigmoid(scores(q, k)) @ v,
}


@pytest.mark.parametrize("function", OTHER.values(), ids=OTHER)
def test_something_else_is_left_alone(function):
    assert find("SDPA", function, Q, K, V)[0] == 0


def test_one_head_without_a_batch():
    def function(q, k, v):
        return torch.softmax(q @ k.t() / 3, -1) @ v

    assert find("SDPA", function, Q[0, 0], K[0, 0], V[0, 0])[0] == 0  # mm, and no bmm


def test_three_dimensions():
    applied, refused = find("SDPA", SPELLINGS["divided"], Q[0], K[0], V[0])
    assert applied == 1, refused


def test_heads_of_query_and_value_may_differ():
    assert find("SDPA", SPELLINGS["divided"], Q, K, torch.randn(2, 3, 7, 4))[0] == 1


def test_heads_that_are_split_from_one_projection():
    def function(x, w):
        q, k, v = (
            one.view(2, 5, 3, 8).transpose(1, 2) for one in functional.linear(x, w).chunk(3, -1)
        )
        return softmax(scores(q, k) * 8**-0.5, v).transpose(1, 2).reshape(2, 5, 24)

    assert find("SDPA", function, torch.randn(2, 5, 16), torch.randn(72, 16))[0] == 1


def test_heads_that_are_repeated_for_groups_of_queries():
    def function(q, k, v):
        def repeated(one):
            return one[:, :, None].expand(2, 1, 3, 7, 8).reshape(2, 3, 7, 8)

        return softmax(scores(q, repeated(k)) * 8**-0.5, repeated(v))

    assert find("SDPA", function, Q, K[:, :1], V[:, :1])[0] == 1


HALF = [one.to(torch.float16) for one in (Q, K, V)]


def test_a_half_mask_that_may_hide_a_row_is_refused():
    def function(q, k, v, m):
        return softmax(scores(q, k) + torch.where(m, 0.0, -65504.0).to(torch.float16), v)

    applied, refused = find("SDPA", function, *HALF, torch.zeros(5, 7, dtype=torch.bool))
    assert applied == 0
    assert OPEN in refused


def test_a_half_mask_that_hides_no_row_is_taken():
    def function(q, k, v):
        return softmax(scores(q, k) + torch.full((5, 7), -65504.0).triu(1).to(torch.float16), v)

    assert find("SDPA", function, *HALF)[0] == 1


def test_a_bfloat16_mask_hides_with_its_least_number():
    least = torch.finfo(torch.bfloat16).min

    def function(q, k, v, m):
        return softmax(scores(q, k) + torch.where(m, 0.0, least).to(torch.bfloat16), v)

    given = [one.to(torch.bfloat16) for one in (Q, K, V)]
    assert find("SDPA", function, *given, torch.zeros(5, 7, dtype=torch.bool))[0] == 1
