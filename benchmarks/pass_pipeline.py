"""Cost of the pass pipeline on ATen graphs of 1,000 to 20,000 nodes, against FakeTensorProp.

    python benchmarks/pass_pipeline.py [--kinds transformer recommender training minilm]
                                       [--sizes 1000 5000 10000 20000] [--rounds 5] [--profile]

Every pass at level 2, ``verify`` as in the default configuration. "rewrites" is the pipeline on a
graph as it was traced, "settled" the pipeline on what it made of that graph. Each ratio is over one
whole-graph FakeTensorProp of the graph that the pipeline was given, timed right before it; medians
of paired ratios, processor time. Exponents are least squares in log-log over the sizes, the median
over the rounds. The peak memory is what Python allocates (tracemalloc) over what was there before,
in a run of its own; tensor metadata that torch keeps in C++ is not seen.

Budgets: 0.5 with rewrites, 0.13 with nothing to rewrite, exponents of at most 1.1.
"""

import argparse
import cProfile
import gc
import math
import pstats
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import graphs
import minilm
import torch
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from xpu_graph import XpuGraphConfig
from xpu_graph.debug.report import GraphReport, Recorder
from xpu_graph.debug.timing import paired_ratio
from xpu_graph.fx import attribute, shallow_copy
from xpu_graph.passes import DEFAULT_PASSES, Pipeline
from xpu_graph.passes.patterns import patterns_for
from xpu_graph.stage import Unit
from xpu_graph.testing import capture

REWRITES, SETTLED, EXPONENT = 0.5, 0.13, 1.1
"""Budgets: ratio with rewrites, ratio with nothing to rewrite, exponent of time and of memory."""

CONFIG = XpuGraphConfig(opt_level="level2")
PIPELINE = Pipeline(DEFAULT_PASSES, CONFIG, lambda: patterns_for(CONFIG.target))


def minilm_unit() -> Unit:
    """The graph of a pretrained model."""
    model, inputs = minilm.load()
    (unit,) = capture(model, *inputs.values())
    return unit


def copy_of(unit: Unit) -> Unit:
    """A unit that the pipeline may change."""
    return Unit(unit.stage, shallow_copy(unit.gm), list(unit.fake_inputs))


def propagation_of(unit: Unit) -> Callable[[], object]:
    """One FakeTensorProp of a graph of its own, equal to the unit's."""
    gm = shallow_copy(unit.gm)
    for node in gm.graph.find_nodes(op="get_attr"):
        if isinstance(attribute(unit.gm, node.target), torch.Tensor):
            gm.register_buffer(node.target, node.meta["val"])  # it reads fake tensors only
    mode = next(v for v in unit.fake_inputs if isinstance(v, torch.Tensor)).fake_mode
    propagation = FakeTensorProp(gm, mode)
    return lambda: propagation.propagate_dont_convert_inputs(*unit.fake_inputs)


def timed(function: Callable[..., object], *arguments: object) -> float:
    """Seconds of processor time a call takes; one thread does all of it."""
    gc.collect()  # so that it does not pay for what others left
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


@dataclass
class Case:
    """One graph, and what was measured on it: seconds by way, one entry a round."""

    unit: Unit
    settled: Unit = field(init=False)
    first_run: str = field(init=False)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    peak: int = 0

    def __post_init__(self) -> None:
        self.settled = copy_of(self.unit)
        rounds = PIPELINE.run(self.settled)
        self.first_run = f"{self._applied()} rewrites in {rounds} rounds"
        for _ in range(4):
            PIPELINE.run(self.settled)
            if not self._applied():
                break
            self.first_run += f", {self._applied()} more when run again"
        self._propagations = propagation_of(self.unit), propagation_of(self.settled)

    def _applied(self) -> int:
        return self.settled.rewriter.firings.total()

    @property
    def nodes(self) -> int:
        """How many nodes the graph has before the passes."""
        return len(self.unit.gm.graph.nodes)

    def run_round(self) -> None:
        """Time each way once."""
        work = copy_of(self.unit)
        whole, rest = self._propagations
        for way, function, *arguments in (
            ("prop", whole),
            ("rewrites", PIPELINE.run, work),
            ("prop settled", rest),
            ("settled", PIPELINE.run, self.settled),
        ):
            self.seconds.setdefault(way, []).append(timed(function, *arguments))

    def measure_memory(self) -> None:
        """Find the peak of what Python allocates in one run with rewrites."""
        work = copy_of(self.unit)
        gc.collect()
        tracemalloc.start()
        PIPELINE.run(work)
        self.peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    def ratio(self, way: str) -> float:
        """The median of a way's time over its baseline's."""
        return paired_ratio(self.seconds[way], self.seconds[BASELINE[way]])

    def microseconds(self, way: str) -> float:
        """The median of a way's time, for each node it was given."""
        of = self.settled if "settled" in way else self.unit
        return statistics.median(self.seconds[way]) / len(of.gm.graph.nodes) * 1e6


