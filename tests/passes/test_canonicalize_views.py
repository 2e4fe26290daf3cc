import pytest
import torch

from xpu_graph.passes import CanonicalizeViews
from xpu_graph.testing import capture, check_against_eager, run_passes

ODD_STRIDES = "a dimension of size 1 has an unusual stride"

SAME_TENSOR = {
    "view": lambda x: x.view(4, 6).sin(),
    "expand": lambda x: x.expand(4, 6).sin(),
    "slice": lambda x: x[:].sin(),
    "permute": lambda x: x.permute(0, 1).sin(),
    "detach": lambda x: x.detach().sin(),
    "transpose twice": lambda x: x.t().t().sin(),
    "unsqueeze and squeeze": lambda x: x.unsqueeze(1).squeeze(1).sin(),
    "there and back": lambda x: x.view(24).view(2, 12).view(4, 6).sin(),
}


@pytest.mark.parametrize("function", SAME_TENSOR.values(), ids=SAME_TENSOR)
def test_drops_what_changes_nothing(function):
    run = run_passes([CanonicalizeViews], capture(function, torch.randn(4, 6))[0])
    assert run.after == {"aten.sin.default": 1}
    assert run.applied["canonicalize_views"] > 0
    check_against_eager(function, lambda: [torch.arange(24.0).view(4, 6)])


def test_joins_reshapes():
    def function(x):
        return x.view(24).view(8, 3).sin()

    run = run_passes([CanonicalizeViews], capture(function, torch.randn(4, 6))[0])
    assert run.after == {"aten.view.default": 1, "aten.sin.default": 1}
    check_against_eager(function, lambda: [torch.randn(4, 6, generator=seeded())])


def test_joins_permutations():
    def function(x):
        return x.permute(1, 2, 0).transpose(0, -1).sin()

    run = run_passes([CanonicalizeViews], capture(function, torch.randn(2, 3, 4))[0])
    assert run.after == {"aten.permute.default": 1, "aten.sin.default": 1}
    (permute,) = run.unit.gm.graph.find_nodes(
        op="call_function", target=torch.ops.aten.permute.default
    )
    assert permute.args[1] == [0, 2, 1]
    check_against_eager(function, lambda: [torch.randn(2, 3, 4, generator=seeded())])


@pytest.mark.parametrize("shape", [(), (5,)])
def test_transposes_of_few_dimensions(shape):
    run = run_passes([CanonicalizeViews], capture(lambda x: x.t().t().sin(), torch.randn(shape))[0])
    assert run.after == {"aten.sin.default": 1}


def test_keeps_a_join_that_the_strides_forbid():
    def function(x):  # (2, 3, 4) is cut in two along a dimension that is not contiguous
        return x.expand(2, 3, 4).reshape(6, 4).view(24).sin()

    run = run_passes([CanonicalizeViews], capture(function, torch.randn(2, 1, 4))[0])
    assert run.after["aten.clone.default"] == 1
    check_against_eager(function, lambda: [torch.randn(2, 1, 4, generator=seeded())])


def test_keeps_a_view_returned_beside_its_base():
    def function(x):
        y = x.sin()
        return y, y.view(4, 6)

    run = run_passes([CanonicalizeViews], capture(function, torch.randn(4, 6))[0])
    assert run.after["aten.view.default"] == 1
    assert run.refused == {"two outputs would be one tensor object": 1}
    check_against_eager(function, lambda: [torch.ones(4, 6)])


def test_keeps_a_returned_view_of_an_input():
    run = run_passes([CanonicalizeViews], capture(lambda x: x.view(4, 6), torch.randn(4, 6))[0])
    assert run.refused == {"an output would be a tensor object that lives on outside": 1}
    check_against_eager(lambda x: x.view(4, 6), lambda: [torch.ones(4, 6)])


def test_keeps_a_view_that_normalises_a_stride():
    """A fake ``view`` to the same shape keeps the stride of a size 1; the real one does not."""

    def function(x):
        return x.view(1, 3)[:, 1:]

    def inputs():
        return [torch.ones(3, 1).t()]

    run = run_passes([CanonicalizeViews], capture(function, *inputs())[0])
    assert run.after["aten.view.default"] == 1
    assert run.refused[ODD_STRIDES] > 0
    check_against_eager(function, inputs)
    check_against_eager(function, inputs, dynamic=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda w: torch.ops.aten._unsafe_view(w, [6]).view(2, 3),
        lambda w: torch.ops.aten._unsafe_view(w.view(6), [6]),
        lambda w: torch.ops.aten._unsafe_view(w.view(6), [2, 3]).view(6),
    ],
)
def test_keeps_an_output_that_autograd_takes_for_its_own(function):
    """A view of a parameter asks for gradients even without grad mode; an unsafe view does not."""
    run = run_passes(
        [CanonicalizeViews], capture(function, torch.nn.Parameter(torch.ones(2, 3)))[0]
    )
    assert run.refused["an output would become a view of an input that autograd knows"] > 0
    check_against_eager(function, lambda: [torch.nn.Parameter(torch.ones(2, 3))])


