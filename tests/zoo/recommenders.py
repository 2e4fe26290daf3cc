"""Recommenders in plain torch, small, written in the ways that people write them.

Sparse features come as columns of one matrix of row numbers, or of one matrix of floats that holds
everything. Embeddings are concatenated, cut into groups of fields again, stacked and summed, and
feed towers of linear layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

ROWS = (11, 23, 17, 31, 13, 41, 29, 19)
"""Rows of the table of each sparse field; floats of eight bits of precision still count them."""

DENSE = 5
SIZES = ((4, 6), (7, 9))
"""Batch, and length of a history, of the small and the large call."""

Inputs = dict[str, Tensor]


def _columns(batch: int, rows: Sequence[int] = ROWS) -> Tensor:
    """One matrix of row numbers, a column a field."""
    return torch.stack([torch.randint(0, most, (batch,)) for most in rows], dim=1)


def tower(*widths: int, last_is_plain: bool = False) -> nn.Sequential:
    """Linear layers, each with a ReLU behind it; perhaps not the last."""
    layers: list[nn.Module] = []
    for narrow, wide in pairwise(widths):
        layers += [nn.Linear(narrow, wide), nn.ReLU()]
    return nn.Sequential(*(layers[:-1] if last_is_plain else layers))


class Dlrm(nn.Module):
    """Dot products of all pairs of embeddings, between a bottom and a top tower.

    The last field has three values an example, in columns of their own: a bag.
    """

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for rows in ROWS)
        self.bag = nn.EmbeddingBag(37, width, mode="sum")
        self.bottom = tower(DENSE, 20, width)
        vectors = len(ROWS) + 2
        row, column = torch.tril_indices(vectors, vectors, offset=-1)
        self.register_buffer("row", row)
        self.register_buffer("column", column)
        self.top = tower(width + len(row), 24, 10, 1, last_is_plain=True)

    def forward(self, dense: Tensor, ids: Tensor) -> Tensor:
        bottom = self.bottom(dense)
        fields = [table(ids[:, field]) for field, table in enumerate(self.tables)]
        fields.append(self.bag(ids[:, len(ROWS) :]))
        vectors = torch.cat([bottom, *fields], dim=1).view(dense.size(0), -1, bottom.size(1))
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        pairs = products[:, self.row, self.column]
        return torch.sigmoid(self.top(torch.cat([bottom, pairs], dim=1)))

    @staticmethod
    def inputs(batch: int, length: int) -> Inputs:
        return {
            "dense": torch.randn(batch, DENSE),
            "ids": _columns(batch, (*ROWS, 37, 37, 37)),
        }


class Dcn(nn.Module):
    """A cross network of full matrices beside a deep tower.

    One matrix of floats holds everything: the columns of sparse fields are cast, those of dense
    features stand in groups between them.
    """

    WIDTH = 6
    CUTS = (0, 3, 6, len(ROWS))

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, self.WIDTH) for rows in ROWS)
        width = len(ROWS) * self.WIDTH + 2 * DENSE
        self.cross = nn.ModuleList(nn.Linear(width, width) for _ in range(3))
        self.deep = tower(width, 32, 16)
        self.logit = nn.Linear(width + 16, 1, bias=False)

    def forward(self, features: Tensor) -> Tensor:
        embedded, dense, column, field = [], [], 0, 0
        for first, last in pairwise(self.CUTS):
            for _ in range(first, last):
                embedded.append(self.tables[field](features[:, column : column + 1].long()))
                column, field = column + 1, field + 1
            if column + DENSE <= features.size(1):
                dense.append(features[:, column : column + DENSE])
                column += DENSE
        sparse = torch.flatten(torch.cat(embedded, dim=-1), start_dim=1)
        start = torch.cat([sparse, torch.cat(dense, dim=-1)], dim=-1)
        crossed = start
        for layer in self.cross:
            crossed = start * layer(crossed) + crossed
        stacked = torch.cat([crossed, self.deep(start)], dim=-1)
        return torch.sigmoid(self.logit(stacked))

    @classmethod
    def inputs(cls, batch: int, length: int) -> Inputs:
        ids = _columns(batch).float()
        groups: list[Tensor] = []
        for first, last in pairwise(cls.CUTS):
            groups += [ids[:, first:last], torch.randn(batch, DENSE)]
        return {"features": torch.cat(groups[:-1], dim=1)}


class MMoE(nn.Module):
    """Experts shared by two tasks, and a gate for each task that reads some of the fields.

    One table serves all fields, at offsets; groups of fields are cut out of its flat result.
    """

    WIDTH = 8
    FIELDS = (*ROWS, *ROWS)
    USER, ITEM, CONTEXT = (0, 1, 4, 8, 11), (2, 3, 7, 9), (5, 6, 10, 12, 13, 14, 15)

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("offsets", torch.tensor((0, *self.FIELDS[:-1])).cumsum(0))
        self.table = nn.Embedding(sum(self.FIELDS), self.WIDTH)
        user, item = len(self.USER) * self.WIDTH, len(self.ITEM) * self.WIDTH
        width = user + item + self.WIDTH
        self.experts = nn.ModuleList(tower(width, 20, 14) for _ in range(3))
        self.gates = nn.ModuleList((nn.Linear(user, 3), nn.Linear(item, 3)))
        self.towers = nn.ModuleList(tower(14, 10, 1, last_is_plain=True) for _ in range(2))

    def _group(self, flat: Tensor, fields: Sequence[int]) -> list[Tensor]:
        return [flat[:, one * self.WIDTH : (one + 1) * self.WIDTH] for one in fields]

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        flat = self.table(ids + self.offsets).flatten(1)
        user = torch.cat(self._group(flat, self.USER), dim=1)
        item = torch.cat(self._group(flat, self.ITEM), dim=1)
        context = torch.stack(self._group(flat, self.CONTEXT), dim=0).sum(dim=0)
        shared = torch.cat([user, item, context], dim=1)
        experts = torch.stack([expert(shared) for expert in self.experts], dim=1)
        results = []
        for gate, group, head in zip(self.gates, (user, item), self.towers, strict=True):
            shares = torch.softmax(gate(group), dim=-1).unsqueeze(-1)
            results.append(torch.sigmoid(head((experts * shares).sum(dim=1))))
        click, purchase = results
        return click, purchase

    @classmethod
    def inputs(cls, batch: int, length: int) -> Inputs:
        return {"ids": _columns(batch, cls.FIELDS)}


class Din(nn.Module):
    """A history weighed by how it fits a candidate, and a profile of eight fields.

    Row 0 of the tables of items pads histories.
    """

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.items = nn.Embedding(43, width, padding_idx=0)
        self.shops = nn.Embedding(15, width, padding_idx=0)
        self.profile = nn.ModuleList(nn.Embedding(rows, 4) for rows in ROWS)
        both = 2 * width
        self.fits = nn.Sequential(
            nn.Linear(4 * both, 18), nn.Sigmoid(), nn.Linear(18, 9), nn.Sigmoid(), nn.Linear(9, 1)
        )
        self.first = nn.Linear(len(ROWS) * 4 + 3 * both, 26)
        self.slope = nn.PReLU()
        self.second = nn.Linear(26, 1)

    def forward(self, profile: Tensor, candidate: Tensor, items: Tensor, shops: Tensor) -> Tensor:
        wanted = torch.cat([self.items(candidate[:, 0]), self.shops(candidate[:, 1])], dim=-1)
        history = torch.cat([self.items(items), self.shops(shops)], dim=-1)
        target = wanted.unsqueeze(1).expand(-1, history.size(1), -1)
        pairs = torch.cat([target, history, target - history, target * history], dim=-1)
        scores = self.fits(pairs).squeeze(-1).masked_fill(items == 0, 0.0)
        interest = torch.matmul(scores.unsqueeze(1), history).squeeze(1)
        fields = [table(profile[:, field]) for field, table in enumerate(self.profile)]
        everything = torch.cat([*fields, interest, wanted, interest * wanted], dim=-1)
        return torch.sigmoid(self.second(self.slope(self.first(everything)))).squeeze(-1)

    @staticmethod
    def inputs(batch: int, length: int) -> Inputs:
        items = torch.randint(1, 43, (batch, length))
        items[1, length - 3 :] = 0
        return {
            "profile": _columns(batch),
            "candidate": _columns(batch, (43, 15)),
            "items": items,
            "shops": torch.randint(1, 15, (batch, length)).masked_fill(items == 0, 0),
        }


class WideAndDeep(nn.Module):
    """A sum of weights a field, second order products by pooling, and a deep tower."""

    WIDTH = 10

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ModuleList(nn.Embedding(rows, 1) for rows in ROWS)
        self.tables = nn.ModuleList(nn.Embedding(rows, self.WIDTH) for rows in ROWS)
        self.dense = nn.Linear(DENSE, 1)
        self.norm = nn.BatchNorm1d(DENSE)
        self.user = tower(4 * self.WIDTH, 16, 12)
        self.item = tower(4 * self.WIDTH, 16, 12)
        self.deep = tower(24 + 3 * self.WIDTH + DENSE, 28, 14, 1, last_is_plain=True)

    def forward(self, ids: Tensor, dense: Tensor) -> Tensor:
        columns = ids.unbind(dim=1)
        weights = [table(column) for table, column in zip(self.weights, columns, strict=True)]
        wide = torch.stack(weights, dim=1).sum(dim=1) + self.dense(dense)

        embedded = [table(column) for table, column in zip(self.tables, columns, strict=True)]
        sparse = torch.cat(embedded, dim=1)
        half = 4 * self.WIDTH
        user, item = sparse[:, :half], sparse[:, half:]
        cut = [sparse[:, one : one + self.WIDTH] for one in range(0, 2 * half, self.WIDTH)]
        total = torch.stack(cut).sum(0)
        products = 0.5 * (total.square() - torch.stack([one.square() for one in cut]).sum(0))
        edges = torch.cat([cut[0], cut[-1]], dim=1)
        towers = [self.user(user), self.item(item)]
        everything = torch.cat([*towers, products, edges, self.norm(dense)], dim=1)
        return torch.sigmoid(wide + self.deep(everything))

    @staticmethod
    def inputs(batch: int, length: int) -> Inputs:
        return {"ids": _columns(batch), "dense": torch.randn(batch, DENSE)}


MODELS = {
    "dlrm": Dlrm,
    "dcn": Dcn,
    "mmoe": MMoE,
    "din": Din,
    "wide-deep": WideAndDeep,
}


def inputs(name: str) -> tuple[Inputs, Inputs]:
    """Arguments of a small call and of a large one."""
    small, large = (MODELS[name].inputs(*sizes) for sizes in SIZES)
    return small, large
