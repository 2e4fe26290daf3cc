import pytest
import torch

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.passes.reinplace import Reinplace
from xpu_graph.passes.reinplace import _find_form as in_place_form
from xpu_graph.testing import alias_classes, assert_same, capture, check_against_eager, run_passes

LARGE = (128, 256)


def large(dtype=torch.float32, seed=0):
    return torch.randn(LARGE, generator=torch.Generator().manual_seed(seed)).to(dtype)


def run(function, *inputs, unit=None):
    """Rewrite, compare with eager, and return the operators in order."""
    unit = unit or capture(function, *inputs)[0]
    done = run_passes([Reinplace], unit)
    mine, eagers = ([i.clone() for i in inputs] for _ in range(2))
    got, want = unit.gm(*mine), function(*eagers)
    want = list(want) if isinstance(want, tuple) else [want]
    assert_same(list(got), want)
    assert_same(mine, eagers, "input")
    assert alias_classes([*mine, *got]) == alias_classes([*eagers, *want])
    calls = [n.target for n in unit.gm.graph.nodes if n.op == "call_function"]
    return [str(c).removeprefix("aten.") for c in calls], done


def let(value, body):
    return body(value)


FIRES = {
    "a chain": (lambda x: ((x.sin() + 1) * 2).relu(), ["sin.default", "add_.Tensor"]),
    "the operand twice": (lambda x: let(x.sin(), lambda y: y * y), ["sin.default", "mul_.Tensor"]),
    "a product": (lambda x: (x @ x.t()).exp() @ x, None),
    "another operand": (lambda x: x.sin() + x, ["sin.default", "add_.Tensor"]),
    "a view before": (lambda x: (x.sin().view(-1) + 1).view(LARGE), None),
    "a view after": (lambda x: (x.sin() + 1).view(-1) * 2, None),
    "an earlier reader": (lambda x: let(x.sin(), lambda y: (y.sum(), y + 1)), None),
}


@pytest.mark.parametrize("name", FIRES)
def test_it_writes_to_what_nobody_reads(name):
    function, start = FIRES[name]
    calls, done = run(function, large())
    assert done.applied["reinplace"] > 0
    assert start is None or calls[: len(start)] == start


def test_a_chain_has_one_tensor():
    unit = capture(lambda x: ((x.sin() + 1) * 2).relu(), large())[0]
    calls, _ = run(lambda x: ((x.sin() + 1) * 2).relu(), large(), unit=unit)
    assert calls == ["sin.default", "add_.Tensor", "mul_.Tensor", "relu_.default"]
    storages = {
        node.meta["val"].untyped_storage()._cdata
        for node in unit.gm.graph.nodes
        if node.op == "call_function"
    }
    assert len(storages) == 1


STAYS = {
    "an input": lambda x: x + 1,
    "a view of an input": lambda x: x.view(-1) + 1,
    "an output": lambda x: let(x.sin(), lambda y: (y, y + 1)),
    "a view that is an output": lambda x: let(x.sin(), lambda y: (y.view(-1), y + 1)),
    "a later reader": lambda x: let(x.sin(), lambda y: (y + 1).sum(0) + y.sum(0)),
    "a later reader of a view": lambda x: let(x.sin(), lambda y: (y + 1) @ y.t()),
    "another dtype": lambda x: x.sin() > 0,
    "another shape": lambda x: x.sin()[:1] + x,
    "an operand through a view": lambda x: let(x.sin(), lambda y: y + y.view(256, 128).view(LARGE)),
    "a small tensor": lambda x: x[0].sin() + 1,
    "no pointwise operator": lambda x: x.sin().cumsum(0),
    "an expanded operand": lambda x: x[:1].sin().expand(LARGE) + 1,
    "a constant": lambda x: torch.ones(LARGE) @ x.t(),
}


@pytest.mark.parametrize("name", STAYS)
def test_left_alone(name):
    _, done = run(STAYS[name], large())
    assert not done.applied, done.applied


def test_memory_of_a_custom_operator_stays(counting):
    """It may keep what it returned."""
    operator, kept = counting
    unit = capture(lambda x: operator(x) + 1, large())[0]
    done = run_passes([Reinplace], unit)
    assert not done.applied
    unit.gm(large())
    assert torch.equal(kept[-1], large())


