"""Time of the pass pipeline against one FakeTensorProp of the same graph, in the same run.

    python benchmarks/pass_pipeline.py [--rounds 9]

Budget: at most 0.5 with rewrites to do, 0.13 with nothing to rewrite. The graph is MiniLM's.
"""

import argparse
import statistics
import time

import minilm
import torch
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from xpu_graph import Stage, XpuGraphConfig
from xpu_graph.debug.timing import paired_ratio
from xpu_graph.fx import shallow_copy
from xpu_graph.passes import DEFAULT_PASSES, Pipeline
from xpu_graph.stage import Unit
from xpu_graph.testing import capture


def timed(function, *arguments):
    """Seconds of processor time a call takes; one thread does all of it."""
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    model, inputs = minilm.load()
    (unit,) = capture(model, *inputs.values())
    nodes = len(unit.gm.graph.nodes)
    pipeline = Pipeline(DEFAULT_PASSES, XpuGraphConfig(opt_level="level2"))
    mode = unit.fake_inputs[0].fake_mode
    rows = {"with rewrites": [], "nothing to rewrite": [], "FakeTensorProp": []}
    for number in range(rounds + 2):
        work = Unit(Stage.inference, shallow_copy(unit.gm), list(unit.fake_inputs))
        propagation = FakeTensorProp(unit.gm, mode)
        spent = {
            "FakeTensorProp": timed(propagation.propagate_dont_convert_inputs, *unit.fake_inputs),
            "with rewrites": timed(pipeline.run, work),
            "nothing to rewrite": timed(pipeline.run, work),
        }
        if number >= 2:
            for name, seconds in spent.items():
                rows[name].append(seconds)
    print(f"MiniLM: {nodes} nodes")
    for name, times in rows.items():
        median = statistics.median(times)
        ratio = paired_ratio(times, rows["FakeTensorProp"])
        print(
            f"{name:20s} median {median * 1e3:7.2f} ms, {median / nodes * 1e6:6.1f} us a node, "
            f"over FakeTensorProp {ratio:5.3f}"
        )


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
