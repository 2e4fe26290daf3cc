"""Mode max-autotune: what reaches GE, what is decomposed before, and what is refused."""

import subprocess

import ascend_sim
import pytest
import torch
from ascend_sim import ge
from programs import assert_same_numbers, bare_vendor, compiled, on_npu, refused

from xpu_graph.backends.npu.ge_decompositions import decompositions

aten = torch.ops.aten
X = torch.randn(3, 4, 5)
ROWS = torch.tensor([2, 0])

DECOMPOSED = {
    aten.amax.default: (lambda x: x.amax([0, 2]), X),
    aten.amin.default: (lambda x: x.amin([1]), X),
    aten.min.default: (lambda x: x.min(), X),
    aten.min.dim: (lambda x: x.min(1), X),
    aten.all.dim: (lambda x: (x > 0).all(1), X),
    aten.isnan.default: (lambda x: x.isnan(), X),
    aten.square.default: (aten.square.default, X),
    aten.std.correction: (lambda x: x.std(-1), X),
    aten.var.correction: (lambda x: x.var(1), X),
    aten.var_mean.correction: (lambda x: torch.var_mean(x, [0, 1]), X),
    aten.repeat_interleave.self_int: (lambda x: aten.repeat_interleave.self_int(x, 2, 1), X),
    aten.index_copy.default: (lambda x, i, y: x.index_copy(0, i, y), X, ROWS, X[:2] + 1),
    aten.index_put.default: (lambda x, i, y: x.index_put((i,), y), X, ROWS, X[:2] + 1),
    aten.softplus.default: (torch.nn.functional.softplus, X),
    aten.roll.default: (lambda x: x.roll(1, 0), X),
}


HAS_A_CONVERTER = (aten.square.default, aten.std.correction)
"""One is traced as another operator, the converter of the other fails for the last dimension."""


@pytest.mark.parametrize("operator", DECOMPOSED, ids=str)
def test_operators_without_a_converter_are_decomposed(operator):
    function, *inputs = DECOMPOSED[operator]
    got = compiled(function, "max-autotune")(*map(on_npu, inputs))
    want = function(*inputs)
    if isinstance(want, tuple):
        got, want = tuple(got), tuple(want)
    assert_same_numbers(got, want)


@pytest.mark.parametrize(
    "operator", [op for op in DECOMPOSED if op not in HAS_A_CONVERTER], ids=str
)
def test_the_vendor_has_no_converter_for_them(operator):
    """An entry that torchair learns to convert has to go."""
    function, *inputs = DECOMPOSED[operator]
    with pytest.raises(Exception, match="not implemented"):
        bare_vendor(function, *map(on_npu, inputs), mode="max-autotune")


def test_every_decomposition_of_ours_is_tried():
    from xpu_graph.backends.npu.ge_decompositions import _OWN

    assert set(DECOMPOSED) >= set(_OWN)
    assert set(decompositions()) >= set(DECOMPOSED)


def test_an_operator_without_converter_names_itself_and_the_line():
    def program(x):
        return x.prod() + 1

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        compiled(program, "max-autotune")(X.npu())
    said = str(caught.value.inner_exception)
    assert "aten.prod" in said
    assert "x.prod() + 1" in said
    assert "test_max_autotune.py" in said


@pytest.mark.parametrize("bag", ["sum", "mean"])
def test_bags_of_embeddings(bag):
    """Torchair's default for the mode that a graph leaves out is not the operator's."""
    weight = torch.randn(10, 4)
    indices, offsets = torch.tensor([1, 2, 4, 5, 4]), torch.tensor([0, 3])

    def program(indices, weight, offsets):
        return torch.nn.functional.embedding_bag(indices, weight, offsets, mode=bag)

    got = compiled(program, "max-autotune")(*map(on_npu, (indices, weight, offsets)))
    assert_same_numbers(got, program(indices, weight, offsets))


def test_interleaved_rotation_is_refused():
    x = torch.randn(1, 2, 4, 8).npu()
    with refused("interleave"):
        compiled(lambda x: torch.ops.npu.npu_rotary_mul(x, x, x, "interleave"), "max-autotune")(x)


def test_one_graph_serves_all_shapes():
    run = compiled(lambda x, y: torch.cat([x * 2, y]).sum(1), "max-autotune", dynamic=True)
    ge.forget()
    for size in (2, 5, 3, 2):
        x, y = torch.randn(size, 4), torch.randn(size + 1, 4)
        assert_same_numbers(run(x.npu(), y.npu()), torch.cat([x * 2, y]).sum(1))
    assert len(ge.last_graphs()) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64], ids=str)
