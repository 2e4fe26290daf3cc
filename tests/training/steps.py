"""Optimiser steps, taken eagerly and compiled from the same start."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from xpu_graph.testing import assert_same

STEPS = 10

OPTIMISERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "sgd foreach": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, foreach=True),
    "sgd fused": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=False),
    "adamw foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
}


@dataclass
class Trained:
    """What ten steps left behind.

    Attributes:
        losses: one a step.
        gradients: of every parameter, after the first step and after the last.
        state: parameters and buffers at the end.
    """

    losses: list = field(default_factory=list)
    gradients: list = field(default_factory=list)
    state: dict = field(default_factory=dict)


def backward(model, forward, batch, optimiser):
    """The usual step: no accumulation, no clipping."""
    optimiser.zero_grad()
    loss = forward(**batch)
    loss.backward()
    return loss


def train(
    model: torch.nn.Module,
    forward: Callable,
    make_batch: Callable,
    make_optimiser: Callable,
    step: Callable = backward,
    steps: int = STEPS,
) -> Trained:
    """Take steps on batches that depend on the number of the step alone."""
    optimiser = make_optimiser([p for p in model.parameters() if p.requires_grad])
    seen = Trained()
    for number in range(steps):
        batch = make_batch(torch.Generator().manual_seed(number))
        torch.manual_seed(number)
        loss = step(model, forward, batch, optimiser)
        if number in (0, steps - 1):
            grads = {name: p.grad for name, p in model.named_parameters()}
            seen.gradients.append({n: None if g is None else g.clone() for n, g in grads.items()})
        optimiser.step()
        seen.losses.append(loss.detach().clone())
    seen.state = {name: value.clone() for name, value in model.state_dict().items()}
    return seen


def compare(
    model: torch.nn.Module,
    backend,
    make_batch: Callable,
    optimisers: tuple[str, ...] = ("sgd",),
    step: Callable = backward,
    *,
    bitwise: bool = True,
    dynamic: bool | None = None,
    fullgraph: bool = True,
    steps: int = STEPS,
    reference: str | None = None,
    **tolerances: float,
) -> None:
    """Train a model and its compiled copy from the same start, once with each optimiser.

    ``reference`` compiles the model, too, where AOTAutograd itself rounds otherwise than eager.

    Raises:
        AssertionError: a loss, a gradient, a parameter or a buffer differs.
    """
    torch.compiler.reset()
    twin = copy.deepcopy(model)
    compiled = torch.compile(twin, backend=backend, dynamic=dynamic, fullgraph=fullgraph)
    theirs = torch.compile(model, backend=reference) if reference else model
    start = copy.deepcopy(model.state_dict())
    for name in optimisers:
        make_optimiser = OPTIMISERS[name]
        for side in (model, twin):
            side.load_state_dict(start)
            side.zero_grad()
        got = train(twin, compiled, make_batch, make_optimiser, step, steps)
        want = train(model, theirs, make_batch, make_optimiser, step, steps)
        where = {"bitwise": bitwise, **tolerances}
        assert_same(got.losses, want.losses, f"loss with {name}", **where)
        assert_same(got.gradients, want.gradients, f"gradient with {name}", **where)
        assert_same(got.state, want.state, f"state with {name}", **where)
        assert any(not torch.equal(start[key], want.state[key]) for key in start), "no step taken"
