"""Small models that train, each with a function that makes one batch."""

import torch
from torch import nn
from torch.nn import functional

VOCABULARY = 61


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8, 16),
            nn.GELU(),
            nn.LayerNorm(16),
            nn.Linear(16, 16),
            nn.SiLU(),
            nn.Dropout(0.2),
        )
        self.head = nn.Linear(16, 3)

    def forward(self, x, labels):
        h = self.layers(x)
        return functional.cross_entropy(self.head(h + 0 * h.detach()), labels)


class Convolutional(nn.Module):
    """Batch norm writes its statistics while it trains."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, stride=2, groups=2),
            nn.BatchNorm2d(8, momentum=0.3),
            nn.ReLU(),
        )
        self.head = nn.Linear(8, 4)

    def forward(self, x, labels):
        return functional.cross_entropy(self.head(self.features(x).mean((2, 3))), labels)


class Recommender(nn.Module):
    """Bags of embeddings, their pairwise products, and two towers of which one gates the other."""

    def __init__(self):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(20, 8, mode="sum") for _ in range(4))
        self.single = nn.Embedding(30, 8, padding_idx=0)
        self.dense = nn.Sequential(nn.Linear(5, 8), nn.ReLU())
        self.deep = nn.Sequential(nn.Linear(48 + 15, 16), nn.ReLU(), nn.Linear(16, 1))
        self.gate = nn.Linear(48, 1)

    def forward(self, dense, bags, single, labels):
        parts = [bag(ids) for bag, ids in zip(self.bags, bags, strict=True)]
        parts += [self.single(single), self.dense(dense)]
        together = torch.stack(parts, 1)
        products = together @ together.transpose(1, 2)
        first, second = torch.triu_indices(6, 6, 1).unbind()
        wide = torch.cat(parts, 1)
        logits = self.deep(torch.cat([wide, products[:, first, second]], 1))
        logits = logits * torch.sigmoid(self.gate(wide))
        return functional.binary_cross_entropy_with_logits(logits.squeeze(1), labels)


def vectors(generator, size=6):
    return {
        "x": torch.randn(size, 8, generator=generator),
        "labels": torch.randint(0, 3, (size,), generator=generator),
    }


def images(generator, size=4):
    return {
        "x": torch.randn(size, 3, 8, 8, generator=generator),
        "labels": torch.randint(0, 4, (size,), generator=generator),
    }


def visits(generator, size=6):
    ids = lambda n, *shape: torch.randint(0, n, shape, generator=generator)  # noqa: E731
    return {
        "dense": torch.randn(size, 5, generator=generator),
        "bags": [ids(20, size, 3) for _ in range(4)],
        "single": ids(30, size),
        "labels": torch.randint(0, 2, (size,), generator=generator).float(),
    }


def sentences(generator, size=2, length=7):
    ids = torch.randint(1, VOCABULARY, (size, length), generator=generator)
    mask = torch.ones(size, length, dtype=torch.int64)
    mask[-1, -2:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids}


class Encoder(nn.Module):
    """The MiniLM encoder, mean pooling and a contrastive loss."""

    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertModel

        config = BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=24,
            num_hidden_layers=2,
            num_attention_heads=3,
            intermediate_size=32,
            max_position_embeddings=16,
        )
        self.encoder = BertModel(config)

    def forward(self, input_ids, attention_mask, labels):
        states = self.encoder(input_ids, attention_mask=attention_mask).last_hidden_state
        weights = attention_mask.unsqueeze(-1).to(states.dtype)
        pooled = (states * weights).sum(1) / weights.sum(1)
        pooled = functional.normalize(pooled, dim=-1)
        scores = pooled @ pooled.t() * 20
        return functional.cross_entropy(scores, torch.arange(len(scores)))


class Decoder(nn.Module):
    """A causal language model of transformers."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **batch):
        labels = batch.pop("labels")
        logits = self.model(**batch, use_cache=False).logits[:, :-1]
        return functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_layer": 2, "n_head": 2, "n_embd": 24, "n_positions": 16}
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return Decoder(GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, **sizes, **ends)))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=24,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16,
        attention_dropout=0.1,
    )
    return Decoder(LlamaForCausalLM(config))


MODELS = {
    "mlp": (Mlp, vectors),
    "convolutional": (Convolutional, images),
    "minilm": (Encoder, sentences),
    "gpt2": (gpt2, sentences),
    "llama": (llama, sentences),
    "recommender": (Recommender, visits),
}