BASELINE = {"rewrites": "prop", "settled": "prop settled"}
"""Way -> what it is compared with."""


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """The slope of the least squares line through the logarithms."""
    xs, ys = [math.log(size) for size in sizes], [math.log(cost) for cost in costs]
    return statistics.linear_regression(xs, ys).slope


class Budgets:
    """Says ok or over beside a figure, and remembers what was over."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def judge(self, figure: float, limit: float, what: str) -> str:
        """The figure with its verdict."""
        if figure <= limit:
            return f"{figure:.3f} ok"
        self.missed.append(f"{what} {figure:.3f} (at most {limit})")
        return f"{figure:.3f} over"


def show(kind: str, cases: Sequence[Case], budgets: Budgets) -> None:
    """Print the rows of one kind."""
    serving = len(PIPELINE.passes_for(cases[0].unit))
    print(f"{kind} ({cases[0].unit.stage.value}, {serving} passes)")
    print("   nodes  prop us   rewrites us   ratio       settled us   ratio       peak KiB a node")
    for case in cases:
        name = f"{kind} {case.nodes}"
        rewrites = budgets.judge(case.ratio("rewrites"), REWRITES, f"{name} rewrites")
        settled = budgets.judge(case.ratio("settled"), SETTLED, f"{name} settled")
        print(
            f"  {case.nodes:6d}  {case.microseconds('prop'):7.1f}   "
            f"{case.microseconds('rewrites'):11.1f}   {rewrites:10s}  "
            f"{case.microseconds('settled'):10.1f}   {settled:10s}  "
            f"{case.peak / case.nodes / 1024:5.2f}   {case.first_run}"
        )
    if len(cases) > 1:
        sizes = [case.nodes for case in cases]
        parts = []
        for way in ("rewrites", "settled", "prop"):
            by_round = zip(*[case.seconds[way] for case in cases], strict=True)
            slope = statistics.median(exponent(sizes, costs) for costs in by_round)
            if way == "prop":  # torch's: what the machine adds as a graph outgrows its caches
                parts.append(f"FakeTensorProp {slope:.3f}")
            else:
                judged = budgets.judge(slope, EXPONENT, f"{kind} {way} exponent")
                parts.append(f"{way} {judged}")
        slope = exponent(sizes, [case.peak for case in cases])
        parts.append(f"peak memory {budgets.judge(slope, EXPONENT, f'{kind} memory exponent')}")
        print(f"  exponents: {', '.join(parts)}")
    print(flush=True)


def profile(unit: Unit) -> None:
    """Print where one run with rewrites and one with nothing to rewrite spend their time."""
    gc.collect()
    gc.freeze()
    for title in ("with rewrites", "settled"):
        nodes = len(unit.gm.graph.nodes)
        report = GraphReport(title, unit.stage.value)
        timed_unit = copy_of(unit)
        recorder = Recorder(report)
        PIPELINE.run(timed_unit, [recorder])
        print(f"{title}, {nodes} nodes, {report.rounds} rounds; microseconds a node by pass:")
        for name, record in report.passes.items():
            print(f"  {name:24s} {record.seconds / nodes * 1e6:6.2f}   {record.applied} rewrites")
        profiler = cProfile.Profile(timer=time.process_time)
        profiler.runcall(PIPELINE.run, unit)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kinds", nargs="+", choices=[*graphs.KINDS, "minilm"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[1000, 5000, 10000, 20000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="store_true", help="cProfile of the largest size")
    given = parser.parse_args()
    settings = f"level2, {len(DEFAULT_PASSES)} passes, verify={CONFIG.verify!r}"
    print(f"{settings}, {given.rounds} rounds\n")
    budgets = Budgets()
    for kind in given.kinds or [*graphs.KINDS, "minilm"]:
        try:
            units = [minilm_unit()] if kind == "minilm" else map(graphs.KINDS[kind], given.sizes)
            cases = [Case(unit) for unit in units]
        except SystemExit as missing:  # the model is not installed
            print(f"{kind}: {missing}\n")
            continue
        if given.profile:
            profile(copy_of(cases[-1].unit))
            continue
        gc.collect()
        gc.freeze()  # what lives on is no work for the collections that fall into a timed call
        for _ in range(given.rounds):  # making the cases ran everything once: it is warm
            for case in cases:
                case.run_round()
        for case in cases:
            case.measure_memory()
        show(kind, cases, budgets)
        gc.unfreeze()
    if not given.profile:
        print("missed: " + "; ".join(budgets.missed) if budgets.missed else "every budget is met")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
