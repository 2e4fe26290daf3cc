"""What each pattern gains or costs, on each way to run on the CPU, in pairs.

    python benchmarks/patterns.py [--rounds 15] [--only SDPA] [--no-inductor]

A program is compiled twice at level2, with the pattern and without it (``skip_patterns``), and both
are called in turn, one thread, processor time. The ratio is that without over that with: above 1
the pattern pays. It is forced on here where the package has it off. docs/patterns.md has the table.
"""

import argparse
import dataclasses
import math
import time

import torch
from torch import nn

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.debug.timing import interleaved, paired_ratio
from xpu_graph.passes.patterns import COMMON, implementations
from xpu_graph.passes.patterns.pattern import Pattern

SETTINGS = {
    "no vendor": {"target": "cpu"},
    "Inductor": {"target": "cpu", "vendor_compiler_config": {}},
    "no vendor, frozen": {"target": "cpu", "freeze": True},
    "Inductor, frozen": {"target": "cpu", "vendor_compiler_config": {}, "freeze": True},
}


def layer_norm(x, weight, bias):
    centred = x - x.mean(-1, keepdim=True)
    return centred / torch.sqrt((centred**2).mean(-1, keepdim=True) + 1e-5) * weight + bias


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def attention(query, key, value):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    return torch.softmax(scores, -1) @ value


def masked_attention(query, key, value, seen):
    scores = query @ key.transpose(-2, -1) * query.shape[-1] ** -0.5
    return torch.softmax(torch.where(seen, scores, -1e9), -1) @ value


def product_and_sum(a, b, c):
    return a @ b + c


def heads(length, size=64):
    return [torch.randn(1, 8, length, size) for _ in range(3)]


def block(*layers):
    return nn.Sequential(*layers).eval()


@dataclasses.dataclass
class Case:
    """A program in which a pattern is found once."""

    pattern: str
    what: str
    function: object
    inputs: list
    frozen: bool = False


def cases():
    """All of them; inputs are made here, so that both sides have the same."""
    row = torch.randn(768)
    yield Case("LayerNorm-aten", "[128, 768]", layer_norm, [torch.randn(128, 768), row, row])
    yield Case("LayerNorm-aten", "[8, 64]", layer_norm, [torch.randn(8, 64), row[:64], row[:64]])
    yield Case("GELU-aten", "tanh [128, 3072]", gelu, [torch.randn(128, 3072)])
    yield Case("GELU-aten", "tanh [8, 64]", gelu, [torch.randn(8, 64)])
    for length in (16, 128, 512):
        yield Case("SDPA-aten", f"8 heads, {length} places", attention, heads(length))
        seen = torch.ones(length, length, dtype=torch.bool).tril()
        yield Case("SDPA-aten", f"masked, {length}", masked_attention, [*heads(length), seen])
    half = [one.bfloat16() for one in heads(128)]
    yield Case("SDPA-aten", "bfloat16, 128", attention, half)
    a, b = torch.randn(128, 768), torch.randn(768, 768)
    yield Case("common-addmm", "row, [128, 768, 768]", product_and_sum, [a, b, row])
    yield Case("common-addmm", "matrix, [128, 768, 768]", product_and_sum, [a, b, a.clone()])
    small = [torch.randn(64, 16), torch.randn(16, 32), torch.randn(32)]
    yield Case("common-addmm", "row, [64, 16, 32]", product_and_sum, small)
    batched = [torch.randn(8, 128, 64), torch.randn(8, 64, 128), torch.randn(8, 128, 128)]
    yield Case("common-baddbmm", "[8, 128, 64, 128]", product_and_sum, batched)
    yield Case("common-baddbmm", "row", product_and_sum, [*batched[:2], torch.randn(128)])
    convolution = block(nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
    image = [torch.randn(1, 32, 64, 64)]
    yield Case("common-convolution_batch_norm", "32 x 64 x 64", convolution, image, frozen=True)
    linear = block(nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU())
    yield Case("common-linear_batch_norm", "64 x 256", linear, [torch.randn(64, 256)], frozen=True)


def force_on():
    """Let every pattern run in every setting."""
    patterns: list[Pattern] = [one.pattern for one in COMMON]
    for pattern in patterns:
        pattern.wanted = lambda config: True
    for one in implementations("cpu"):
        # Others are the same with a rule about sizes, which is what is measured here.
        is_plain = one.label == "aten"
        object.__setattr__(one, "wanted", lambda config, is_plain=is_plain: is_plain)


def compiled(case, setting, skip):
    """The program, compiled with or without the pattern."""
    fields = {**SETTINGS[setting], "opt_level": "level2", "enable_cache": False}
    backend = XpuGraph(XpuGraphConfig(**fields, skip_patterns=(case.pattern,) if skip else ()))
    torch.compiler.reset()
    function = torch.compile(case.function, backend=backend)
    function(*case.inputs)
    graphs = backend.reports[-1].graphs
    applied = sum(g.passes[case.pattern].applied for g in graphs if case.pattern in g.passes)
    return function, applied


def measure(case, setting, rounds, calls):
    """Without over with, and how often the pattern was applied."""
    sides, applied = {}, 0
    for name in ("without", "with"):
        function, applied = compiled(case, setting, name == "without")

        def run(function=function):
            for _ in range(calls):
                function(*case.inputs)

        sides[name] = run
    times = interleaved(sides, rounds, warmup=3, clock=time.process_time)
    return paired_ratio(times["without"], times["with"]), applied


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=20, help="calls in a round")
    parser.add_argument("--only", default="", help="patterns whose name begins so")
    parser.add_argument("--no-inductor", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    force_on()
    print(f"{'pattern':30s} {'of':26s} {'setting':20s} {'without / with':>14s}")
    with torch.no_grad():
        for case in cases():
            if not case.pattern.startswith(arguments.only):
                continue
            for setting, fields in SETTINGS.items():
                if case.frozen != bool(fields.get("freeze")):
                    continue
                if arguments.no_inductor and "Inductor" in setting:
                    continue
                ratio, applied = measure(case, setting, arguments.rounds, arguments.calls)
                note = "" if applied == 1 else f"  (applied {applied} times)"
                print(
                    f"{case.pattern:30s} {case.what:26s} {setting:20s} {ratio:14.2f}{note}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
