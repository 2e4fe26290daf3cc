"""What training programs do beside plain steps: each is eager's, to the last bit at level1."""

import contextlib
import copy
import functools

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.training.models import MODELS, Mlp, vectors
from tests.training.steps import compare, train
from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.testing import assert_same


def backend(**fields):
    return XpuGraph(XpuGraphConfig(**{"enable_cache": False, "verify": "each", **fields}))


# --- steps ---


def accumulate(model, forward, batch, optimiser):
    """Gradients of three parts of a batch add up."""
    optimiser.zero_grad()
    parts = [{k: v.chunk(3)[i] for k, v in batch.items()} for i in range(3)]
    losses = [forward(**part) / 3 for part in parts]
    for loss in losses:
        loss.backward()
    return sum(losses)


def clip(model, forward, batch, optimiser):
    optimiser.zero_grad()
    loss = forward(**batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    return loss


def twice_through_one_graph(model, forward, batch, optimiser):
    optimiser.zero_grad()
    loss = forward(**batch)
    loss.backward(retain_graph=True)
    loss.backward()
    return loss


def autocast(model, forward, batch, optimiser):
    optimiser.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        loss = forward(**batch)
    loss.backward()
    return loss


def evaluate_in_between(model, forward, batch, optimiser):
    optimiser.zero_grad()
    model.eval()
    with torch.no_grad():
        before = forward(**batch)
    model.train()
    loss = forward(**batch)
    loss.backward()
    return loss + before


def hooked(model, forward, batch, optimiser):
    """Hooks on parameters change their gradients, and one sees what was accumulated."""
    optimiser.zero_grad()
    seen = []
    parameters = list(model.parameters())
    hooks = [p.register_hook(lambda grad: grad * 0.5) for p in parameters]
    hooks.append(
        parameters[0].register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.norm()))
    )
    loss = forward(**batch)
    loss.backward()
    for hook in hooks:
        hook.remove()
    return loss + seen[0]


def set_to_none(model, forward, batch, optimiser):
    optimiser.zero_grad(set_to_none=False)
    loss = forward(**batch)
    loss.backward()
    return loss


