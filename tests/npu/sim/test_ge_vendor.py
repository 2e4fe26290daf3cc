"""Operators and defects of the vendor in torchair's max-autotune mode, on the simulator."""

import pytest
import torch
import torch.nn.functional as F
import torch_npu
from ascend_sim import ge
from ge_calls import assert_same, compiled
from programs import on_npu


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    ge.forget()


def attention(q, k, v, hidden=None):
    scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    return torch.softmax(scores, -1) @ v


def heads(tokens=5, count=2):
    return torch.randn(2, count, tokens, 8)


HIDDEN = torch.ones(5, 5).triu(1).bool()
SCALE = 8**-0.5
VENDOR = {
    "npu_rms_norm": (
        lambda x, g: torch_npu.npu_rms_norm(x, g, 1e-6)[0],
        lambda x, g: F.rms_norm(x, (8,), g, 1e-6),
        lambda: (torch.randn(3, 8), torch.randn(8)),
    ),
    "npu_add_rms_norm": (
        lambda x, y, g: torch_npu.npu_add_rms_norm(x, y, g, 1e-6)[::2],
        lambda x, y, g: (F.rms_norm(x + y, (8,), g, 1e-6), x + y),
        lambda: (torch.randn(3, 8), torch.randn(3, 8), torch.randn(8)),
    ),
    "npu_swiglu": (
        torch_npu.npu_swiglu,
        lambda x: F.silu(x[..., :4]) * x[..., 4:],
        lambda: (torch.randn(3, 8),),
    ),
    "npu_rotary_mul": (
        torch_npu.npu_rotary_mul,
        lambda x, c, s: x * c + torch.cat([-x[..., 4:], x[..., :4]], -1) * s,
        lambda: (heads(), torch.randn(1, 1, 5, 8), torch.randn(1, 1, 5, 8)),
    ),
    "npu_fusion_attention": (
        lambda q, k, v, m: torch_npu.npu_fusion_attention(
            q, k, v, 2, "BNSD", atten_mask=m, scale=SCALE
        )[0],
        attention,
        lambda: (heads(), heads(), heads(), HIDDEN),
    ),
    "npu_fused_infer_attention_score": (
        lambda q, k, v, m: torch_npu.npu_fused_infer_attention_score(
            q, k, v, num_heads=2, input_layout="BNSD", atten_mask=m, scale=SCALE
        )[0],
        attention,
        lambda: (heads(), heads(), heads(), HIDDEN),
    ),
    "npu_fused_infer_attention_score grouped": (
        lambda q, k, v: torch_npu.npu_fused_infer_attention_score(
            q, k, v, num_heads=4, num_key_value_heads=2, input_layout="BNSD", scale=SCALE
        )[0],
        lambda q, k, v: attention(q, *(x.repeat_interleave(2, 1) for x in (k, v))),
        lambda: (heads(count=4), heads(), heads()),
    ),
    "npu_incre_flash_attention": (
        lambda q, k, v: torch_npu.npu_incre_flash_attention(
            q, k, v, num_heads=2, input_layout="BNSD", scale_value=SCALE,
            num_key_value_heads=2, actual_seq_lengths=[3, 3],
        ),
        lambda q, k, v: attention(q, k[:, :, :3], v[:, :, :3]),
        lambda: (heads(1), heads(), heads()),
    ),
    "scatter_update_": (
        lambda x, i, u: torch_npu.scatter_update_(x, i, u, -2) + 1,
        lambda x, i, u: x.scatter_(2, i.reshape(2, 1, 1, 1).expand_as(u), u) + 1,
        lambda: (heads(), torch.tensor([1, 3]), heads(1)),
    ),
    "npu_scatter_nd_update": (
        torch_npu.npu_scatter_nd_update,
        lambda x, i, u: x.index_put((i[:, 0],), u),
        lambda: (torch.randn(5, 8), torch.tensor([[1], [3]]), torch.randn(2, 8)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", VENDOR, ids=str)
def test_operator_of_the_vendor(name):
    call, reference, inputs = VENDOR[name]
    torch.manual_seed(0)
    here = inputs()
    there = [on_npu(value) for value in here]
    actual = compiled(call)(*there)
    assert_same(actual, reference(*here), 1e-4)
    assert_same(there, here, 1e-4)


# --- what the vendor gets wrong, before any kernel runs -----------------------------------------


def test_the_sum_of_a_bag_becomes_a_mean():
    """The converter takes 1 for the default of mode, which is 0, and the graph leaves it out."""
    index, weight = torch.randint(0, 9, (3, 2)), torch.randn(9, 4)
    actual = compiled(lambda i, w: F.embedding_bag(i, w, mode="sum"))(on_npu(index), on_npu(weight))
    assert_same(actual, F.embedding_bag(index, weight, mode="mean"), 1e-5)


def test_the_approximation_of_gelu_is_lost():
    x = torch.randn(3, 4) * 3
    actual = compiled(lambda x: F.gelu(x, approximate="tanh"))(on_npu(x))
    assert_same(actual, F.gelu(x), 1e-6)
    assert ge.last_graphs()[0]["ops"] == ["Data", "Gelu"]


def test_rotation_of_neighbours_becomes_one_of_halves():
    x, c, s = heads(), torch.randn(1, 1, 5, 8), torch.randn(1, 1, 5, 8)
    actual = compiled(lambda *args: torch_npu.npu_rotary_mul(*args, "interleave"))(
        on_npu(x), on_npu(c), on_npu(s)
    )
    assert_same(actual, VENDOR["npu_rotary_mul"][1](x, c, s), 1e-5)


def test_the_deviation_of_the_last_dimension_fails():
    """The graph expands the mean without the dimension that it was taken of."""
    with pytest.raises(RuntimeError, match="of node Expand"):
        compiled(lambda x: x.std(-1))(torch.randn(3, 4, device="npu"))


def test_attention_of_torch_has_no_converter():
    """torch_npu makes npu_fusion_attention_v3 of it, for which torchair would build an operator."""
    q = torch.randn(1, 2, 3, 8, device="npu")
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="ASCEND_HOME_PATH"):
        compiled(F.scaled_dot_product_attention)(q, q, q)
