"""For the tests of passes, backends and models: capture graphs, run a pass, compare with eager.

Eager execution is the reference for everything: values, dtype, shape, stride, which tensors share
memory, and what became of the inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from xpu_graph.artifact import SerializableGraphModule
from xpu_graph.compiler import XpuGraph
from xpu_graph.config import XpuGraphConfig
from xpu_graph.debug.memory import sharing
from xpu_graph.debug.report import count_calls
from xpu_graph.dispatch import dispatch
from xpu_graph.fx import shallow_copy
from xpu_graph.passes import Pass, Pipeline
from xpu_graph.runtime import boxed_entry
from xpu_graph.stage import Unit


def capture(
    function: Callable[..., Any],
    *inputs: Any,
    dynamic: bool | None = None,
    grad: bool = False,
    config: XpuGraphConfig | None = None,
) -> list[Unit]:
    """The units a function gives rise to when it is compiled for these inputs, before any pass.

    Args:
        function: what to compile; it is called once.
        inputs: what to call it with.
        dynamic: as for ``torch.compile``.
        grad: whether gradients are on; a backward graph appears only if it is differentiated.
        config: decides about freezing.
    """
    units: list[Unit] = []

    def keep(unit: Unit) -> Callable[[list[Any]], Any]:
        units.append(unit)
        return boxed_entry(SerializableGraphModule(shallow_copy(unit.gm)))

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return dispatch(gm, example_inputs, config or XpuGraphConfig(), keep)

    torch.compiler.reset()
    with torch.set_grad_enabled(grad):
        torch.compile(function, backend=backend, dynamic=dynamic)(*inputs)
    return units


@dataclass
class PassRun:
    """What passes did to a unit.

    Attributes:
        unit: the graph afterwards.
        before: calls by operator, before.
        after: the same, after.
        applied: rewrites by pass.
        refused: refusals by reason.
        rounds: how often the passes ran.
    """

    unit: Unit
    before: Counter[str]
    after: Counter[str]
    applied: Counter[str]
    refused: Counter[str]
    rounds: int


def run_passes(passes: Sequence[type[Pass]], unit: Unit, **config: Any) -> PassRun:
    """Run passes over a unit, in place, with every rule verified after each.

    Args:
        passes: the passes.
        unit: the graph, for example from ``capture``.
        config: fields of ``XpuGraphConfig``; ``verify`` is ``"each"`` unless given.

    Raises:
        PassError: a pass broke a rule.
    """
    settings = XpuGraphConfig(**{"verify": "each", **config})
    before = count_calls(unit.gm)
    rounds = Pipeline(passes, settings).run(unit)
    unit.gm.recompile()
    refused: Counter[str] = Counter()
    for (_, reason), times in unit.rewriter.refusals.items():
        refused[reason] += times
    applied = Counter(unit.rewriter.firings)
    return PassRun(unit, before, count_calls(unit.gm), applied, refused, rounds)


def assert_same(
    got: Any, want: Any, what: str = "output", *, bitwise: bool = True, **tolerances: Any
) -> None:
    """Compare results with eager's.

    Args:
        got: a tensor, a number, None, or a nest of these.
        want: the same from eager.
        what: a word for the message.
        bitwise: whether values must agree to the last bit, signs of zero included.
        tolerances: ``rtol`` and ``atol`` where they need not.

    Raises:
        AssertionError: something differs; says what and where.
    """
    limits: dict[str, Any] = {"rtol": 0.0, "atol": 0.0} if bitwise else dict(tolerances)
    got_leaves, got_spec = pytree.tree_flatten(got)
    want_leaves, want_spec = pytree.tree_flatten(want)
    assert got_spec == want_spec, f"{what}: structure {got_spec}, eager gives {want_spec}"
    for position, (left, right) in enumerate(zip(got_leaves, want_leaves, strict=True)):
        where = f"{what} {position}"
        if not isinstance(right, torch.Tensor):
            assert type(left) is type(right), f"{where}: {left!r}, eager gives {right!r}"
            # repr tells signs of zero apart, and takes a NaN for equal to itself
            same = repr(left) == repr(right) if isinstance(right, _NUMBERS) else left == right
            assert same, f"{where}: {left!r}, eager gives {right!r}"
            continue
        assert isinstance(left, torch.Tensor), f"{where}: {left!r} is not a tensor"
        for name in ("dtype", "device", "layout", "shape", "requires_grad"):
            mine, eagers = getattr(left, name), getattr(right, name)
            assert mine == eagers, f"{where}: {name} {mine}, eager gives {eagers}"
        if right.layout == torch.strided:
            mine, eagers = left.stride(), right.stride()
            assert mine == eagers, f"{where}: stride {mine}, eager gives {eagers}"
        mine, eagers = _comparable(left), _comparable(right)
        torch.testing.assert_close(
            mine, eagers, equal_nan=True, msg=f"{where}: {{}}".format, **limits
        )
        if bitwise and eagers.layout == torch.strided and eagers.dtype.is_floating_point:
            kept = ~eagers.isnan()
            assert torch.equal(mine.signbit() & kept, eagers.signbit() & kept), (
                f"{where}: the sign of a zero differs"
            )


_NUMBERS = (bool, int, float, complex)


def _comparable(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in a dtype that can be compared: real, and of more than eight bits."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.dtype.is_complex and tensor.layout == torch.strided:
        return torch.view_as_real(tensor)
    if tensor.dtype.is_floating_point and tensor.element_size() == 1:
        return tensor.to(torch.float32)
    return tensor


def alias_classes(tensors: Sequence[Any]) -> list[int]:
    """For each tensor the position of the first one on its storage; -1 where there are no bytes."""
    return sharing(tensors)


def _objects(values: Sequence[Any]) -> list[int]:
    """For each tensor the position of the first one that is the same Python object."""
    first: dict[int, int] = {}
    return [first.setdefault(id(value), position) for position, value in enumerate(values)]


def check_against_eager(
    function: Callable[..., Any],
    make_inputs: Callable[[], Sequence[Any]],
    backend: Any = None,
    *,
    calls: int = 2,
    dynamic: bool | None = None,
    fullgraph: bool = True,
    seed: int = 0,
    bitwise: bool = True,
    inference_mode: bool = False,
    **tolerances: Any,
) -> Any:
    """Compile a function and compare every call with eager: results, aliases, inputs.

    Args:
        function: a function or module.
        make_inputs: gives fresh, equal inputs at every call; no generator state of torch's.
        backend: as for ``torch.compile``; by default target none at level2, every rule verified.
        calls: how many calls to compare.
        dynamic: as for ``torch.compile``.
        fullgraph: as for ``torch.compile``.
        seed: given to ``torch.manual_seed`` before each side's call.
        bitwise: see ``assert_same``.
        inference_mode: whether to call under ``torch.inference_mode``, else under ``no_grad``.
        tolerances: see ``assert_same``.

    Returns:
        The compiled function.
    """
    if backend is None:
        backend = XpuGraph(XpuGraphConfig(opt_level="level2", verify="each", enable_cache=False))  # type: ignore[arg-type]
    torch.compiler.reset()
    compiled = torch.compile(function, backend=backend, dynamic=dynamic, fullgraph=fullgraph)
    for _ in range(calls):
        mine, eagers = list(make_inputs()), list(make_inputs())
        with torch.inference_mode() if inference_mode else nullcontext(), torch.no_grad():
            torch.manual_seed(seed)
            want = function(*eagers)
            torch.manual_seed(seed)
            got = compiled(*mine)
        assert_same(got, want, bitwise=bitwise, **tolerances)
        assert_same(mine, eagers, "input after the call", bitwise=bitwise, **tolerances)
        mine_tensors, eager_tensors = (
            [leaf for leaf in pytree.tree_leaves(side) if isinstance(leaf, torch.Tensor)]
            for side in ([mine, got], [eagers, want])
        )
        for what, relation in (("memory is shared", alias_classes), ("objects are one", _objects)):
            have, expected = relation(mine_tensors), relation(eager_tensors)
            assert have == expected, f"{what} as {have}, eager's as {expected}"
    return compiled