def test_types(dtype):
    x = (torch.randn(4, 4) * 4).to(dtype)
    run = compiled(lambda x: (x * 2 + 1).relu() - x, "max-autotune")
    assert_same_numbers(run(x.npu()), (x * 2 + 1).relu() - x, rtol=1e-2, atol=1e-2)


def test_outputs_are_not_overwritten():
    run = compiled(lambda x: x * 2, "max-autotune")
    first = run(torch.ones(4).npu())
    run(torch.ones(4).npu() * 5)
    assert first.cpu().tolist() == [2.0] * 4


def test_a_cache_that_is_written_to():
    def step(cache, x, position):
        cache[:, position] = x
        return cache.sum(1)

    run = compiled(step, "max-autotune")
    cache, expected = torch.zeros(2, 4).npu(), torch.zeros(2, 4)
    for i in range(4):
        x, position = torch.randn(2, 1), torch.tensor([i])
        assert_same_numbers(run(cache, x.npu(), position.npu()), step(expected, x, position))
        assert_same_numbers(cache, expected)


def test_weights_are_inputs():
    layer = torch.nn.Linear(4, 4).npu()
    run = compiled(layer, "max-autotune")
    x = torch.randn(2, 4)
    run(x.npu())
    with torch.no_grad():
        layer.weight.fill_(1)
        layer.bias.fill_(0)
    assert_same_numbers(run(x.npu()), x.sum(1, keepdim=True).expand(2, 4))


# --- options --------------------------------------------------------------------------------------


def options_of_the_last_graph():
    return ge.last_graphs()[-1]["options"]


def test_gears_by_option():
    run = compiled(lambda x: x * 2 + 1, "max-autotune", dim_gears={"x": {0: [2, 4, 8]}})
    for size in (2, 4, 8):
        x = torch.ones(size, 3).npu()
        torch._dynamo.mark_dynamic(x, 0)  # the other size is fixed, as GE wants it
        assert run(x).cpu().tolist() == [[3.0] * 3] * size
    gears = options_of_the_last_graph()["ge.dynamicDims"]
    assert sorted(gears.split(";")) == ["2", "4", "8"]


def test_gears_by_the_vendors_function():
    import torchair

    x = torch.ones(2, 3).npu()
    torchair.inference.set_dim_gears(x, {0: [2, 4]})
    run = compiled(lambda x: x * 3, "max-autotune")
    assert run(x).cpu().tolist() == [[3.0] * 3] * 2
    assert sorted(options_of_the_last_graph()["ge.dynamicDims"].split(";")) == ["2", "4"]


@pytest.mark.parametrize(
    ("gears", "text"),
    [({"x": {0: [2, 4]}}, "range"), ({"y": {0: [2, 4]}}, "'x'"), ({"x": {7: [2, 4]}}, "range")],
    ids=["a size between gears", "no such input", "no such dimension"],
)
def test_gears_that_do_not_fit(gears, text):
    from xpu_graph.errors import XpuGraphError

    run = compiled(lambda x: x * 2, "max-autotune", dynamic=True, dim_gears=gears)
    with refused(text, XpuGraphError):
        run(torch.ones(3, 3).npu())


def test_the_fold_part_is_frozen_for_the_vendor():
    layer = torch.nn.Linear(4, 4).npu()
    run = compiled(layer, "max-autotune", config={"freeze": True}, frozen_parameter=True)
    x = torch.randn(2, 4)
    run(x.npu())
    with torch.no_grad():
        layer.weight.fill_(1)
        layer.bias.fill_(0)
    assert_same_numbers(run(x.npu()), x.sum(1, keepdim=True).expand(2, 4))


SCRIPT = """
import torch
from ascend_sim import ge
from xpu_graph import npu_compiler
def run(function, **options):
    backend = npu_compiler(compiler="ge", **options)
    with torch.no_grad():
        return torch.compile(function, backend=backend)(torch.ones(4).npu()).cpu().tolist()
assert run(lambda x: x * 2, ge_config={"oo_level": "O1"}) == [2.0] * 4
assert ge.initialised()["ge.oo.level"] == "O1"
try:
    run(lambda x: x * 3, ge_config={"oo_level": "O3"})
except Exception as error:
    assert "one set of global options a process" in str(error.inner_exception), error
else:
    raise SystemExit("other global options were taken")
"""


def test_global_options_are_one_set_a_process():
    done = subprocess.run(
        ascend_sim.command("-c", SCRIPT), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
