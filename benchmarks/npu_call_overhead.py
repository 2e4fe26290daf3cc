"""What a call costs on the host: our artifact against the vendor's own backend.

    python benchmarks/npu_call_overhead.py [--rounds 60]                    on an NPU
    python tests/ascend_sim benchmarks/npu_call_overhead.py [--rounds 60]   on the simulated CANN

A tiny graph is called through ``torch.compile(backend="npugraph_ex")`` and through us in the same
mode, in interleaved blocks. Kernels are included; on the simulator they run on the host, so only
the difference between the two says something.
"""

import argparse
import statistics
import time

import torch
import torch_npu  # noqa: F401

from xpu_graph import npu_compiler
from xpu_graph.debug.timing import interleaved, paired_ratio

CALLS = 50
"""Calls a timed block: one alone is too short to time."""


def tiny(x):
    return (x + 1).relu()


def block(backend, x):
    copy = type(tiny)(tiny.__code__.replace(), tiny.__globals__)
    compiled = torch.compile(copy, backend=backend)

    def run():
        for _ in range(CALLS):
            compiled(x)

    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    x = torch.ones(8).npu()
    with torch.no_grad():
        ways = {
            "npugraph_ex": block("npugraph_ex", x),
            "xpu_graph": block(npu_compiler(mode="npugraph_ex"), x),
            "npugraph_ex again": block("npugraph_ex", x),
        }
        seconds = interleaved(ways, rounds, clock=time.process_time)
    for name, times in seconds.items():
        ratio = paired_ratio(times, seconds["npugraph_ex"])
        median = statistics.median(times) / CALLS * 1e6
        print(f"  {name:20s} median {median:7.1f} us a call   over npugraph_ex {ratio:5.3f}")


if __name__ == "__main__":
    main()
