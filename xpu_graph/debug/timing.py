"""Times of several functions, taken in turn, so that a slow spell of the machine hits them all."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence


def interleaved(
    functions: Mapping[str, Callable[[], object]],
    rounds: int,
    warmup: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """Call every function once a round and take its time.

    Args:
        functions: what to call, by name.
        rounds: how many times each is timed.
        warmup: how many rounds come first and are not counted.
        clock: gives seconds; ``time.process_time`` where one thread does the work.

    Returns:
        Seconds of each call, by name, in the order of the rounds.
    """
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for number in range(warmup + rounds):
        for name, function in functions.items():
            start = clock()
            function()
            spent = clock() - start
            if number >= warmup:
                seconds[name].append(spent)
    return seconds


def paired_ratio(candidate: Sequence[float], baseline: Sequence[float]) -> float:
    """The median of candidate over baseline, round by round."""
    return statistics.median(c / b for c, b in zip(candidate, baseline, strict=True))
