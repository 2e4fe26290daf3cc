"""The simulated aclnn functions, called by the operators of torch_npu, against the CPU."""

import ascend_sim
import pytest
import torch
import torch.nn.functional as F
from aclnn_cases import CASES, VENDOR_CASES, Maker
from programs import on_npu

TOLERANCES = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}
"""Of results; none for types that are exact."""


def assert_same(actual, expected, tolerance):
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(
            actual.cpu(), expected, rtol=tolerance, atol=tolerance, equal_nan=True
        )
    elif isinstance(expected, tuple | list):
        assert len(actual) == len(expected)
        for left, right in zip(actual, expected, strict=True):
            assert_same(left, right, tolerance)
    else:
        assert actual == expected


def cloned(inputs):
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]


def moved(inputs):
    return [on_npu(value) for value in inputs]


@pytest.mark.parametrize("name", CASES, ids=str)
def test_operator(name):
    case = CASES[name]
    for dtype in case.dtypes:
        inputs = case.inputs(Maker(getattr(torch, dtype)))
        here, there = cloned(inputs), moved(inputs)
        expected = case.call(*here)
        tolerance = max(TOLERANCES.get(dtype, 0.0), case.loose)
        assert_same(case.call(*there), expected, tolerance)
        assert_same(there, here, tolerance)  # written where, and only where, the CPU writes


@pytest.mark.parametrize("name", VENDOR_CASES, ids=str)
def test_operator_of_the_vendor(name):
    case = VENDOR_CASES[name]
    for dtype in case.dtypes:
        inputs = case.inputs(Maker(getattr(torch, dtype)))
        expected = case.expected(*inputs)
        actual = case.call(*moved(inputs))
        if isinstance(expected, tuple):
            actual = actual[: len(expected)]
        elif not isinstance(actual, torch.Tensor):
            actual = actual[0]
        assert_same(actual, expected, max(TOLERANCES[dtype], 1e-3))


CAPTURED = (
    "exp", "relu_", "add", "add scalar", "add_", "mul_ scalar", "div_", "sub broadcast", "where",
    "clamp", "pow scalar", "eq scalar", "logical_and", "bitwise_or", "masked_fill", "masked_fill_",
    "to float16", "clone", "contiguous permute", "copy_ into view", "zero_", "fill_", "setitem",
    "index", "index_put_", "index_select", "index_copy_", "gather", "scatter_", "embedding",
    "embedding_bag sum", "cat", "stack", "split", "repeat", "roll", "flip", "triu_", "sum", "mean",
    "amax keep", "argmax dim", "any bool", "cumsum", "sort", "topk", "softmax", "mm", "bmm",
    "addmm", "linear", "conv2d", "layer_norm", "group_norm", "batch_norm", "max_pool2d", "gelu",
    "silu", "sdpa", "sdpa causal", "foreach copy_", "foreach mul", "foreach add_", "arange",
    "full_like",
)  # fmt: skip


@pytest.mark.parametrize("name", CAPTURED, ids=str)
def test_capture(name):
    """The capture computes nothing; a replay computes with what the inputs hold then."""
    case = CASES[name]
    dtype = case.dtypes[0]
    first, second = (case.inputs(Maker(getattr(torch, dtype), seed)) for seed in (0, 1))
    inputs = moved(first)
    graph = torch.npu.NPUGraph()
    with ascend_sim.trace() as calls, torch.npu.graph(graph):
        outputs = case.call(*inputs)
    assert any(call.startswith("record aclnn") for call in calls)
    assert not any(call.startswith("aclnn") for call in calls)
    assert_same(inputs, list(first), 0.0)
    for values in (first, second):
        here = cloned(values)
        for held, value in zip(inputs, values, strict=True):
            held.copy_(value)
        graph.replay()
        tolerance = max(TOLERANCES.get(dtype, 0.0), case.loose)
        assert_same(outputs, case.call(*here), tolerance)
        assert_same(inputs, here, tolerance)


