"""Compile time of MiniLM with the passes on and no vendor, against ``aot_eager``.

    python benchmarks/compile_time.py [--pairs 7]

Budget (a backend that finds nothing to do): at most 1.10. MiniLM gives the passes work. Times are
processor time, since tracing runs on one thread and machines are shared.
"""

import argparse
import statistics
import time

import minilm
import torch

from xpu_graph import XpuGraph, XpuGraphConfig, XpuGraphMemoryCache, recent_reports
from xpu_graph.debug.timing import interleaved, paired_ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=7)
    pairs = parser.parse_args().pairs
    model, inputs = minilm.load()
    off = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False))
    nothing = XpuGraph(XpuGraphConfig(opt_level="level0", enable_cache=False))
    kept = XpuGraph(XpuGraphConfig(opt_level="level2"), cache=XpuGraphMemoryCache())

    def compile_with(backend):
        def run():
            torch.compiler.reset()
            with torch.no_grad():
                torch.compile(model, backend=backend)(**inputs)

        return run

    ways = {
        "aot_eager": compile_with("aot_eager"),
        "xpu_graph, level0": compile_with(nothing),
        "xpu_graph, level2": compile_with(off),
        "xpu_graph, level2, cache hit": compile_with(kept),
    }
    seconds = interleaved(ways, pairs, warmup=1, clock=time.process_time)
    for name, times in seconds.items():
        ratio = paired_ratio(times, seconds["aot_eager"])
        print(f"{name:32s} median {statistics.median(times):6.3f} s   over aot_eager {ratio:5.3f}")
    print()
    print(next(r for r in reversed(recent_reports()) if r.graphs[0].passes))


if __name__ == "__main__":
    main()
