"""One small model through the three modes of compiler ge on Ascend, compared with the CPU.

    python examples/03_npu_ge_modes.py [--target npu|cpu]
    python -m ascend_sim examples/03_npu_ge_modes.py        # from tests/, without an NPU

``--target cpu`` is the same program on the CPU: the target and the device are all that changes.
"""

import argparse
import copy

import torch

from xpu_graph import Target, XpuGraph, XpuGraphConfig

COMPILERS = {
    "npu": [
        {"compiler": "ge", "mode": "max-autotune"},  # GE, through torchair
        {"compiler": "ge", "mode": "reduce-overhead"},  # captured graphs, through torchair
        {"compiler": "ge", "mode": "npugraph_ex"},  # captured graphs, through npugraph_ex
    ],
    "cpu": [{"compiler": "inductor"}],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--target", choices=COMPILERS, default="npu")
    target = parser.parse_args().target

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 16), torch.nn.Softmax(-1)
    ).eval()
    batches = [torch.randn(4, 16) for _ in range(3)]
    placed = copy.deepcopy(model).to(target)

    wrong = 0
    for options in COMPILERS[target]:
        torch.compiler.reset()
        config = XpuGraphConfig(target=Target(target), vendor_compiler_config=options)
        compiled = torch.compile(placed, backend=XpuGraph(config))
        with torch.no_grad():
            differences = [
                float((compiled(batch.to(target)).cpu() - model(batch)).abs().max())
                for batch in batches
            ]
        right = max(differences) < 1e-4
        wrong += not right
        name = options.get("mode", options["compiler"])
        print(f"{name:16} largest difference {max(differences):.1e}  {'ok' if right else 'WRONG'}")
    if wrong:
        raise SystemExit(f"{wrong} of {len(COMPILERS[target])} differ from eager on the CPU")
    print(f"On {target} everything agrees with eager on the CPU.")


if __name__ == "__main__":
    main()
