"""Small models through torchair's max-autotune mode itself, on the simulator."""

import copy

import pytest
import torch
from ascend_sim import ge
from ge_calls import assert_same, compiled

pytest.importorskip("transformers")

from models import MODELS, SMALL
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

TOLERANCES = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 2e-2}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    ge.forget()
    torch.manual_seed(0)


@pytest.mark.parametrize(
    ("name", "dynamic", "dtype"),
    [
        ("llama", False, "float32"),
        ("llama", True, "bfloat16"),
        ("qwen2", True, "float16"),
        ("bert", False, "float16"),
        ("bert", True, "float32"),
        ("tower", False, "bfloat16"),
        ("tower", True, "float32"),
    ],
    ids=str,
)
def test_model(name, dynamic, dtype):
    make, inputs = MODELS[name]
    type_ = getattr(torch, dtype)
    here = make("eager").eval().to(type_)
    there = compiled(copy.deepcopy(here).npu(), dynamic)
    for sizes in ((2, 7), (3, 7), (2, 9)):
        given = [x.to(type_) if x.is_floating_point() else x for x in inputs(*sizes)]
        with torch.no_grad():
            expected = here(*given)
        assert_same(there(*(x.npu() for x in given)), expected, TOLERANCES[dtype])
    graphs = ge.last_graphs()
    assert [graph["static"] for graph in graphs] == ([False] if dynamic else [True] * 3)


def logits(model, ids, steps):
    """Of greedy decoding; keys and values go through a cache that grows."""
    cache, found = DynamicCache(), []
    for _ in range(steps):
        result = model(ids, past_key_values=cache, use_cache=True).logits[:, -1]
        ids = result.argmax(-1, keepdim=True)
        found.append(result.cpu())
    return torch.stack(found)


def test_decoding_with_a_cache():
    config = LlamaConfig(**SMALL, num_key_value_heads=2, attn_implementation="eager")
    here = LlamaForCausalLM(config).eval()
    there = compiled(copy.deepcopy(here).npu(), dynamic=True)
    ids = torch.randint(0, 64, (2, 5))
    with torch.no_grad():
        expected = logits(here, ids, 4)
        assert_same(logits(there, ids.npu(), 4), expected, 1e-5)
