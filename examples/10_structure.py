"""Let your own kernels compute structures that the compiler finds in programs.

    python examples/10_structure.py

A decoder layer, written as people write them: RMSNorm by hand, a residual, SwiGLU. Two operators
that stand for kernels implement AddRMSNorm and SwiGLU; one of them only for rows that its tiles
divide, and says why it refuses others. The layer itself is not touched.
"""

import torch
from torch import nn
from torch.nn import functional

from xpu_graph import (
    XpuGraph,
    XpuGraphConfig,
    register_structure,
    register_this_as_structure,
    unregister_structure,
)

TILE = 16
CALLS = {"add_rms_norm": 0, "swiglu": 0}


@torch.library.custom_op("kernels::add_rms_norm", mutates_args=())
def add_rms_norm_kernel(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Stands for a kernel; on a device it would be one launch."""
    CALLS["add_rms_norm"] += 1
    total = x + residual
    return functional.rms_norm(total, total.shape[-1:], weight, eps), total


@add_rms_norm_kernel.register_fake
def _(x, residual, weight, eps):
    return torch.empty_like(x), torch.empty_like(x)


@torch.library.custom_op("kernels::swiglu", mutates_args=())
def swiglu_kernel(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Stands for another one."""
    CALLS["swiglu"] += 1
    return functional.silu(gate) * up


@swiglu_kernel.register_fake
def _(gate, up):
    return torch.empty_like(gate)


def fits_tiles(gate, up):
    """The operands are fake tensors; what is returned is the reason in the report."""
    return None if gate.shape[-1] % TILE == 0 else f"rows of {gate.shape[-1]} do not fill tiles"


TRIED_ON = torch.randn(4, TILE), torch.randn(4, TILE)


@register_this_as_structure("SwiGLU", "none", check=fits_tiles, verify=TRIED_ON)
def swiglu(gate, up):
    """What computes the structure; its parameters are the structure's operands."""
    return torch.ops.kernels.swiglu(gate, up)


class RMSNorm(nn.Module):
    """As in the code of many models."""

    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size) + 0.5)

    def forward(self, x):
        """Normalise the last dimension."""
        variance = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6))


class Layer(nn.Module):
    """The second half of a decoder layer."""

    def __init__(self, size, inner):
        super().__init__()
        self.norm = RMSNorm(size)
        self.gate, self.up = (nn.Linear(size, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, size, bias=False)

    def forward(self, x, attended):
        """Add what attention gave, and go through the gated layers."""
        x = x + attended
        y = self.norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


def found(backend):
    """How often each structure was replaced in the last compilation, and why elsewhere not."""
    for graph in backend.reports[-1].graphs:
        for name, record in graph.passes.items():
            if "kernels" in name or "swiglu" in name:
                yield name.partition("-")[0], record.applied, dict(record.refused)


def run(layer, *inputs):
    """Compile the layer, and compare it with eager."""
    backend = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False))
    torch.compiler.reset()
    with torch.no_grad():
        torch.testing.assert_close(torch.compile(layer, backend=backend)(*inputs), layer(*inputs))
    return list(found(backend))


def main():
    operator = torch.ops.kernels.add_rms_norm
    register_structure("AddRMSNorm", "none", operator, verify=True)
    inputs = torch.randn(2, 5, 32), torch.randn(2, 5, 32)

    print("Rows of 48:", run(Layer(32, 48), *inputs))
    print("Rows of 40:", run(Layer(32, 40), *inputs))
    unregister_structure("AddRMSNorm", "none", operator)
    print("Without AddRMSNorm:", run(Layer(32, 48), *inputs))
    unregister_structure("SwiGLU", "none", swiglu)
    print("With nothing registered the graph stays as it was:", run(Layer(32, 48), *inputs))
    print(f"The kernels ran {CALLS['add_rms_norm']} and {CALLS['swiglu']} times.")


if __name__ == "__main__":
    main()
