"""Captured device graphs on Ascend: pieces are recorded once and replayed at every call.

    python examples/04_npu_device_graph.py
    python -m ascend_sim examples/04_npu_device_graph.py    # from tests/, without an NPU

Compiler device_graph needs torch_npu alone, neither torchair nor npugraph_ex. What cannot be
captured, such as the step on the CPU here, runs eagerly between two captured pieces.
"""

import torch

from xpu_graph import Target, XpuGraph, XpuGraphConfig


def program(x):
    scores = torch.softmax(x @ x.t(), -1)
    on_host = scores.cpu() + 1  # not captured
    return (on_host.to(x.device) * 2).sum(-1)


def main():
    torch.manual_seed(0)
    config = XpuGraphConfig(
        target=Target.npu,
        vendor_compiler_config={"compiler": "device_graph", "capture_limit": 8},
    )
    compiled = torch.compile(program, backend=XpuGraph(config), dynamic=False)

    wrong = 0
    with torch.no_grad():
        for size in (4, 4, 8, 4):
            x = torch.randn(size, 16)
            result = compiled(x.npu())
            difference = float((result.cpu() - program(x)).abs().max())
            right = difference < 1e-4
            wrong += not right
            print(f"{size} rows: difference {difference:.1e}  {'ok' if right else 'WRONG'}")
    if wrong:
        raise SystemExit(f"{wrong} calls differ from the CPU")
    print("All calls agree with eager on the CPU.")


if __name__ == "__main__":
    main()
