"""EmbeddingBundle: rows of several tables, joined.

    cat([embedding(t0, ids[:, 0]), embedding(t1, ids[:, 3])], -1)
        ->    EmbeddingBundle([t0, t1], [ids], [0, 3])
    cat([embedding(t0, a), embedding(t1, b)], -1)
        ->    EmbeddingBundle([t0, t1], [a, b], None)

Found: two neighbours or more in a ``cat`` over the last dimension, whatever else that joins; and
tables of one width in a ``stack``, or a ``cat`` of [..., 1, E], over the dimension before it. Ids
are columns of one matrix (``select``, ``unbind``), or tensors of their own. A table may come twice.

Left alone: an embedding that something else reads, which keeps its neighbours apart; tables or ids
of several dtypes; other dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from typing_extensions import override

from xpu_graph.fx import aten, same_size
from xpu_graph.passes.arguments import argument
from xpu_graph.passes.patterns.shape import Match, Shape
from xpu_graph.passes.patterns.structure.base import Structure
from xpu_graph.passes.pieces import Piece, Pieces
from xpu_graph.passes.rewriter import Rewriter


def reference(tables: Any, ids: Any, columns: Any) -> Any:
    """The rows of tables, joined in the last dimension.

    Args:
        tables: [rows, E of the table], one dtype.
        ids: [..., columns], alone in a list, int32 or int64; without ``columns`` a tensor [...] a
            table, all of one shape and dtype.
        columns: for each table its column of the ids; None where it has a tensor of its own.
    """
    if columns is not None:
        ids = [ids[0].select(-1, column) for column in columns]
    found = zip(tables, ids, strict=True)
    return torch.cat([torch.embedding(table, rows) for table, rows in found], -1)


class EmbeddingBundleShape(Shape):
    """Neighbouring embeddings in a cat or a stack."""

    def __init__(self) -> None:
        self._pieces = Pieces()

    @override
    def candidates(self, rewriter: Rewriter) -> Iterable[fx.Node]:
        if not rewriter.has_calls([aten.embedding.default]):
            return ()
        return rewriter.calls_of((aten.cat.default, aten.stack.default), 0)

    @override
    def find(self, candidate: fx.Node) -> Iterator[Match]:
        self.nearest = (0, "")
        parts: Any = candidate.args[0]
        runs = list(_runs(parts, candidate))
        if not runs and sum(part.target is aten.embedding.default for part in parts) > 1:
            self.nearest = (2, "something else reads an embedding, or stands between two")
        for start, stop in sorted(runs, key=lambda run: run[0] - run[1]):
            yield self._match(candidate, parts, start, stop)

    def _match(self, joined: fx.Node, parts: Sequence[fx.Node], start: int, stop: int) -> Match:
        bundle = parts[start:stop]
        tables, rows = ([node.args[place] for node in bundle] for place in (0, 1))
        rank = joined.meta["val"].dim()
        is_last = joined.target is aten.cat.default and argument(joined, "dim") % rank == rank - 1
        refusal = _why_not_of_one_dtype("tables", tables) or _why_not_of_one_dtype("ids", rows)
        if refusal is None and not is_last:
            refusal = _why_not_stacked(joined, len(tables), len(parts))
        return Match(
            inputs=[
                tables,
                *self._columns(rows),
                parts[:start],
                parts[stop:],
                None if is_last else rank - 2,
            ],
            outputs=[joined],
            inner=list(dict.fromkeys(bundle)),
            refusal=refusal,
            call=_call,
        )

    def _columns(self, rows: list[Any]) -> tuple[list[Any], list[int] | None]:
        """What the ids are columns of, and which; the ids, and None, where they are not."""
        pieces = [self._pieces.of(one) for one in rows]
        found = [piece for piece in pieces if piece is not None and _is_column(piece)]
        if len(found) < len(rows) or any(one.source is not found[0].source for one in found):
            return rows, None
        return [found[0].source], [one.start for one in found]  # type: ignore[misc]


def _runs(parts: Sequence[fx.Node], joined: fx.Node) -> Iterator[tuple[int, int]]:
    """The longest runs of two embeddings or more that nothing but their join reads."""
    start = 0
    for position in range(len(parts) + 1):
        if position < len(parts) and _is_own(parts[position], joined):
            continue
        if position - start > 1:
            yield start, position
        start = position + 1


def _is_own(part: fx.Node, joined: fx.Node) -> bool:
    return part.target is aten.embedding.default and list(part.users) == [joined]


def _is_column(piece: Piece) -> bool:
    last = piece.source.meta["val"].dim() - 1
    return piece.drops_dim and piece.dim == last and piece.bounds is not None


def _why_not_of_one_dtype(what: str, nodes: list[Any]) -> str | None:
    is_one = len({node.meta["val"].dtype for node in nodes}) == 1
    return None if is_one else f"the {what} are of several dtypes"


def _why_not_stacked(joined: fx.Node, tables: int, parts: int) -> str | None:
    """Whether what is joined before the last dimension lies as if it were joined there."""
    value = joined.meta["val"]
    if argument(joined, "dim") % value.dim() != value.dim() - 2:
        return "the embeddings are joined before the last two dimensions"
    if tables < parts:
        return "the embeddings are stacked with something else"
    if not same_size(value.shape[-2], tables):
        return "several rows of each table are joined before the last dimension"
    return None


def _call(
    function: Callable[..., Any],
    tables: Any,
    ids: Any,
    columns: Any,
    before: Any,
    after: Any,
    lead: int | None,
) -> Any:
    """The bundle, and what its join does besides.

    Args:
        function: an implementation.
        tables: as the reference has it.
        ids: the same.
        columns: the same.
        before: what is joined before the bundle.
        after: what is joined after it.
        lead: for a join before the last dimension how many dimensions precede it; else None.
    """
    joined = function(list(tables), list(ids), None if columns is None else list(columns))
    if lead is not None:
        return joined.reshape(*joined.shape[:lead], len(tables), tables[0].shape[-1])
    return torch.cat([*before, joined, *after], -1) if before or after else joined


def examples() -> tuple[Any, ...]:
    tables = [torch.randn(7, 4), torch.randn(5, 3)]
    return tables, [torch.randint(0, 5, (6, 3))], [2, 0]


EMBEDDING_BUNDLE = Structure("EmbeddingBundle", reference, examples, coded=(EmbeddingBundleShape,))
