import pytest
import torch

from tests.passes.folding import DTYPES, FLOATS, INF, INTEGERS, NAN, alone, folded, special
from xpu_graph.passes import CommonSubexpressions
from xpu_graph.passes.propagate_fills import PropagateFills
from xpu_graph.testing import capture, check_against_eager, run_passes

aten, prims = torch.ops.aten, torch.ops.prims
FULL = {"aten.full.default": 1}


def fills(run):
    """What every ``full`` of the graph is filled with, and its dtype."""
    nodes = run.unit.gm.graph.find_nodes(op="call_function", target=aten.full.default)
    return [(node.args[1], node.kwargs["dtype"]) for node in nodes]


MADE = {
    "zeros": lambda x: torch.zeros(2, 3, dtype=x.dtype),
    "ones": lambda x: torch.ones(2, 3, dtype=x.dtype),
    "full": lambda x: torch.full((2, 3), 1, dtype=x.dtype),
    "zeros_like": torch.zeros_like,
    "ones_like": torch.ones_like,
    "full_like": lambda x: torch.full_like(x, 1),
    "new_zeros": lambda x: x.new_zeros(2, 3),
    "new_ones": lambda x: x.new_ones(2, 3),
    "new_full": lambda x: x.new_full((2, 3), 1),
    "fill": lambda x: aten.fill.Scalar(x, 1),
    "zero": aten.zero,
    "scalar_tensor": lambda x: aten.scalar_tensor(1, dtype=x.dtype),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_fill_has_one_spelling(trace, dtype):
    for name, function in MADE.items():
        run = folded(trace, PropagateFills, function, special(dtype))
        assert run.after == FULL, name
        assert run.applied == {"propagate_fills": 1}
        (node,) = run.unit.gm.graph.find_nodes(op="call_function", target=aten.full.default)
        assert set(node.kwargs) == {"dtype", "layout", "device", "pin_memory"}
        assert type(node.args[1]) is type(torch.zeros((), dtype=dtype).item())


def test_a_fill_that_is_spelled_so_is_left(trace):
    def function():
        options = {"layout": torch.strided, "device": "cpu", "pin_memory": False}
        first = aten.full.default([2], 1.0, dtype=torch.float32, **options)
        return first, aten.full.default([2], NAN, dtype=torch.float32, **options)

    run = folded(trace, PropagateFills, function)
    assert not run.applied
    assert run.rounds == 1


def test_equal_fills_become_one():
    def function(x):
        return x * torch.full((3,), 2.0) + x.new_full((3,), 2) + torch.full_like(x, 2)

    passes = [PropagateFills, CommonSubexpressions]
    run = run_passes(passes, capture(function, torch.ones(3))[0])
    assert run.after["aten.full.default"] == 1


def test_equal_fills_become_one_at_once(trace):
    def function(x):
        return torch.zeros_like(x) + x.new_zeros(3).sin() + torch.full((3,), 0).cos()

    run = folded(trace, PropagateFills, function, torch.ones(3))
    assert sorted(fills(run), key=str) == [(0, torch.int64), (0.0, torch.float32)]


def test_fills_that_are_not_equal_stay_apart(trace):
    def function(x):
        f = [torch.zeros(3), torch.full((3,), -0.0), torch.zeros(3, 1), torch.zeros(3).double()]
        return f[0] + x, f[1] + x, f[2] + x, f[3] + x

    run = folded(trace, PropagateFills, function, torch.ones(3))
    assert run.after["aten.full.default"] == 4


def test_returned_fills_stay_apart():
    def function(x):
        return torch.zeros_like(x), x.new_zeros(3), torch.zeros(3) + x

    check_against_eager(function, lambda: [torch.ones(3)], alone(PropagateFills))


def test_sections_have_fills_of_their_own():
    """A custom operator without a result may switch the stream: what follows runs elsewhere."""
    with torch.library._scoped_library("xpu_graph_test_fills", "FRAGMENT") as library:
        library.define("switch(str name) -> ()")
        library.impl("switch", lambda name: None, "CompositeExplicitAutograd")
        torch.fx.node.has_side_effect(torch.ops.xpu_graph_test_fills.switch.default)

        def program(x):
            before = torch.zeros_like(x) + x
            torch.ops.xpu_graph_test_fills.switch("side")
            return before, torch.zeros_like(x) * x

        run = run_passes([PropagateFills], capture(program, torch.ones(3))[0])
        assert run.after["aten.full.default"] == 2


REARRANGED = {
    "view": lambda f: f.view(6),
    "expand": lambda f: f.view(2, 1, 3).expand(2, 1, 3),
    "t": lambda f: f.view(6).t(),
    "slice": lambda f: f[1:].clone(),
    "select": lambda f: f[1].clone(),
    "unsqueeze": lambda f: f.unsqueeze(0),
    "clone": lambda f: f.clone(),
    "repeat": lambda f: f.repeat(2, 2),
    "flip": lambda f: f.flip(0),
    "roll": lambda f: f.roll(1, 0),
    "detach": lambda f: f.detach(),
    "chain": lambda f: f.view(6)[2:4].clone().unsqueeze(1),
    "cat": lambda f: torch.cat([f, f[:1], f]),
    "stack": lambda f: torch.stack([f, f]),
}


@pytest.mark.parametrize("function", REARRANGED.values(), ids=REARRANGED)
def test_rearranged_fills_are_fills(trace, function):
    for number in (2.5, -0.0, NAN):
        run = folded(trace, PropagateFills, of_fill(function, (2, 3), number))
        assert run.after == FULL


def of_fill(function, shape, number, dtype=None):
    return lambda: function(torch.full(shape, number, dtype=dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_casts(trace, dtype):
    def function():
        numbers = (1, 0, True, 2.5, -0.0, INF, NAN)[: 7 if dtype.is_floating_point else 3]
        return [torch.full((2,), number).to(dtype) for number in numbers]

    run = folded(trace, PropagateFills, function)
    assert set(run.after) == {"aten.full.default"}


@pytest.mark.parametrize("number", [300, -1, 2.5, 1e10, NAN, INF])
def test_casts_out_of_range_stay(trace, number):
    def function():
        return torch.full((2,), number).to(torch.uint8).bitwise_not()

    run = folded(trace, PropagateFills, function)
    assert ("aten._to_copy.default" in run.after) == (number not in (2.5, -1))


BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "eq": torch.eq,
    "ne": torch.ne,
    "lt": torch.lt,
    "le": torch.le,
    "gt": torch.gt,
    "ge": torch.ge,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
}
PAIRS = ((0.1, 3.0), (-0.0, -0.0), (0.1, -0.0), (65504.0, 0.1), (NAN, INF))


@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_is_what_the_large_tensors_give(trace, name):
    """In every dtype, and with 0-dim tensors and literals, which promote in other ways."""

    def pairs(dtype):
        for left, right in PAIRS if dtype.is_floating_point else ((0, 1), (127, 3), (1, 1)):
            tensor = torch.full((37,), left, dtype=dtype)
            yield tensor, torch.full((37,), right, dtype=dtype)
            yield tensor, torch.full((), right, dtype=dtype)
            yield tensor, torch.full((), right, dtype=torch.float32)
            yield torch.full((), right, dtype=torch.float64), tensor
            yield tensor, torch.full((1,), right, dtype=torch.float16)
            if "logical" not in name:
                yield tensor, right

    def function():
        dtypes = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8)
        return [BINARY[name](*pair) for dtype in dtypes for pair in pairs(dtype)]

    run = folded(trace, PropagateFills, function)
    assert set(run.after) == {"aten.full.default"}


UNARY = {
    "neg": (torch.neg, [*FLOATS, *INTEGERS]),
    "abs": (torch.abs, [*FLOATS, *INTEGERS]),
    "not": (torch.logical_not, [*FLOATS, *INTEGERS, torch.bool]),
    "~": (torch.bitwise_not, [*INTEGERS, torch.bool]),
    "& 3": (lambda f: f & 3, INTEGERS),
    "|": (lambda f: f | f.flip(0), [*INTEGERS, torch.bool]),
    "^ 5": (lambda f: f ^ 5, INTEGERS),
    "where": (lambda f: torch.where(f > 0, f, f.neg()), [*FLOATS, *INTEGERS]),
    "masked_fill": (lambda f: f.masked_fill(f == f.flip(0), 1), [*FLOATS, *INTEGERS]),
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_fill(trace, name):
    operator, dtypes = UNARY[name]
    for dtype in dtypes:
        number = torch.finfo(dtype).max if dtype.is_floating_point else 1
        if dtype in INTEGERS:
            number = torch.iinfo(dtype).min

        run = folded(trace, PropagateFills, of_fill(operator, (37,), number, dtype))
        assert run.after == FULL


LEAVES_ALONE = {
    "exp": lambda: torch.full((3,), 2.0).exp(),
    "sqrt": lambda: torch.full((3,), 2.0).sqrt(),
    "pow": lambda: torch.full((3,), 2.0) ** 3,
    "floor_divide": lambda: torch.full((3,), 7) // 2,
    "sum": lambda: torch.full((3,), 0.1).sum(),
    "softmax": lambda: torch.full((3,), 0.1).softmax(0),
    "alpha": lambda: torch.add(torch.full((3,), 0.1), torch.full((3,), 0.1), alpha=3),
    "complex": lambda: torch.full((3,), 1j) * torch.full((3,), 2j),
    "another number": lambda: torch.cat([torch.full((3,), 0.0), torch.full((3,), -0.0)]),
    "arange": lambda: torch.arange(3) + 1,
}


@pytest.mark.parametrize("function", LEAVES_ALONE.values(), ids=LEAVES_ALONE)
def test_leaves_alone(trace, function):
    run = folded(trace, PropagateFills, function)
    changed = run.before - run.after
    assert not {name for name in changed if "full" not in name}
    assert not run.refused


@pytest.mark.parametrize(
    ("number", "kept"),
    [(1 + 2j, False), (1j, False), (complex(-0.0, 1), True), (-1j, True), (complex(NAN, 1), True)],
)
def test_complex_numbers_that_cannot_be_written_down(trace, number, kept):
    """``complex(-0.0, 1)`` prints as ``(-0+1j)``, and that is another number."""
    real = torch.view_as_real(torch.tensor([number, number]))

    def function(x):
        return aten.fill.Scalar(torch.view_as_complex(x.clone()), number).clone()

    run = run_passes([PropagateFills], trace(function, real))
    assert ("aten.fill.Scalar" in run.after) == kept


def test_two_readers_of_a_view_keep_one_fill(trace):
    def function(x):
        f = torch.full((2, 3), 2.0)
        return f + x, f.view(3, 2).sin()

    run = folded(trace, PropagateFills, function, torch.ones(2, 3))
    assert run.after["aten.full.default"] == 1
    assert run.after["aten.view.default"] == 1


REFUSES = {
    "expand": (lambda x: torch.zeros(1, 3).expand(2, 3) + x, "stride"),
    "transposed": (lambda x: torch.zeros(3, 2).t() + x, "stride"),
    "like": (lambda x: torch.zeros_like(x.t()) + x.t(), "stride"),
    "a part of an output's memory": (
        lambda x: torch.zeros(2, 3)[0],
        "an output's memory would have another size",
    ),
    "an offset": (lambda x: torch.zeros(2, 3)[1], "the storage offset would change"),
    "views of one fill": (
        lambda x: ((f := torch.zeros(2, 3)), f.view(6).view(6)),
        "two outputs would no longer share memory",
    ),
}


@pytest.mark.parametrize(("function", "reason"), REFUSES.values(), ids=REFUSES)
def test_refuses(trace, function, reason):
    run = folded(trace, PropagateFills, function, torch.ones(2, 3))
    assert any(given.startswith(reason) for given in run.refused)
    assert run.before.total() == run.after.total()


def test_pinned_memory_and_sparse_layouts_stay(trace, monkeypatch):
    monkeypatch.setenv("XPUGRAPH_VERIFY", "final")  # fake tensors know no pinned memory
    unit = trace(lambda: torch.zeros(3) + 1)
    (zeros,) = unit.gm.graph.find_nodes(op="call_function", target=aten.zeros.default)
    zeros.kwargs = {**zeros.kwargs, "pin_memory": True}
    assert run_passes([PropagateFills], unit).after["aten.zeros.default"] == 0

    unit = trace(lambda: torch.zeros(3, layout=torch.sparse_coo))
    assert not run_passes([PropagateFills], unit).applied


@pytest.mark.parametrize("dynamic", [False, True])
def test_symbolic_sizes_stay(dynamic):
    def function(x):
        return torch.zeros_like(x), x.new_ones(3), torch.full((x.shape[0], 1), 2.0) * 2

    run = run_passes([PropagateFills], capture(function, torch.ones(5), dynamic=dynamic)[0])
    assert run.after["aten.full.default"] == (2 if dynamic else 3)
    assert run.after["aten.mul.Tensor"] == dynamic
    check_against_eager(function, lambda: [torch.ones(5)], alone(PropagateFills), dynamic=dynamic)


def test_outputs_are_fresh_at_every_call():
    def function(x):
        f = torch.zeros(3)
        return f.clone(), torch.ones(3).view(3), torch.zeros(3), x + 1

    compiled = check_against_eager(function, lambda: [torch.ones(3)], alone(PropagateFills))
    with torch.no_grad():
        for result in compiled(torch.ones(3)):
            result.add_(5)
        assert compiled(torch.ones(3))[0].tolist() == [0.0] * 3


def test_writes_are_respected(trace):
    def written(x):
        f = torch.zeros(3)
        g = f.clone()
        f.add_(1)
        return f + g + x

    def view(x):
        f = torch.zeros(3)
        g = f.view(3, 1)
        g.add_(1)
        return f + 1, g * 2

    folded(trace, PropagateFills, written, torch.ones(3))
    run = folded(trace, PropagateFills, view, torch.ones(3))
    assert run.before == run.after


def test_constants_of_the_module_are_left_to_constant_folding():
    def function(x):
        return x + torch.tensor([1.0, 1.0]).view(2, 1) * 2

    run = run_passes([PropagateFills], capture(function, torch.ones(2))[0])
    assert not run.applied


def test_empty(trace):
    run = folded(trace, PropagateFills, lambda: torch.zeros(0, 3) + 1)
    assert set(run.refused) == {"an empty tensor may have other strides than its fake value"}


def test_division_is_left_to_other_devices(trace):
    def function():
        one, three = (torch.full((3,), number, device="meta") for number in (1.0, 3.0))
        return one / three, one * three

    run = run_passes([PropagateFills], trace(function))
    assert run.after["aten.div.Tensor"] == 1
    assert run.after["aten.mul.Tensor"] == 0
