"""Warm start and peak memory, each measured in a new process.

    python benchmarks/new_process.py [--pairs 5] [--inductor]

Budgets: a warm start takes at most 1.3 times Dynamo and AOTAutograd alone (``aot_eager``), imports
not counted; compiling takes at most 1.2 times the peak memory of the vendor compiler alone.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

WAYS = {
    "aot_eager": {"backend": "aot_eager"},
    "inductor": {"backend": "inductor"},
    "xpu_graph, no vendor": {
        "backend": "xpu_graph",
        "options": {"vendor_compiler_config": None},
    },
    "xpu_graph, inductor": {"backend": "xpu_graph"},
}


def measure(way):
    """Compile MiniLM and print the seconds and the peak memory that it took."""
    import minilm
    import torch

    import xpu_graph.backend  # noqa: F401  imports are not counted

    if "inductor" in way:
        import torch._inductor.compile_fx
    model, inputs = minilm.load()
    compiled = torch.compile(model, **WAYS[way])
    start = time.perf_counter()
    with torch.no_grad():
        compiled(**inputs)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "megabytes": peak}))


def run(way, folder):
    """Measure a way in a new process whose caches lie in a folder."""
    caches = {"XPUGRAPH_CACHE_DIR": f"{folder}/x", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/i"}
    done = subprocess.run(
        [sys.executable, __file__, "--measure", way],
        env={**os.environ, **caches},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--inductor", action="store_true", help="Inductor too (minutes)")
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        measure(arguments.measure)
        return
    ways = [way for way in WAYS if arguments.inductor or "inductor" not in way]
    results = {(way, state): [] for way in ways for state in ("cold", "warm")}
    for _ in range(arguments.pairs):
        for way in ways:
            with tempfile.TemporaryDirectory() as folder:
                for state in ("cold", "warm"):
                    results[way, state].append(run(way, folder))
    bases = results["aot_eager", "cold"]
    for (way, state), rows in results.items():
        ratios = [row["seconds"] / base["seconds"] for row, base in zip(rows, bases, strict=True)]
        print(
            f"{way:22s} {state}  {statistics.median(r['seconds'] for r in rows):6.2f} s, over "
            f"aot_eager {statistics.median(ratios):5.2f}, peak memory "
            f"{statistics.median(r['megabytes'] for r in rows):7.0f} MB"
        )


if __name__ == "__main__":
    main()
