"""The npu compiler alone, under a torch.compile backend that is yours.

    python examples/06_npu_compiler_alone.py
    python -m ascend_sim examples/06_npu_compiler_alone.py    # from tests/, without an NPU

``npu_compile`` takes an ATen graph and its fake inputs, and returns a callable that checks its
inputs at every call. None of xpu_graph's passes runs, and nothing is cached.
"""

import functools

import torch
from torch._functorch.aot_autograd import aot_module_simplified

from xpu_graph.backends.npu import attach, npu_compile

attach()  # imports the vendor packages; before tracing, which collectives need


def backend(gm, inputs):
    compiler = functools.partial(npu_compile, compiler="ge", mode="npugraph_ex")
    return aot_module_simplified(
        gm, inputs, fw_compiler=compiler, keep_inference_input_mutations=True
    )


def program(x, w):
    y = torch.relu(x @ w)
    return y, y.sum(-1), x.view(-1)  # the last is a view of the caller's own tensor


def main():
    torch.manual_seed(0)
    compiled = torch.compile(program, backend=backend)
    w = torch.randn(8, 8)
    with torch.no_grad():
        for call in range(3):
            x = torch.randn(4, 8)
            on_npu = x.npu()
            outputs = compiled(on_npu, w.npu())
            for output, wanted in zip(outputs, program(x, w), strict=True):
                torch.testing.assert_close(output.cpu(), wanted, rtol=1e-4, atol=1e-5)
            if outputs[2].data_ptr() != on_npu.data_ptr():
                raise SystemExit("the view does not lie in the caller's tensor")
            print(f"call {call}: 3 outputs agree")
    print("All calls agree with eager on the CPU.")


if __name__ == "__main__":
    main()