def test_does_not_join_over_an_unusual_stride():
    run = run_passes(
        [CanonicalizeViews],
        capture(lambda x: x.view(3).view(3, 1, 1).sin(), torch.ones(3, 1).t())[0],
    )
    assert run.after["aten.view.default"] == 2
    assert run.refused == {ODD_STRIDES: 1}


def test_symbolic_sizes_are_dropped_but_not_joined():
    def function(x):
        n = x.shape[0]
        return x.view(n, 6).sin(), x.view(n * 6).view(6, n).sin()

    run = run_passes([CanonicalizeViews], capture(function, torch.randn(5, 6), dynamic=True)[0])
    assert run.after["aten.view.default"] == 2
    check_against_eager(function, lambda: [torch.ones(5, 6)], dynamic=True)


def test_permutations_of_symbolic_sizes_are_joined():
    unit = capture(
        lambda x: x.permute(1, 2, 0).transpose(0, 1).sin(), torch.randn(2, 3, 4), dynamic=True
    )
    run = run_passes([CanonicalizeViews], unit[0])
    assert run.applied == {"canonicalize_views": 1}
    assert run.after == {"aten.permute.default": 1, "aten.sin.default": 1}


def test_reads_stay_on_their_side_of_a_write(trace):
    def function(x):
        early = x.view(6).clone()
        x.view(6).add_(1)
        return early, x.view(6).view(2, 3).sin()

    unit = trace(function, torch.zeros(2, 3))
    run_passes([CanonicalizeViews], unit)
    early, late = unit.gm(torch.zeros(2, 3))
    assert early.tolist() == [0.0] * 6
    assert torch.equal(late, torch.ones(2, 3).sin())


def test_a_copying_reshape_is_not_joined_over_a_write(trace):
    aten = torch.ops.aten

    def function(x):
        copied = aten._unsafe_view.default(x.clone(), [6])
        x.add_(1)
        return copied.view(2, 3) * 1

    unit = trace(function, torch.zeros(2, 3))
    run_passes([CanonicalizeViews], unit)
    assert unit.gm(torch.zeros(2, 3)).tolist() == [[0.0] * 3] * 2


def test_absolute_reads_of_storage_stay_right():
    def function(x):
        base = x.view(12)[2:]
        return base.view(10).as_strided((3,), (1,), 1).sin(), base.as_strided((2,), (1,)).sin()

    check_against_eager(function, lambda: [torch.arange(12.0).view(3, 4)])


def test_views_to_another_dtype_stay():
    def function(x):
        return x.view(torch.int32).view(torch.float32).view(6) + 1

    check_against_eager(function, lambda: [torch.arange(6.0)])


def test_long_chains_cost_a_bounded_look(monkeypatch):
    from xpu_graph.passes import canonicalize_views

    looks = []
    real = canonicalize_views._is_same_tensor
    monkeypatch.setattr(
        canonicalize_views,
        "_is_same_tensor",
        lambda *args: looks.append(1) or real(*args),
    )

    def function(x):
        for _ in range(60):
            x = x[1:]
        return x.sin()

    run_passes([CanonicalizeViews], capture(function, torch.randn(100))[0])
    assert len(looks) <= 60 * canonicalize_views.MAX_LINKS


def seeded():
    return torch.Generator().manual_seed(0)


def test_views_of_empty_tensors_are_left_alone():
    """Their strides are another thing on real tensors than on fake ones."""

    def function(x):
        y = x.sign().expand(2, -1, -1).permute(2, 1, 0)
        return torch.ops.aten._unsafe_view(y.view(4, 1, 0, 2), [4, 0, 2])

    unit = capture(function, torch.ones(0, 4))[0]
    run = run_passes([CanonicalizeViews], unit)
    assert not run.applied
    assert set(run.refused) == {"an empty tensor may have other strides than its fake value"}
