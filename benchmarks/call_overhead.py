"""Time of a call of a tiny compiled function, against ``aot_eager``; freeze checks apart.

    python benchmarks/call_overhead.py [--rounds 300]

Budget: at most 1.05 of ``aot_eager``. The cost of the freeze checks is reported apart.
"""

import argparse
import statistics
import time

import torch

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.debug.timing import interleaved, paired_ratio

CALLS = 200
"""Calls a timed block: one alone is too short to time."""


def tiny(x):
    return (x + 1).relu()


def block(function, argument):
    """Call a function many times."""

    def run():
        for _ in range(CALLS):
            function(argument)

    return run


def show(title, seconds, baseline):
    print(title)
    for name, times in seconds.items():
        ratio = paired_ratio(times, seconds[baseline])
        median = statistics.median(times) / CALLS * 1e6
        print(f"  {name:24s} median {median:7.2f} us a call   over {baseline} {ratio:5.3f}")


def compiled(function, backend):
    """A compiled copy of a function, so that two backends do not share Dynamo's entries."""
    if isinstance(function, torch.nn.Module):
        return torch.compile(function, backend=backend)
    copy = type(function)(function.__code__.replace(), function.__globals__)
    return torch.compile(copy, backend=backend)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    ours = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False))
    frozen = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False, freeze=True))
    x = torch.ones(8)
    with torch.no_grad():
        ways = {
            "aot_eager": block(compiled(tiny, "aot_eager"), x),
            "xpu_graph": block(compiled(tiny, ours), x),
            "aot_eager again": block(compiled(tiny, "aot_eager"), x),
        }
        show(
            "relu(x + 1), 8 elements",
            interleaved(ways, rounds, clock=time.process_time),
            "aot_eager",
        )
        layers = [torch.nn.Linear(8, 8) for _ in range(50)]

        def stack():
            return torch.nn.Sequential(*layers).eval()

        ways = {
            "xpu_graph": block(torch.compile(stack(), backend=ours), torch.ones(1, 8)),
            "xpu_graph, frozen": block(torch.compile(stack(), backend=frozen), torch.ones(1, 8)),
        }
        show(
            "50 linear layers, 100 parameters",
            interleaved(ways, rounds // 10, clock=time.process_time),
            "xpu_graph",
        )


if __name__ == "__main__":
    main()