@pytest.fixture
def counting():
    kept = []
    with torch.library._scoped_library("reinplace_test", "FRAGMENT") as library:
        library.define("keep(Tensor x) -> Tensor")

        def keep(x):
            kept.append(x.clone())
            return kept[-1]

        library.impl("keep", keep, "CPU")
        library.impl("keep", torch.empty_like, "Meta")
        yield torch.ops.reinplace_test.keep.default, kept


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
def test_dtypes(dtype):
    _, done = run(lambda x: (x * 2 + x) * 3, large(dtype))
    assert done.applied["reinplace"] == 2


def test_what_rounds_otherwise_in_place_is_left_alone():
    _, done = run(lambda x: (x * 2 + x) / x, large(torch.complex64))
    assert not done.applied
    _, done = run(lambda x: torch.ops.aten.mul.Scalar(x.sin(), 1.7), large(torch.bfloat16))
    assert not done.applied


def in_place_forms():
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads() if hasattr(packet, "overloads") else ():
            target = getattr(packet, overload)
            form = in_place_form(target)
            if form is not None and torch.Tag.nondeterministic_seeded not in target.tags:
                yield target, form


def arguments_of(target, dtype, size):
    """One of each that the operator needs; None where it needs what is not made here."""
    generator = torch.Generator().manual_seed(size)
    number = 1.7 if dtype.is_floating_point else 2
    given = []
    for argument in target._schema.arguments:
        kind = str(argument.type)
        if argument.has_default_value():
            continue
        if kind == "Tensor":
            given.append((torch.randn(size, generator=generator) * 3).to(dtype))
        elif kind in ("number", "float", "int"):
            given.append(2 if kind == "int" else number)
        else:
            return None
    return given


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64])
def test_in_place_forms_give_the_same_bits(dtype):
    """Vectors, and what is left over after the last whole one."""
    tried = 0
    for target, form in in_place_forms():
        for size in (1, 17, 35):
            given = arguments_of(target, dtype, size)
            try:
                want = target(*given) if given else None
                got = None if want is None else form(given[0].clone(), *given[1:])
            except (RuntimeError, TypeError, IndexError, NotImplementedError):
                continue  # not for this dtype
            if got is None or want.dtype != dtype or want.shape != given[0].shape:
                continue
            tried += 1
            kept = ~want.isnan()  # NaNs have many spellings
            assert torch.equal(kept, ~got.isnan()), target
            assert torch.equal(got[kept].view(torch.uint8), want[kept].view(torch.uint8)), target
    assert tried > 100


def test_symbolic_sizes_are_left_alone():
    unit = capture(lambda x: (x.sin() + 1) * 2, large(), dynamic=True)[0]
    assert not run_passes([Reinplace], unit).applied


def test_only_where_the_graph_runs_as_it_is():
    assert Reinplace.enabled(XpuGraphConfig())
    assert not Reinplace.enabled(XpuGraphConfig(target="cpu", vendor_compiler_config={}))


def test_a_compiled_function():
    backend = XpuGraph(XpuGraphConfig(enable_cache=False, verify="each"))
    check_against_eager(lambda x: ((x.sin() + 1) * 2).relu(), lambda: [large()], backend)
    (graph,) = backend.reports[-1].graphs
    assert graph.passes["reinplace"].applied == 3


def test_frozen_parameters_are_folded_first():
    """What depends on parameters alone is taken out before anything is written to."""
    weight = torch.nn.Parameter(large())
    backend = XpuGraph(XpuGraphConfig(freeze=True, enable_cache=False, verify="each"))
    compiled = check_against_eager(
        lambda x: x + ((weight.sin() + 1) * 2), lambda: [large(seed=1)], backend
    )
    (graph,) = backend.reports[-1].graphs
    assert any("run once" in note for note in graph.notes)
    with torch.no_grad():
        weight.add_(1)
        assert_same(compiled(large()), large() + ((weight.sin() + 1) * 2))


def test_training():
    backend = XpuGraph(XpuGraphConfig(enable_cache=False, verify="each"))
    compiled = torch.compile(lambda x: ((x.sin() + 1) * 2).sigmoid().sum(), backend=backend)
    mine, eagers = (large().requires_grad_() for _ in range(2))
    compiled(mine).backward()
    ((eagers.sin() + 1) * 2).sigmoid().sum().backward()
    assert_same(mine.grad, eagers.grad)
