"""Compare random graphs before and after the passes.

    python -m tests.fuzz --seed 0 --graphs 20000 --jobs 2 --keep DIR
    python -m tests.fuzz --only SEED

One graph a seed, the same in every process. Exits with 1 if a graph differs; with ``--keep`` the
shrunk graphs are written to a directory, one program each.
"""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

from tests.fuzz.campaign import Settings, Tally, run_seeds
from tests.fuzz.check import LEVELS
from tests.fuzz.generate import THEMES
from xpu_graph.passes import DEFAULT_PASSES

CHUNK = 25


def main(arguments=None):
    options = _parser().parse_args(arguments)
    if options.only is not None:
        seeds = [options.only]
    else:
        seeds = list(range(options.seed, options.seed + options.graphs))
    settings = Settings(
        tuple(options.passes),
        tuple(options.levels),
        options.thorough,
        tuple(options.themes),
        options.keep,
    )
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    total, started = Tally(), time.monotonic()
    for tally in _tallies(chunks, settings, options.jobs):
        total.add(tally)
        for line in tally.failures:
            sys.stdout.write(f"\r{line}\n")
        rate = total.graphs / (time.monotonic() - started)
        sys.stderr.write(
            f"\r{total.graphs}/{len(seeds)} graphs, {rate:.0f}/s, "
            f"{len(total.failures)} failures, {sum(total.skipped.values())} skipped "
        )
    sys.stderr.write("\n")
    sys.stdout.write(total.summary())
    return 1 if total.failures else 0


def _parser():
    parser = argparse.ArgumentParser("python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--graphs", type=int, default=300, help="how many seeds")
    parser.add_argument("--only", type=int, help="one seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    names = [pass_.name for pass_ in DEFAULT_PASSES]
    parser.add_argument("--pass", dest="passes", action="append", choices=names, default=[])
    parser.add_argument("--level", dest="levels", action="append", choices=LEVELS, default=[])
    parser.add_argument("--theme", dest="themes", action="append", choices=[*THEMES], default=[])
    parser.add_argument(
        "--thorough", action="store_true", help="every level and every pass alone on every graph"
    )
    parser.add_argument("--keep", type=Path, help="where the programs go")
    return parser


def _tallies(chunks, settings, jobs):
    torch.set_num_threads(1)
    if jobs == 1:
        for chunk in chunks:
            yield run_seeds(chunk, settings)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        yield from pool.map(run_seeds, chunks, [settings] * len(chunks))


if __name__ == "__main__":
    sys.exit(main())
