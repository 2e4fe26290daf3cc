import pytest
import torch

from tests.passes.folding import FLOATS, INTEGERS, alone, folded, special
from xpu_graph.passes.fold_casts import FoldCasts
from xpu_graph.testing import capture, check_against_eager, run_passes

aten, prims = torch.ops.aten, torch.ops.prims
REAL = [torch.bool, *INTEGERS, *FLOATS]
OUT_OF_RANGE = "a number out of range may convert in another way"
ROUNDS = "the inner cast may round"


def every(dtype):
    """Every number of 16 bits; of more, the special ones, and bits at random."""
    if dtype == torch.bool:
        return special(dtype)
    if dtype.itemsize <= 2:
        return torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    bits = {4: torch.int32, 8: torch.int64}[dtype.itemsize]
    limits, generator = torch.iinfo(bits), torch.Generator().manual_seed(0)
    drawn = torch.randint(limits.min, limits.max, (20_000,), dtype=bits, generator=generator)
    return torch.cat([special(dtype), drawn.view(dtype)])


FOLDED_CHAINS = {
    torch.bool: 81,  # to each of the 9 others, and on to any but that
    torch.uint8: 60,
    torch.int8: 60,
    torch.int16: 34,
    torch.int32: 17,
    torch.int64: 7,  # through int32 to 16 and 8 bits, through 16 to 8, through 8 to 8
    torch.float16: 8,
    torch.bfloat16: 8,
    torch.float32: 4,  # through float64 to any floating point but that, and to bool
    torch.float64: 0,
}


@pytest.mark.parametrize("first", REAL, ids=str)
def test_every_chain_gives_what_eager_gives(trace, first):
    """All dtypes between and at the end: what is folded must not change one bit."""
    chains = [(m, last) for m in REAL for last in REAL if m not in (first, last)]

    def function(x):
        return [x.to(middle).to(last) for middle, last in chains]

    run = folded(trace, FoldCasts, function, every(first))
    assert run.applied["fold_casts"] == FOLDED_CHAINS[first]


def test_there_and_back_is_nothing():
    def function(x, y):
        return x.double().float().sin(), y.float().to(torch.bfloat16).abs()

    def inputs():
        return [special(torch.float32), special(torch.bfloat16)]

    run = run_passes([FoldCasts], capture(function, *inputs())[0])
    assert run.after == {"aten.sin.default": 1, "aten.abs.default": 1}
    assert run.applied == {"fold_casts": 2}
    check_against_eager(function, inputs, alone(FoldCasts))


def test_there_and_back_to_an_output_is_one_copy():
    run = run_passes([FoldCasts], capture(lambda x: x.double().float(), torch.ones(3))[0])
    assert run.after == {"aten._to_copy.default": 1}
    check_against_eager(
        lambda x: x.double().float(), lambda: [special(torch.float32)], alone(FoldCasts)
    )


def test_three_casts_become_one(trace):
    run = folded(
        trace, FoldCasts, lambda x: x.to(torch.int32).double().float(), special(torch.int8)
    )
    assert run.after == {"aten._to_copy.default": 1}


def test_an_inner_cast_that_others_read_stays(trace):
    def function(x):
        y = x.double()
        return y.sin(), y.to(torch.float16)

    run = folded(trace, FoldCasts, function, special(torch.float32))
    assert run.applied == {"fold_casts": 1}
    assert run.after["aten._to_copy.default"] == 2


def test_the_prims_form(trace):
    def function(x):
        y = prims.convert_element_type.default(x, torch.float64)
        return prims.convert_element_type.default(y, torch.float16), y.to(torch.bfloat16)

    run = folded(trace, FoldCasts, function, special(torch.float32))
    assert run.after == {
        "prims.convert_element_type.default": 1,
        "aten._to_copy.default": 1,
    }


@pytest.mark.parametrize("dynamic", [False, True])
def test_layouts_stay(dynamic):
    def function(x, y):
        last = y.to(torch.float64, memory_format=torch.channels_last).to(torch.float16)
        first = y.double().to(torch.float16, memory_format=torch.channels_last)
        return x.double().half(), x.t().double().half(), first, last

    def inputs():
        return [torch.ones(2, 3), torch.ones(2, 3, 4, 5)]

    run = run_passes([FoldCasts], capture(function, *inputs(), dynamic=dynamic)[0])
    assert run.applied == {"fold_casts": 4}
    check_against_eager(function, inputs, alone(FoldCasts), dynamic=dynamic)


REFUSES = {
    "narrower": (lambda x: x.half().float(), torch.float32, ROUNDS),
    "integers in floating point": (lambda x: x.float().long(), torch.int64, ROUNDS),
    "bool between": (lambda x: x.bool().float(), torch.float32, ROUNDS),
    "half as bfloat16": (lambda x: x.bfloat16().float(), torch.float16, ROUNDS),
    "floating point to integers": (lambda x: x.double().long(), torch.float32, OUT_OF_RANGE),
    "unsigned": (lambda x: x.float().to(torch.uint8), torch.int8, OUT_OF_RANGE),
    "rounded twice": (lambda x: x.double().half(), torch.int32, "the number may be rounded twice"),
    "complex": (lambda x: x.double().cfloat(), torch.float32, "how torch.complex64 is cast to is"),
    "from complex": (lambda x: x.cdouble().cfloat(), torch.complex64, ROUNDS),
}


@pytest.mark.parametrize(("function", "dtype", "reason"), REFUSES.values(), ids=REFUSES)
def test_refuses(trace, function, dtype, reason):
    run = folded(trace, FoldCasts, function, special(dtype))
    assert run.before == run.after
    (given,) = run.refused
    assert given.startswith(reason)


def test_refuses_other_devices(trace):
    unit = trace(lambda x: x.double().float(), torch.ones(3))
    first, second = unit.gm.graph.find_nodes(
        op="call_function", target=aten._to_copy.default, sort=True
    )
    for node in (first, second):
        node.kwargs = {**node.kwargs, "device": torch.device("meta")}
        node.meta["val"] = node.meta["val"].to("meta")
    run = run_passes([FoldCasts], unit, verify="off")
    assert run.refused == {"the casts go from device to device": 1}


@pytest.mark.parametrize("position", [0, 1])
def test_refuses_pinned_memory(trace, monkeypatch, position):
    monkeypatch.setenv("XPUGRAPH_VERIFY", "final")  # fake tensors know no pinned memory
    unit = trace(lambda x: x.double().float().sin(), torch.ones(3))
    nodes = unit.gm.graph.find_nodes(op="call_function", target=aten._to_copy.default, sort=True)
    nodes[position].kwargs = {**nodes[position].kwargs, "pin_memory": True}
    run = run_passes([FoldCasts], unit)
    assert run.refused == {"a cast goes to pinned memory": 1}


def test_an_inner_cast_that_is_written_to_stays(trace):
    def function(x):
        y = x.double()
        y.add_(1)
        return y.float()

    run = folded(trace, FoldCasts, function, torch.ones(3))
    assert not run.applied


def test_refuses_to_read_across_a_write(trace):
    def function(x):
        y = x.double()
        x.add_(1)
        return y.half(), x.sin()

    run = folded(trace, FoldCasts, function, torch.ones(3))
    assert run.refused == {"a read would move across a write": 1}


def test_empty_and_0_dim(trace):
    def function(x, y):
        return x.double().half(), y.double().half(), y.double().float().sin()

    run = folded(trace, FoldCasts, function, torch.ones(0, 3), torch.tensor(-0.0))
    assert run.applied["fold_casts"] >= 2
