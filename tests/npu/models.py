"""Small random models that the npu tests and the npu sweep run, and one way to run them."""

import dataclasses
import itertools

import torch
from programs import assert_same_numbers, backend
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}


class Tower(torch.nn.Module):
    """A recommender: bags of sparse features, dense features, two layers, a score."""

    def __init__(self):
        super().__init__()
        self.user = torch.nn.Embedding(50, 8)
        self.items = torch.nn.Embedding(60, 8)
        self.norm = torch.nn.LayerNorm(24)
        self.deep = torch.nn.Sequential(
            torch.nn.Linear(24, 32), torch.nn.ReLU(), torch.nn.Linear(32, 16), torch.nn.ReLU()
        )
        self.batch_norm = torch.nn.BatchNorm1d(16)
        self.score = torch.nn.Linear(16, 1)

    def forward(self, user, items, dense):
        parts = [self.user(user), self.items(items).sum(1), dense]
        hidden = self.batch_norm(self.deep(self.norm(torch.cat(parts, dim=1))))
        return torch.sigmoid(self.score(hidden)).squeeze(-1)


def tokens(batch, length):
    return (torch.randint(0, 64, (batch, length)),)


def tower_inputs(batch, length):
    return (
        torch.randint(0, 50, (batch,)),
        torch.randint(0, 60, (batch, length)),
        torch.randn(batch, 8),
    )


class Logits(torch.nn.Module):
    """A language model that takes tokens and returns one tensor."""

    def __init__(self, model, **given):
        super().__init__()
        self.model = model
        self.given = given

    def forward(self, ids):
        return self.model(ids, **self.given)[0]


def llama(attention):
    config = LlamaConfig(**SMALL, num_key_value_heads=2, attn_implementation=attention)
    return Logits(LlamaForCausalLM(config), use_cache=False)


def qwen2(attention):
    config = Qwen2Config(**SMALL, num_key_value_heads=2, attn_implementation=attention)
    return Logits(Qwen2ForCausalLM(config), use_cache=False)


def bert(attention):
    return Logits(BertModel(BertConfig(**SMALL, attn_implementation=attention)))


def tower(attention):
    return Tower()


MODELS = {
    "llama": (llama, tokens),
    "qwen2": (qwen2, tokens),
    "bert": (bert, tokens),
    "tower": (tower, tower_inputs),
}
COMPILERS = ("max-autotune", "reduce-overhead", "npugraph_ex", "device_graph")
SIZES = [(2, 7), (3, 7), (2, 9), (2, 7)]
"""Batches and lengths of the calls: a shape that comes back is among them."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One way to run one model."""

    model: str
    compiler: str
    dynamic: bool
    freeze: bool
    level: int
    dtype: str

    def __str__(self):
        shape = "dynamic" if self.dynamic else "static"
        frozen = "-freeze" if self.freeze else ""
        return f"{self.model}-{self.compiler}-{shape}{frozen}-level{self.level}-{self.dtype}"


ALL = [
    Case(*chosen)
    for chosen in itertools.product(
        MODELS, COMPILERS, (False, True), (False, True), (1, 2), ("float32", "float16", "bfloat16")
    )
]


def pairwise(cases):
    """A few of the cases, in which every two settings still meet."""
    open_pairs = {pair for case in cases for pair in _pairs(case)}
    chosen = []
    while open_pairs:
        best = max(cases, key=lambda case: len(open_pairs & _pairs(case)))
        open_pairs -= _pairs(best)
        chosen.append(best)
    return chosen


def _pairs(case):
    return set(itertools.combinations(dataclasses.asdict(case).items(), 2))


TOLERANCES = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


def check(case):
    """Run a model on the CPU as it is and on the NPU compiled, and compare every call."""
    make, inputs_of = MODELS[case.model]
    torch.manual_seed(0)
    dtype = getattr(torch, case.dtype)
    # GE has no converter for the fused attention that torch_npu makes of the other form.
    model = make("eager" if case.compiler == "max-autotune" else "sdpa").eval().to(dtype)
    on_npu = make("eager" if case.compiler == "max-autotune" else "sdpa").eval().to(dtype)
    on_npu.load_state_dict(model.state_dict())
    on_npu = on_npu.npu()
    made = backend(case.compiler, config={"freeze": case.freeze, "opt_level": case.level})
    run = torch.compile(on_npu, backend=made, dynamic=case.dynamic or None, fullgraph=True)
    with torch.no_grad():
        for size in SIZES:
            inputs = [
                value.to(dtype) if value.is_floating_point() else value
                for value in inputs_of(*size)
            ]
            got = run(*(value.npu() for value in inputs))
            tolerance = TOLERANCES[case.dtype]
            assert_same_numbers(got, model(*inputs), rtol=tolerance, atol=tolerance)
    assert not made.counts, made.counts
