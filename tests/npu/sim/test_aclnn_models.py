"""Whole models, eagerly on the simulated NPU, against the CPU; random weights."""

import ascend_sim
import pytest
import torch
import transformers
from torch import nn

TOLERANCES = {"float32": 1e-5, "float16": 1e-2, "bfloat16": 6e-2}
SMALL = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}


class Tower(nn.Module):
    """Bags and embeddings, their pairwise products, and a deep part, as recommenders have them."""

    def __init__(self):
        super().__init__()
        self.summed = nn.EmbeddingBag(50, 8, mode="sum")
        self.averaged = nn.EmbeddingBag(50, 8, mode="mean")
        self.single = nn.Embedding(20, 8)
        self.norms = nn.Sequential(nn.BatchNorm1d(24), nn.LayerNorm(24))
        self.deep = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 8), nn.PReLU())
        self.top = nn.Linear(14, 1)

    def forward(self, items, offsets, fields, weights):
        parts = [
            self.summed(items, offsets),
            self.averaged(items, offsets),
            self.single(fields).sum(1),
        ]
        deep = self.deep(self.norms(torch.cat(parts, -1)))
        every = torch.stack([*parts, deep], 1)
        products = torch.bmm(every, every.transpose(1, 2))
        rows, columns = torch.triu_indices(4, 4, 1, device=deep.device)
        crossed = products[:, rows, columns] * weights
        return torch.sigmoid(self.top(torch.cat([deep, crossed], -1))).squeeze(-1)


def tokens():
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[1, :3] = 0  # padded on the left
    return {"input_ids": torch.randint(0, 99, (2, 7)), "attention_mask": mask}


def visits():
    return {
        "items": torch.randint(0, 50, (11,)),
        "offsets": torch.tensor([0, 3, 3, 8]),
        "fields": torch.randint(0, 20, (4, 3)),
        "weights": torch.rand(4, 6),
    }


def llama(attention):
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2, attn_implementation=attention)
    return transformers.LlamaModel(config)


def bert(attention):
    return transformers.BertModel(transformers.BertConfig(**SMALL, attn_implementation=attention))


MODELS = {
    "llama": (lambda: llama("eager"), tokens),
    "llama sdpa": (lambda: llama("sdpa"), tokens),
    "bert": (lambda: bert("eager"), tokens),
    "bert sdpa": (lambda: bert("sdpa"), tokens),
    "tower": (Tower, visits),
}


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("name", MODELS, ids=str)
def test_eager(name, dtype):
    make, make_inputs = MODELS[name]
    kind = getattr(torch, dtype)
    model = make().eval().to(kind)
    inputs = {
        key: value.to(kind) if value.is_floating_point() else value
        for key, value in make_inputs().items()
    }
    with torch.no_grad():
        expected = model(**inputs)
        with ascend_sim.trace() as calls:
            actual = model.npu()(**{key: value.npu() for key, value in inputs.items()})
    if not isinstance(expected, torch.Tensor):
        expected, actual = expected[0], actual[0]
    tolerance = TOLERANCES[dtype]
    torch.testing.assert_close(actual.cpu(), expected, rtol=tolerance, atol=tolerance)
    assert ("aclnnFlashAttentionScore" in calls) == ("sdpa" in name)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generate(cache):
    config = transformers.LlamaConfig(**SMALL, num_key_value_heads=2)
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(0, 99, (2, 7))
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    options |= {"cache_implementation": "static"} if cache == "static" else {}
    expected = model.generate(ids, **options)
    assert torch.equal(model.npu().generate(ids.npu(), **options).cpu(), expected)
