"""Find a structure of your own in a model, and let another function compute it.

    python examples/08_plugin_pattern.py

The structure is SwiGLU, ``silu(gate) * up``; what takes its place is a custom operator that counts
its calls, as a kernel of your own would be called. The model writes the product the other way
round and calls the operator on other sizes and dtypes than the example: it is found all the same.
"""

import torch
from torch.nn import functional

from xpu_graph import (
    ConfigError,
    XpuGraph,
    XpuGraphConfig,
    enable_plugin_patterns,
    register_plugin_pattern,
    register_this_as_pattern_constraint,
    register_this_as_plugin_pattern,
)

CALLS = []


@torch.library.custom_op("example::swiglu", mutates_args=())
def swiglu_kernel(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Stands for a kernel; on a device it would be one launch."""
    CALLS.append(tuple(gate.shape))
    return functional.silu(gate) * up


@swiglu_kernel.register_fake
def _(gate, up):
    return torch.empty_like(gate)


def fused(gate, up):
    """What takes the place of the structure; its parameters are those of the pattern."""
    return torch.ops.example.swiglu(gate, up)


class FeedForward(torch.nn.Module):
    """As in a decoder layer."""

    def __init__(self):
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(32, 64, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(64, 32, bias=False)

    def forward(self, x):
        """Tokens in, tokens out: ``(batch, length, 32)``."""
        return x + self.down(self.up(x) * functional.silu(self.gate(x)))


def main():
    example = (torch.randn(2, 8), torch.randn(2, 8))
    model = torch.nn.Sequential(*(FeedForward() for _ in range(3))).eval()
    x = torch.randn(2, 5, 32)

    with enable_plugin_patterns():

        @register_this_as_plugin_pattern(example, fused, "none", verify=True)
        def swiglu(gate, up):
            return functional.silu(gate) * up

        @register_this_as_pattern_constraint
        def wide_enough(gate, up):
            """The kernel pays from 16 columns on."""
            return gate.shape[-1] >= 16

        backend = XpuGraph(XpuGraphConfig(enable_cache=False))
        compiled = torch.compile(model, backend=backend)
        CALLS.clear()
        with torch.no_grad():
            torch.testing.assert_close(compiled(x), model(x))
        report = backend.reports[-1].graphs[0]
        print(f"found {report.passes['__main__-main.<locals>.swiglu'].applied} times")
        print(f"the kernel was called on {CALLS}")

        narrow = torch.compile(swiglu, backend=backend)
        with torch.no_grad():
            narrow(*example)
        record = backend.reports[-1].graphs[0].passes["__main__-main.<locals>.swiglu"]
        print(f"on 8 columns: {record.applied} times, because {next(iter(record.refused))}")

        def wrong(gate, up):
            return functional.gelu(gate) * up

        try:
            register_plugin_pattern(wrong, example, fused, "none", verify=True)
        except ConfigError as error:
            print(f"a replacement that computes something else: {str(error).splitlines()[0]}")


if __name__ == "__main__":
    main()
