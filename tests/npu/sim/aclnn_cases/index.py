"""Reading and writing by index."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from aclnn_cases.maker import ALL, FLOATS, INTS, NUMBERS, Case

CASES: dict[str, Case] = {}

CASES |= {
    "index": Case(lambda x, i: x[i], lambda m: (m(5, 4), m.index(5, 3)), ALL),
    "index two": Case(
        lambda x, i, j: x[i, j], lambda m: (m(5, 4), m.index(5, 3), m.index(4, 3)), ALL
    ),
    "index second": Case(lambda x, i: x[:, i], lambda m: (m(5, 4), m.index(4, 3)), ALL),
    "index apart": Case(
        lambda x, i, j: x[i, :, j], lambda m: (m(5, 4, 3), m.index(5, 2), m.index(3, 2)), ALL
    ),
    "index negative": Case(lambda x: x[:, -1], dtypes=ALL),
    "index mask": Case(lambda x, c: x[c], lambda m: (m(3, 4), m.mask(3, 4)), ALL),
    "index_put": Case(
        lambda x, i, v: x.index_put((i,), v), lambda m: (m(5, 4), m.places(5, 3), m(3, 4)), ALL
    ),
    "index_put_": Case(
        lambda x, i, v: x.index_put_((i,), v), lambda m: (m(5, 4), m.places(5, 3), m(4)), ALL
    ),
    "index_put_ accumulate": Case(
        lambda x, i, v: x.index_put_((i,), v, accumulate=True),
        lambda m: (m(5, 4), m.index(5, 7), m(7, 4)),
        ("float32", "int64"),
    ),
    "index_put_ mask": Case(
        lambda x, c: (x.__setitem__(c, 0), x)[1], lambda m: (m(3, 4), m.mask(3, 4)), ALL
    ),
    "index_put_ rows and columns": Case(
        lambda x, i, j, v: x.index_put_((i, j), v),
        lambda m: (m(5, 4), m.places(5, 3), m.places(4, 3), m(3)),
        ALL,
    ),
    "index_select": Case(
        lambda x, i: x.index_select(1, i), lambda m: (m(3, 4), m.index(4, 5)), ALL
    ),
    "index_add": Case(
        lambda x, i, s: x.index_add(0, i, s, alpha=2),
        lambda m: (m(5, 4), m.index(5, 3), m(3, 4)),
        ("float32", "int64"),
    ),
    "index_add_": Case(
        lambda x, i, s: x.index_add_(0, i, s),
        lambda m: (m(5, 4), m.index(5, 3), m(3, 4)),
        ("float32", "int64"),
    ),
    "index_copy": Case(
        lambda x, i, s: x.index_copy(1, i, s), lambda m: (m(5, 4), m.places(4, 2), m(5, 2)), ALL
    ),
    "index_copy_": Case(
        lambda x, i, s: x.index_copy_(0, i, s), lambda m: (m(5, 4), m.places(5, 2), m(2, 4)), ALL
    ),
    "index_fill": Case(
        lambda x, i: x.index_fill(1, i, 1), lambda m: (m(5, 4), m.places(4, 2)), NUMBERS
    ),
    "index_fill_": Case(
        lambda x, i: x.index_fill_(1, i, 1), lambda m: (m(5, 4), m.places(4, 2)), NUMBERS
    ),
    "gather": Case(lambda x, i: torch.gather(x, 1, i), lambda m: (m(3, 4), m.index(4, 3, 2)), ALL),
    "take_along_dim": Case(
        lambda x, i: torch.take_along_dim(x, i, 1), lambda m: (m(3, 4), m.index(4, 3, 2)), ALL
    ),
    "take": Case(torch.take, lambda m: (m(3, 4), m.index(12, 5)), FLOATS),
    "put_": Case(lambda x, i, s: x.put_(i, s), lambda m: (m(3, 4), m.places(12, 5), m(5)), NUMBERS),
    "scatter": Case(
        lambda x, i, s: x.scatter(1, i, s),
        lambda m: (m(3, 4), torch.stack([m.places(4, 2) for _ in range(3)]), m(3, 2)),
        ALL,
    ),
    "scatter_": Case(
        lambda x, i, s: x.scatter_(1, i, s),
        lambda m: (m(3, 4), torch.stack([m.places(4, 2) for _ in range(3)]), m(3, 2)),
        ALL,
    ),
    "scatter value": Case(
        lambda x, i: x.scatter(1, i, 1), lambda m: (m(3, 4), m.index(4, 3, 2)), NUMBERS
    ),
    "scatter_ value": Case(
        lambda x, i: x.scatter_(1, i, 1), lambda m: (m(3, 4), m.index(4, 3, 2)), NUMBERS
    ),
    "scatter add": Case(
        lambda x, i, s: x.scatter(1, i, s, reduce="add"),
        lambda m: (m(3, 4), m.index(4, 3, 2), m(3, 2)),
        ("float32",),
    ),
    "scatter_add": Case(
        lambda x, i, s: x.scatter_add(1, i, s),
        lambda m: (m(3, 4), m.index(4, 3, 2), m(3, 2)),
        ("float32", "int64"),
    ),
    "scatter_add_": Case(
        lambda x, i, s: x.scatter_add_(1, i, s),
        lambda m: (m(3, 4), m.index(4, 3, 2), m(3, 2)),
        ("float32", "int64"),
    ),
    "scatter_reduce": Case(
        lambda x, i, s: x.scatter_reduce(1, i, s, "amax"),
        lambda m: (m(3, 4), m.index(4, 3, 2), m(3, 2)),
        ("float32",),
    ),
    "embedding": Case(F.embedding, lambda m: (m.index(5, 2, 3), m(5, 4))),
    "embedding_bag sum": Case(
        lambda i, w, o: F.embedding_bag(i, w, o, mode="sum"),
        lambda m: (m.index(6, 7), m(6, 4), torch.tensor([0, 2, 2, 5])),
    ),
    "embedding_bag mean": Case(
        lambda i, w: F.embedding_bag(i, w, mode="mean"), lambda m: (m.index(6, 3, 2), m(6, 4))
    ),
    "embedding_bag max": Case(
        lambda i, w, o: F.embedding_bag(i, w, o, mode="max"),
        lambda m: (m.index(6, 7), m(6, 4), torch.tensor([0, 2, 5])),
        ("float32",),
    ),
    "embedding_bag weighted": Case(
        lambda i, w, o, s: F.embedding_bag(i, w, o, mode="sum", per_sample_weights=s),
        lambda m: (m.index(6, 7), m(6, 4), torch.tensor([0, 2, 5]), m(7)),
    ),
    "embedding_bag last offset": Case(
        lambda i, w, o: F.embedding_bag(i, w, o, mode="sum", include_last_offset=True),
        lambda m: (m.index(6, 7), m(6, 4), torch.tensor([0, 2, 5, 7])),
    ),
    "embedding_bag padding": Case(
        lambda i, w, o: F.embedding_bag(i, w, o, mode="sum", padding_idx=1),
        lambda m: (m.index(6, 7), m(6, 4), torch.tensor([0, 2, 5])),
    ),
    "one_hot": Case(lambda i: F.one_hot(i, 5), lambda m: (m.index(5, 2, 3),), ("int64",)),
    "nonzero": Case(torch.nonzero, lambda m: (m.mask(3, 4),), ("bool",)),
    "masked_select": Case(torch.masked_select, lambda m: (m(3, 4), m.mask(3, 4)), ALL),
    "unique": Case(torch.unique, lambda m: (m(20),), INTS),
    "unique counts": Case(
        lambda x: torch.unique(x, return_inverse=True, return_counts=True), lambda m: (m(20),), INTS
    ),
    "unique_consecutive": Case(torch.unique_consecutive, lambda m: (m(20),), INTS),
    "bucketize": Case(
        torch.bucketize, lambda m: (m(3, 4), m(5).sort().values), ("float32", "int64")
    ),
    "searchsorted": Case(
        torch.searchsorted, lambda m: (m(5).sort().values, m(3, 4)), ("float32", "int64")
    ),
    "bincount": Case(torch.bincount, lambda m: (m.index(6, 9),), ("int64",)),
}
