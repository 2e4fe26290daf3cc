"""Runs a cell of the table: the program eagerly and compiled, and compares all that can be seen."""

from __future__ import annotations

import pathlib
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from tests.coverage.row import EAGERLY, IN_PARTS, WORKS, Row
from xpu_graph import XpuGraph, XpuGraphConfig, XpuGraphLocalCache
from xpu_graph.testing import alias_classes, assert_same

NO_CODE = "not cached: Inductor cannot serialise this graph"
LEVEL2 = XpuGraphConfig(opt_level="level2")  # type: ignore[arg-type]


def check_cell(row: Row, column: str, dynamic: bool, cache_directory: pathlib.Path) -> None:
    """Hold one cell: compare with eager, or expect the error; in the fullest column, the cache too.

    Raises:
        AssertionError: the outcome is another.
    """
    vendor = column == "inductor"
    train = (row.fullest if vendor else column) == "training"
    config = XpuGraphConfig(target="cpu", vendor_compiler_config=row.options) if vendor else LEVEL2  # type: ignore[arg-type]
    kept_here = vendor or column == row.fullest
    config = config.replaced({"enable_cache": row.cached != "-" and kept_here})
    outcome = row.outcome(column)
    run = Run(row, train, dynamic, exact=not train and not vendor)
    if outcome.startswith("error: "):
        kind = outcome.removeprefix("error: ")
        run.whole = kind == "Unsupported"  # what Dynamo says where it may not break the graph
        for backend in (XpuGraph(config), *(["aot_eager"] if not vendor else [])):
            _expect(run, backend, kind, row.says)
        return
    if outcome in (IN_PARTS, EAGERLY):
        _expect(Run(row, train, dynamic, whole=True), XpuGraph(config), "Unsupported", row.says)
    backend = XpuGraph(config, XpuGraphLocalCache(cache_directory))
    run.compare(backend)
    graphs = row.graphs if outcome != EAGERLY else 0
    assert len(backend.reports) == graphs or dynamic, f"{len(backend.reports)} graphs"
    if config.enable_cache:
        kept = row.cached if not vendor else WORKS if row.keeps_code else NO_CODE
        if kept == WORKS:
            backend = XpuGraph(config, backend.cache)
            run.compare(backend)
        _check_cache(backend, kept)


def _check_cache(backend: XpuGraph, kept: str) -> None:
    graphs = [graph for report in backend.reports for graph in report.graphs]
    found = [graph.cache for graph in graphs if graph.stage != "joint"]  # its parts are kept
    assert found, "nothing was compiled"
    if kept == WORKS:
        assert set(found) == {"hit"}, found
    else:
        reason = kept.removeprefix("not cached: ")
        assert any(f"not cacheable: {reason}" in told for told in found), found


def _expect(run: Run, backend: Any, kind: str, says: str) -> None:
    error: BaseException | None = None
    try:
        run.observe(backend)
    except Exception as caught:  # which one is what this asks
        error = getattr(caught, "inner_exception", caught)
    assert type(error).__name__ == kind, f"{backend}: {error!r}"
    assert says in str(error), f"{backend}: {error}"


class Run:
    """A way to run the program of a row, on both sides."""

    def __init__(
        self, row: Row, train: bool, dynamic: bool, exact: bool = False, whole: bool | None = None
    ) -> None:
        self.row = row
        self.train = train
        self.dynamic = dynamic
        self.exact = exact and row.bitwise
        outcome = row.training if train else row.inference
        self.whole = outcome not in (IN_PARTS, EAGERLY) if whole is None else whole

    def compare(self, backend: Any) -> None:
        """Compare each call with eager."""
        tolerances = {} if self.exact else {"rtol": 1e-4, "atol": 1e-5}
        for eagers, mine in zip(self.observe(None), self.observe(backend), strict=True):
            for what, eager in eagers.items():
                assert_same(mine[what], eager, what, bitwise=self.exact, **tolerances)

    def observe(self, backend: Any) -> list[dict[str, Any]]:
        """What every call does: results, inputs afterwards, gradients, state, shared memory."""
        torch._dynamo.reset()

        def wrap(function: Any, **options: Any) -> Any:
            if backend is None:
                return function
            dynamic = self.dynamic or None
            options = {"fullgraph": self.whole, "dynamic": dynamic, **options}
            return torch.compile(function, backend=backend, **options)

        torch.manual_seed(0)
        program = self.row.make(wrap) if self.row.make is not None else self.row.program
        call = wrap(program)
        with torch.set_grad_enabled(self.train), self.row.around(wrap):
            return [self._one_call(program, call, inputs()) for inputs in self.row.inputs]

    def _one_call(self, program: Any, call: Any, inputs: tuple[Any, ...]) -> dict[str, Any]:
        leaves = _leaves(self.row, inputs) if self.train else []
        for leaf in leaves:
            leaf.requires_grad_()
        torch.manual_seed(1)
        results = self.row.drive(call, inputs)
        kept = plain(results), plain(inputs)
        if self.train:
            losses = [_loss(t) for t in _tensors(results) if t.requires_grad]
            assert losses, "no result needs gradients"
            torch.autograd.backward(losses)
        seen: dict[str, Any] = {"result": kept[0], "input after the call": kept[1]}
        seen["memory shared"] = alias_classes(_tensors(kept))
        seen["gradient"] = [plain(leaf.grad) for leaf in leaves]
        if isinstance(program, torch.nn.Module):
            seen["gradient of a parameter"] = [plain(p.grad) for p in program.parameters()]
            seen["state"] = [plain(value) for value in program.state_dict().values()]
        return seen


def _leaves(row: Row, inputs: tuple[Any, ...]) -> list[torch.Tensor]:
    if row.leaves is not None:
        return [inputs[position] for position in row.leaves]
    return [t for t in _tensors(inputs) if t.is_floating_point() or t.is_complex()]


def _loss(tensor: torch.Tensor) -> torch.Tensor:
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
        shape = [size if type(size) is int else "ragged" for size in value.shape]
        outer = [value.dtype, shape, value.requires_grad]
        return [type(value).__name__, repr(context), repr(outer), held]
    return value
