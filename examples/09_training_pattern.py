"""Train with an operator of your own, and with the gradient that it brings.

    python examples/09_training_pattern.py

The structure is SwiGLU, ``silu(gate) * up``. Autograd would keep three tensors of the wide size for
it: gate, up, and silu of gate. The operator's own formula keeps two and computes the third again.
The pattern is found before the program is differentiated, in a checkpointed region as well.
"""

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from xpu_graph import (
    ConfigError,
    XpuGraph,
    XpuGraphConfig,
    enable_plugin_patterns,
    register_plugin_pattern,
)

CALLS = {"forward": 0, "backward": 0}


@torch.library.custom_op("example::train_swiglu", mutates_args=())
def swiglu_forward(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Stands for a kernel; on a device it would be one launch."""
    CALLS["forward"] += 1
    return functional.silu(gate) * up


@swiglu_forward.register_fake
def _(gate, up):
    return torch.empty_like(gate)


@torch.library.custom_op("example::train_swiglu_backward", mutates_args=())
def swiglu_backward(
    grad: torch.Tensor, gate: torch.Tensor, up: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Stands for the kernel of the gradient; it computes the sigmoid again."""
    CALLS["backward"] += 1
    sigmoid = torch.sigmoid(gate)
    return grad * up * sigmoid * (1 + gate * (1 - sigmoid)), grad * gate * sigmoid


@swiglu_backward.register_fake
def _(grad, gate, up):
    return torch.empty_like(gate), torch.empty_like(up)


def keep(ctx, inputs, output):
    """What forward leaves for backward."""
    ctx.save_for_backward(*inputs)


def formula(ctx, grad):
    """The gradient, as a call of the other operator."""
    return torch.ops.example.train_swiglu_backward(grad, *ctx.saved_tensors)


swiglu_forward.register_autograd(formula, setup_context=keep)


def swiglu(gate, up):
    """What is looked for."""
    return functional.silu(gate) * up


def fused(gate, up):
    """What takes its place."""
    return torch.ops.example.train_swiglu(gate, up)


class FeedForward(torch.nn.Module):
    """As in a decoder layer; the second one is computed again in backward."""

    def __init__(self, is_checkpointed):
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(16, 32, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(32, 16, bias=False)
        self.is_checkpointed = is_checkpointed

    def inner(self, x):
        """The layer without its residual connection."""
        return self.down(self.up(x) * functional.silu(self.gate(x)))

    def forward(self, x):
        """Tokens in, tokens out: ``(batch, length, 16)``."""
        if self.is_checkpointed:
            return x + checkpoint(self.inner, x, use_reentrant=False)
        return x + self.inner(x)


def train(compile_model, steps=10):
    """Losses and parameters after some steps of AdamW."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(FeedForward(False), FeedForward(True))
    call = compile_model(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    x = torch.randn(2, 5, 16)
    for _ in range(steps):
        optimiser.zero_grad()
        loss = (call(x) - x.flip(-1)).square().mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    return torch.stack(losses), [parameter.detach() for parameter in model.parameters()]


def main():
    example = (torch.randn(2, 8), torch.randn(2, 8))

    with enable_plugin_patterns():
        register_plugin_pattern(swiglu, example, fused, "none", is_training=True, verify=True)

        backend = XpuGraph(XpuGraphConfig(enable_cache=False))
        CALLS.update(forward=0, backward=0)
        losses, parameters = train(lambda model: torch.compile(model, backend=backend))
        for report in backend.reports[0].graphs:
            if report.stage == "pregrad":
                print(f"{report.name}: {report.passes['__main__-swiglu'].applied} found")
        print(f"in 10 steps the operators were called {CALLS}")

        expected_losses, expected = train(lambda model: model)
        torch.testing.assert_close(losses, expected_losses)
        torch.testing.assert_close(parameters, expected, rtol=1e-4, atol=1e-5)
        print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f}. Both sides learn the same.")

        def wrong(gate, up):
            return functional.silu(gate) * up.detach()

        try:
            register_plugin_pattern(
                swiglu, example, wrong, "none", is_training=True, postfix="wrong"
            )
        except ConfigError as error:
            print(f"a replacement with another gradient: {error}")


if __name__ == "__main__":
    main()