STEPS = [
    accumulate,
    clip,
    twice_through_one_graph,
    autocast,
    evaluate_in_between,
    hooked,
    set_to_none,
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_steps(step):
    torch.manual_seed(0)
    compare(Mlp().train(), backend(), vectors, ("adamw",), step, steps=4)


def test_autocast_of_a_transformer():
    torch.manual_seed(0)
    make, make_batch = MODELS["gpt2"]
    with_aot = {"step": autocast, "steps": 3, "reference": "aot_eager"}
    compare(make().train(), backend(verify="final"), make_batch, **with_aot)


# --- models ---


class Base(nn.Module):
    """A linear layer, a loss; ``hidden`` is what differs."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x, labels):
        return functional.cross_entropy(self.head(self.hidden(x)), labels)

    def hidden(self, x):
        return self.second(self.first(x).relu()).tanh()


class Checkpointed(Base):
    def hidden(self, x):
        h = checkpoint(
            lambda x: functional.dropout(self.first(x).relu(), 0.5), x, use_reentrant=False
        )
        return checkpoint(lambda x: self.second(x).tanh(), h, use_reentrant=False)


class CheckpointedByPolicy(Base):
    """What is expensive is kept, the rest is made again."""

    def hidden(self, x):
        from torch.utils.checkpoint import create_selective_checkpoint_contexts

        return checkpoint(
            super().hidden,
            x,
            use_reentrant=False,
            context_fn=functools.partial(
                create_selective_checkpoint_contexts,
                [torch.ops.aten.mm.default, torch.ops.aten.addmm.default],
            ),
        )


class WithoutGradient(Base):
    """A region without gradients, and a detached twin, in the middle."""

    def hidden(self, x):
        h = self.first(x)
        with torch.no_grad():
            scale = h.abs().mean(1, keepdim=True) + 1
        return self.second(h / scale).tanh() + h.detach() * 0.5 + (h - h.detach())


class Tied(Base):
    """Two layers are one parameter, and a third use transposes it."""

    def __init__(self):
        super().__init__()
        self.second.weight = self.first.weight

    def hidden(self, x):
        return super().hidden(x) @ self.first.weight.t()


class UsedTwice(Base):
    def hidden(self, x):
        return self.first(self.first(x).relu()) + self.first.weight.sum(0) * self.first.bias


class PartlyFrozen(Base):
    def __init__(self):
        super().__init__()
        self.first.requires_grad_(False)
        self.second.bias.requires_grad_(False)


class Unused(Base):
    """A parameter takes no part: its gradient stays None."""

    def __init__(self):
        super().__init__()
        self.idle = nn.Linear(8, 8)


class Square(torch.autograd.Function):
    """A backward of its own, which is not the derivative."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * 3


class OwnBackward(Base):
    def hidden(self, x):
        return Square.apply(self.first(x)).tanh()


class WritesInPlace(Base):
    """Writes to an intermediate, to a view of one, and to a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(8))

    def hidden(self, x):
        h = self.first(x)
        h[:, :2].mul_(2)
        h.add_(self.seen)
        self.seen.add_(h.detach().mean(0))
        return self.second(h).tanh()


class Dropout(Base):
    def hidden(self, x):
        h = functional.dropout(self.first(x), 0.3, self.training)
        return functional.dropout(self.second(h), 0.3, self.training) + torch.rand_like(h)


class HalfPrecision(Base):
    def __init__(self):
        super().__init__()
        self.first.bfloat16()

    def hidden(self, x):
        return self.second(self.first(x.bfloat16()).float()).tanh()


class Hooked(Base):
    """A hook on an intermediate doubles its gradient."""

    def hidden(self, x):
        h = self.first(x)
        h.register_hook(lambda grad: grad * 2)
        return self.second(h).tanh()


class Complex(Base):
    def hidden(self, x):
        return torch.fft.ifft(torch.fft.fft(self.first(x)) * 1j).real.tanh()


MODULES = [
    Checkpointed,
    CheckpointedByPolicy,
    WithoutGradient,
    Tied,
    UsedTwice,
    PartlyFrozen,
    Unused,
    OwnBackward,
    WritesInPlace,
    Dropout,
    HalfPrecision,
    Hooked,
    Complex,
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
@pytest.mark.parametrize("partition_fn", ["DEFAULT", "MINCUT"])
def test_models(module, partition_fn):
    torch.manual_seed(0)
    compare(module().train(), backend(partition_fn=partition_fn), vectors, steps=3)


def test_a_model_trained_with_gradients_of_gradients_is_refused():
    """AOTAutograd differentiates once; nothing is to be returned as if it were zero."""
    x = torch.randn(4, requires_grad=True)
    compiled = torch.compile(lambda x: (x.sin() * x).sum(), backend=backend())
    (gradient,) = torch.autograd.grad(compiled(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


def test_gradients_inside_the_program():
    """A penalty on a gradient: the inner derivative is traced, the outer one is AOTAutograd's."""

    def penalty(x):
        return torch.func.grad(lambda y: (y.sin() * y).sum())(x).square().sum()

    sides = []
    for call in (torch.compile(penalty, backend=backend(), fullgraph=True), penalty):
        x = torch.linspace(0, 1, 5).requires_grad_()
        loss = call(x)
        loss.backward()
        sides.append((loss.detach(), x.grad))
    assert_same(*sides, bitwise=False, rtol=1e-6, atol=1e-6)


def test_saved_tensors_that_are_packed():
    def function(x):
        return (x.sin() * x.cos()).exp()

    sides = []
    for call in (torch.compile(function, backend=backend()), function):
        x = torch.linspace(0, 1, 5).requires_grad_()
        hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t.double(), lambda t: t.float())
        with hooks:
            y = call(x)
        y.sum().backward()
        sides.append((y.detach(), x.grad))
    assert_same(*sides, bitwise=False, rtol=1e-6, atol=1e-6)


def test_train_and_eval_take_turns_with_frozen_parameters():
    """What is folded for inference is folded again after every optimiser step."""
    torch.manual_seed(0)
    eager = Mlp().train()
    mine = copy.deepcopy(eager)
    compiled = torch.compile(mine, backend=backend(freeze=True))
    for _ in range(3):
        sides = []
        for model, forward in ((mine, compiled), (eager, eager)):
            model.train()
            trained = train(model, forward, vectors, lambda p: torch.optim.SGD(p, 0.1), steps=2)
            model.eval()
            with torch.no_grad():
                sides.append((trained.losses, forward(**vectors(torch.Generator()))))
        assert_same(*sides)


@pytest.mark.parametrize("partition_fn", ["DEFAULT", "MINCUT"])
def test_an_unfinished_backward_leaves_nothing_behind(partition_fn):
    """A forward call whose backward never comes, and a backward that fails half way."""
    torch.manual_seed(0)
    eager = Base()
    mine = copy.deepcopy(eager)
    compiled = torch.compile(mine, backend=backend(partition_fn=partition_fn))
    batch = vectors(torch.Generator().manual_seed(1))

    def fail(grad):
        raise ValueError("half way")

    grads = []
    for model, forward in ((mine, compiled), (eager, eager)):
        forward(**batch)
        hook = model.first.weight.register_hook(fail)
        with contextlib.suppress(ValueError):
            forward(**batch).backward()
        hook.remove()
        model.zero_grad()
        forward(**batch).backward()
        grads.append([p.grad for p in model.parameters()])
    assert_same(*grads)
