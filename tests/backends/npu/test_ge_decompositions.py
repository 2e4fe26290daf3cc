"""The decompositions for GE compute what the operators compute."""

import pytest
import torch

from xpu_graph.backends.npu.ge_decompositions import decompositions

aten = torch.ops.aten
TABLE = decompositions()


def check(operator, *args, **kwargs):
    got = TABLE[operator](*args, **kwargs)
    want = operator(*args, **kwargs)
    torch.testing.assert_close(got, want, equal_nan=True)


VALUES = {
    "float": torch.randn(3, 4, 5),
    "half": torch.randn(3, 4, 5).half(),
    "int": torch.randint(-5, 5, (3, 4, 5)),
    "extremes": torch.tensor(
        [[torch.iinfo(torch.int64).min, 3], [torch.iinfo(torch.int64).max, 0]]
    ),
    "nan": torch.tensor([[1.0, float("nan")], [float("-inf"), 2.0]]),
    "bool": torch.rand(3, 4, 5) > 0.5,
}


@pytest.mark.parametrize("kind", VALUES)
class TestLeastAndGreatest:
    @pytest.mark.parametrize("keepdim", [True, False])
    @pytest.mark.parametrize("dims", [[0], [-1], [0, -1], []], ids=str)
    @pytest.mark.parametrize("operator", [aten.amax.default, aten.amin.default], ids=str)
    def test_over_dimensions(self, operator, dims, keepdim, kind):
        check(operator, VALUES[kind], dims, keepdim)

    def test_min(self, kind):
        check(aten.min.default, VALUES[kind])
        check(aten.min.dim, VALUES[kind], 1)

    def test_all(self, kind):
        check(aten.all.dim, VALUES[kind], 1, True)


@pytest.mark.parametrize(
    "operator", [aten.std.correction, aten.var.correction, aten.var_mean.correction], ids=str
)
@pytest.mark.parametrize("keepdim", [True, False])
@pytest.mark.parametrize("dims", [[0, 1], [-1], None], ids=str)
@pytest.mark.parametrize("correction", [0, 1, 2, None])
def test_moments(operator, dims, correction, keepdim):
    check(operator, VALUES["float"], dims, correction=correction, keepdim=keepdim)


@pytest.mark.parametrize("kind", ["float", "nan"])
def test_elements(kind):
    check(aten.isnan.default, VALUES[kind])
    check(aten.square.default, VALUES[kind])
    check(aten.softplus.default, VALUES[kind])


@pytest.mark.parametrize("dim", [0, -1, None])
def test_repeat_interleave(dim):
    check(aten.repeat_interleave.self_int, VALUES["float"], 3, dim)


def test_index_copy():
    source = torch.randn(3, 2, 5)
    check(aten.index_copy.default, VALUES["float"], 1, torch.tensor([2, 0]), source)
    check(aten.index_copy.default, torch.tensor(1.0), 0, torch.tensor([0]), torch.tensor([2.0]))


ROWS, COLUMNS = torch.tensor([[0, -1], [2, 1]]), torch.tensor([1, 3])


@pytest.mark.parametrize("accumulate", [True, False])
@pytest.mark.parametrize(
    ("indices", "shape"),
    [
        pytest.param([ROWS], (2, 2, 4, 5), id="rows"),
        pytest.param([None, COLUMNS], (3, 2, 5), id="columns"),
        pytest.param([ROWS[:, :1] % 3, COLUMNS], (2, 2, 5), id="neighbours"),
        pytest.param([ROWS[0], None, COLUMNS], (2, 4), id="apart"),
        pytest.param([None, ROWS, COLUMNS], (3, 2, 2), id="last two"),
        pytest.param([None, None, COLUMNS], (3, 4, 2), id="last"),
        pytest.param([COLUMNS - 1], (4, 5), id="rows that are broadcast"),
        pytest.param([COLUMNS - 1], (), id="one value"),
    ],
)
def test_index_put(indices, shape, accumulate):
    check(aten.index_put.default, VALUES["float"], indices, torch.randn(shape), accumulate)


def test_a_mask_is_not_covered():
    x = VALUES["float"]
    mask = x > 0
    assert TABLE[aten.index_put.default](x, [mask], torch.tensor(0.0)) is NotImplemented
