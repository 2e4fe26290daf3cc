"""Training MiniLM: step time and compile time against ``aot_eager`` and Inductor, in pairs.

    python benchmarks/training.py [--rounds 15] [--pairs 3] [--no-inductor]

A step is a forward call, a backward pass and an optimiser step (fused AdamW) on 8 sentences of 16
tokens, dropout on. Step times are of calls made in turn. Compile times are processor time of the
first step, caches off; what is saved for backward is counted through ``saved_tensors_hooks``.
"""

import argparse
import copy
import statistics
import time

import minilm
import torch

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.debug.timing import interleaved, paired_ratio


def backends(with_inductor):
    """What is compared, and what each is compared with."""

    def ours(**fields):
        return XpuGraph(XpuGraphConfig(enable_cache=False, **fields))

    ways = {
        "eager": (None, None),
        "aot_eager": ("aot_eager", None),
        "xpu_graph, level0": (ours(opt_level="level0"), "aot_eager"),
        "xpu_graph, level1": (ours(), "aot_eager"),
        "xpu_graph, level2": (ours(opt_level="level2"), "aot_eager"),
        "xpu_graph, level2, MINCUT": (ours(opt_level="level2", partition_fn="MINCUT"), "aot_eager"),
    }
    if with_inductor:
        vendor = {"target": "cpu", "vendor_compiler_config": {}}
        ways["inductor"] = ("inductor", None)
        ways["xpu_graph, Inductor"] = (ours(**vendor), "inductor")
        ways["xpu_graph, Inductor, MINCUT"] = (ours(partition_fn="MINCUT", **vendor), "inductor")
    return ways


class Side:
    """One way to train, with a model and an optimiser of its own."""

    def __init__(self, model, inputs, backend):
        self.model = copy.deepcopy(model).train()
        self.inputs = inputs
        self.backend = backend
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=1e-5, fused=True)
        self.forward = self.model if backend is None else self.compiled()

    def compiled(self):
        """The model as a function that is compiled when it is called."""
        return torch.compile(self.model, backend=self.backend)

    def step(self):
        """A whole training step, with the same dropout each time."""
        torch.manual_seed(0)
        hidden = self.forward(**self.inputs).last_hidden_state
        hidden.square().mean().backward()
        self.optimiser.step()
        self.optimiser.zero_grad()

    def compile(self):
        """Compile once more, and take the first step."""
        torch.compiler.reset()
        self.forward = self.compiled()
        self.step()

    def saved_megabytes(self):
        """What a forward call keeps for backward, parameters not counted."""
        owned = {p.untyped_storage().data_ptr() for p in self.model.parameters()}
        kept = {}

        def pack(tensor):
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in owned:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            self.forward(**self.inputs)
        return sum(kept.values()) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--no-inductor", action="store_true")
    arguments = parser.parse_args()
    model, inputs = minilm.load()
    ways = backends(not arguments.no_inductor)
    sides = {name: Side(model, inputs, backend) for name, (backend, _) in ways.items()}

    print(f"{'':28s} {'step':>9s} {'over':>6s} {'over its':>9s} {'saved for':>10s}")
    print(f"{'':28s} {'median':>9s} {'eager':>6s} {'baseline':>9s} {'backward':>10s}")
    steps = interleaved({name: side.step for name, side in sides.items()}, arguments.rounds)
    for name, times in steps.items():
        baseline = ways[name][1]
        over = f"{paired_ratio(times, steps[baseline]):9.3f}" if baseline else f"{'':9s}"
        print(
            f"{name:28s} {statistics.median(times) * 1e3:6.1f} ms "
            f"{paired_ratio(times, steps['eager']):6.3f} {over} "
            f"{sides[name].saved_megabytes():7.2f} MB"
        )

    print(f"\n{'':28s} {'compile':>9s} {'over its baseline':>18s}")
    compiling = {name: side.compile for name, side in sides.items() if side.backend is not None}
    seconds = interleaved(compiling, arguments.pairs, warmup=1, clock=time.process_time)
    for name, times in seconds.items():
        baseline = ways[name][1]
        over = f"{paired_ratio(times, seconds[baseline]):18.3f}" if baseline else ""
        print(f"{name:28s} {statistics.median(times):7.2f} s {over}")


if __name__ == "__main__":
    main()
