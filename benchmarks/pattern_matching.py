"""What 200 registered patterns cost on a graph in which none is found.

    python benchmarks/pattern_matching.py [--nodes 5000] [--patterns 200] [--rounds 5]

The patterns are made of operators that the graph (a deep transformer with hand-written norm and
GELU) is full of, and differ from it in one number. Processor time of the pipeline on a graph that
the passes have settled, with and without patterns, in pairs.

Budget: 10 us a node for all of them.
"""

import argparse
import itertools
import statistics
import time

import graphs
import torch

from xpu_graph import XpuGraphConfig, enable_plugin_patterns, register_plugin_pattern
from xpu_graph.debug.timing import interleaved
from xpu_graph.fx import shallow_copy
from xpu_graph.passes import DEFAULT_PASSES, Pipeline
from xpu_graph.passes.patterns import plugin_patterns
from xpu_graph.stage import Unit

BUDGET = 10.0
"""Microseconds a node."""

CONFIG = XpuGraphConfig(opt_level="level2")


def gelu(x, number):
    """Half of a GELU, with another number."""
    return 0.5 * x * (1 + torch.tanh((x + number * x * x * x) * 0.7978845608))


def norm(x, number):
    """A norm with another power."""
    return x * torch.rsqrt(x.pow(number).mean(-1, keepdim=True) + 1e-6)


def gate(x, number):
    """A product of a sum, as in residual connections."""
    return (x * number + x) * (x + x * (number + 1))


def scores(x, number):
    """Scaled scores."""
    return torch.softmax(torch.matmul(x, x.transpose(-1, -2)) * number, -1)


def register(count):
    """Register patterns with one number each; none of them is in the graph."""
    shapes = itertools.cycle([gelu, norm, gate, scores])
    for number, shape in zip(range(count), shapes, strict=False):
        pattern, instead = (_with_number(shape, number + by) for by in (3.5, 3.75))
        register_plugin_pattern(
            pattern, (torch.randn(2, 4, 8),), instead, "none", postfix=str(number)
        )


def _with_number(shape, number):
    def pattern(x):
        return shape(x, number)

    return pattern


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--patterns", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    unit = graphs.KINDS["transformer"](given.nodes)
    plain = Pipeline(DEFAULT_PASSES, CONFIG)
    plain.run(unit)
    nodes = len(unit.gm.graph.nodes)

    def run(pipeline):
        def settled():
            copied = Unit(unit.stage, shallow_copy(unit.gm), list(unit.fake_inputs))
            pipeline.run(copied)
            if sum(copied.rewriter.firings.values()):
                raise SystemExit("a pattern was found: the measurement means nothing")

        return settled

    with enable_plugin_patterns():
        start = time.perf_counter()
        register(given.patterns)
        spent = (time.perf_counter() - start) / given.patterns
        ways = {
            "without": run(plain),
            "with": run(Pipeline(DEFAULT_PASSES, CONFIG, plugin_patterns)),
        }
        seconds = interleaved(ways, given.rounds, warmup=1, clock=time.process_time)
    difference = statistics.median(
        more - less for more, less in zip(seconds["with"], seconds["without"], strict=True)
    )
    print(f"{given.patterns} patterns, {nodes} nodes; {spent * 1e3:.1f} ms to register one")
    for name, times in seconds.items():
        print(f"{name:8s} {statistics.median(times) / nodes * 1e6:7.2f} us a node")
    print(f"patterns {difference / nodes * 1e6:7.2f} us a node (budget {BUDGET})")


if __name__ == "__main__":
    main()