@pytest.mark.parametrize("name", ["item", "nonzero", "masked_select"])
def test_capture_refuses_what_waits_for_the_device(name):
    case = CASES[name]
    inputs = moved(case.inputs(Maker(getattr(torch, case.dtypes[0]))))
    with pytest.raises(RuntimeError), torch.npu.graph(torch.npu.NPUGraph()):
        case.call(*inputs)


class TestRandom:
    DRAWS = {
        "randn": (lambda: torch.randn(4000, device="npu"), 0.0, 1.0),
        "rand": (lambda: torch.rand(4000, device="npu"), 0.5, 0.2887),
        "normal_": (lambda: torch.empty(4000, device="npu").half().normal_(2, 3), 2.0, 3.0),
        "uniform_": (lambda: torch.empty(4000, device="npu").uniform_(-1, 3), 1.0, 1.1547),
        "bernoulli_": (lambda: torch.empty(4000, device="npu").bernoulli_(0.25), 0.25, 0.433),
        "bernoulli": (lambda: torch.full((4000,), 0.25, device="npu").bernoulli(), 0.25, 0.433),
        "randint": (lambda: torch.randint(0, 10, (4000,), device="npu"), 4.5, 2.8723),
        "exponential_": (lambda: torch.empty(4000, device="npu").exponential_(2.0), 0.5, 0.5),
        "dropout": (lambda: F.dropout(torch.ones(4000, device="npu"), 0.2), 1.0, 0.5),
        "multinomial": (
            lambda: torch.ones(4, device="npu").multinomial(4000, replacement=True), 1.5, 1.118
        ),
    }  # fmt: skip

    @pytest.mark.parametrize("name", DRAWS, ids=str)
    def test_distribution_and_seed(self, name):
        draw, mean, deviation = self.DRAWS[name]
        torch.npu.manual_seed(3)
        first, second = draw().float().cpu(), draw().float().cpu()
        torch.npu.manual_seed(3)
        assert torch.equal(draw().float().cpu(), first)
        assert not torch.equal(first, second)
        assert first.mean().item() == pytest.approx(mean, abs=deviation * 0.1)
        assert first.std().item() == pytest.approx(deviation, rel=0.1)

    def test_randperm(self):
        assert sorted(torch.randperm(50, device="npu").tolist()) == list(range(50))

    @pytest.mark.parametrize("name", ["randn", "rand", "randint", "dropout", "exponential_"])
    def test_a_replay_draws_anew(self, name):
        draw, mean, deviation = self.DRAWS[name]
        graph = torch.npu.NPUGraph()
        with torch.npu.graph(graph):
            drawn = draw()
        seen = []
        for _ in range(2):
            graph.replay()
            seen.append(drawn.float().cpu())
        assert not torch.equal(*seen)
        assert seen[1].mean().item() == pytest.approx(mean, abs=deviation * 0.1)

    def test_dropout_keeps_the_same_places_in_both_directions(self):
        kept = F.dropout(torch.ones(100, device="npu"), 0.5).cpu()
        assert set(kept.tolist()) == {0.0, 2.0}


class TestErrors:
    def test_an_operator_without_an_aclnn_function(self):
        with pytest.raises(RuntimeError, match=r"Swish\(Half\[3, 4\]\) -> Half\[3, 4\]: no aclnn"):
            torch.ops.npu.npu_silu(torch.ones(3, 4, device="npu").half())

    def test_a_rule_that_is_not_simulated_names_the_arguments(self):
        x = torch.ones(1, 1, 2, 4, device="npu")
        hidden = torch.ones(2, 2, device="npu", dtype=torch.bool)
        with pytest.raises(RuntimeError, match=r"sparse mode 5 .*Float\[1, 1, 2, 4\]"):
            torch.ops.npu.npu_fusion_attention(
                x, x, x, 1, "BNSD", atten_mask=hidden, sparse_mode=5, prefix=[1]
            )

    def test_an_index_out_of_range(self):
        with pytest.raises(RuntimeError, match="aclnnEmbedding"):
            F.embedding(torch.tensor([7], device="npu"), torch.ones(3, 4, device="npu"))
