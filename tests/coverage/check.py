"""Runs a cell of the table: the program eagerly and compiled, and compares all that can be seen."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from tests.coverage.row import Row
from xpu_graph import XpuGraph, XpuGraphConfig, XpuGraphLocalCache
from xpu_graph.testing import alias_classes, assert_same

FIELDS = {
    "inference": {"opt_level": "level2", "enable_cache": False},
    "training": {"opt_level": "level2", "enable_cache": False},
    "inductor": {"target": "cpu", "vendor_compiler_config": {}},
    "cached": {},
}


def check_cell(row: Row, column: str, cache_directory: Any = None, dynamic: bool = False) -> None:
    """Hold one cell: compare with eager, or expect the error.

    Raises:
        AssertionError: the outcome is another.
    """
    outcome = row.outcome(column)
    config = XpuGraphConfig(**FIELDS[column])  # type: ignore[arg-type]
    train = column == "training" or (column != "inference" and row.training == "works")
    if outcome.startswith("error: "):
        backend = XpuGraph(config)
        kind = outcome.removeprefix("error: ")
        for tried in (backend, *([] if column == "inductor" else ["aot_eager"])):
            error = _error(row, tried, train, dynamic)
            assert type(error).__name__ == kind, f"{tried}: {error!r}"
            assert row.says in str(error), f"{tried}: {error}"
        return
    backend = XpuGraph(config, XpuGraphLocalCache(cache_directory) if cache_directory else None)
    bitwise = row.bitwise and not train and column != "inductor"
    _compare(row, backend, train, dynamic, bitwise)
    if column == "inference" and not dynamic:
        assert len(backend.reports) >= 1, "nothing was compiled"
    if column == "cached":
        _check_cache(row, XpuGraph(config, backend.cache), train, dynamic, bitwise)


def _check_cache(row: Row, second: XpuGraph, train: bool, dynamic: bool, bitwise: bool) -> None:
    _compare(row, second, train, dynamic, bitwise)
    found = [
        graph.cache
        for report in second.reports
        for graph in report.graphs
        if graph.stage != "joint"  # its parts are kept
    ]
    assert found, "nothing was compiled"
    if row.cached == "works":
        assert set(found) == {"hit"}, found
    else:
        reason = row.cached.removeprefix("not cached: ")
        assert any(f"not cacheable: {reason}" in told for told in found), found


def _error(row: Row, backend: Any, train: bool, dynamic: bool) -> BaseException | None:
    try:
        _observe(row, backend, train, dynamic)
    except Exception as error:  # which one is what the caller asks
        return getattr(error, "inner_exception", error)
    return None


def _compare(row: Row, backend: Any, train: bool, dynamic: bool, bitwise: bool) -> None:
    want = _observe(row, None, train, dynamic)
    got = _observe(row, backend, train, dynamic)
    tolerances = {} if bitwise else {"rtol": 1e-4, "atol": 1e-5}
    for mine, eagers in zip(got, want, strict=True):
        for what, eager in eagers.items():
            assert_same(mine[what], eager, what, bitwise=bitwise, **tolerances)


def _observe(row: Row, backend: Any, train: bool, dynamic: bool) -> list[dict[str, Any]]:
    """What every call does: results, inputs afterwards, gradients, state, shared memory."""
    torch._dynamo.reset()

    def wrap(function: Any, **options: Any) -> Any:
        if backend is None:
            return function
        options = {"fullgraph": row.fullgraph, "dynamic": dynamic or None, **options}
        return torch.compile(function, backend=backend, **options)

    torch.manual_seed(0)
    program = row.make(wrap) if row.make is not None else row.program
    call = wrap(program)
    return [_one_call(row, wrap, program, call, inputs(), train) for inputs in row.inputs]


def _one_call(
    row: Row, wrap: Any, program: Any, call: Any, inputs: tuple[Any, ...], train: bool
) -> dict[str, Any]:
    leaves = _leaves(row, inputs) if train else []
    for leaf in leaves:
        leaf.requires_grad_()
    torch.manual_seed(1)
    with torch.set_grad_enabled(train), row.around(wrap):
        results = row.drive(call, inputs)
        kept = plain(results), plain(inputs)
        if train:
            losses = [_loss(t) for t in _tensors(results) if t.requires_grad]
            assert losses, "no result needs gradients"
            sum(losses).backward()
    seen: dict[str, Any] = {"result": kept[0], "input after the call": kept[1]}
    seen["memory shared"] = alias_classes(_tensors(kept))
    if train:
        seen["gradient"] = [plain(leaf.grad) for leaf in leaves]
    if isinstance(program, torch.nn.Module):
        seen["gradient of a parameter"] = [plain(p.grad) for p in program.parameters()]
        seen["state"] = [plain(value) for value in program.state_dict().values()]
    return seen


def _leaves(row: Row, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
    if row.leaves is not None:
        return [inputs[position] for position in row.leaves]
    found = pytree.tree_leaves(inputs)
    return [
        t
        for t in found
        if isinstance(t, torch.Tensor) and (t.is_floating_point() or t.is_complex())
    ]


def _loss(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_sparse or tensor.layout == torch.sparse_csr:
        tensor = tensor.to_dense()
    return (tensor * tensor.conj()).real.sum() if tensor.is_complex() else tensor.square().sum()


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def plain(tree: Any) -> Any:
    """A nest in which tensor subclasses are the tensors they hold, with what else they say."""
    return pytree.tree_map(_plain, tree)


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and is_traceable_wrapper_subclass(value):
        names, context = value.__tensor_flatten__()
        held = {name: _plain(getattr(value, name)) for name in names}
        outer = [value.dtype, value.shape, value.requires_grad]
        return [type(value).__name__, repr(context), repr(outer), held]
    return value
