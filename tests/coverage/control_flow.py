"""Rows: higher-order operators that hold graphs of their own."""

import functools

import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention import flex_attention as flex
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

from tests.coverage.row import Row

TABLE = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -3.0], [1.0, 1.0, 0.5]])


def numbers(*shape):
    return torch.arange(1.0, torch.Size(shape).numel() + 1).reshape(shape).div(7)


def cond(flag, x):
    return torch.cond(flag, lambda x: (x * 1 + 0).sin(), lambda x: x.cos() * 2, (x,))


def cond_with_constants(flag, x):
    def yes(x):
        return x @ torch.tensor([[2.0, 3.0], [4.0, 5.0]]), x + 1

    def no(x):
        return x - torch.tensor([1.0, 2.0]), x * torch.tensor(3.0)

    return torch.cond(flag, yes, no, (x,))


def cond_with_closure(flag, x):
    return torch.cond(flag, lambda x: x @ TABLE, lambda x: x - TABLE[0], (x,))


def cond_in_cond(flag, x):
    def inner(x):
        return torch.cond(x.sum() > 1, lambda x: x.exp(), lambda x: x.neg(), (x,))

    return torch.cond(flag, inner, lambda x: x * 3, (x,))


def loop(x):
    def more(i, x):
        return i < 3

    def body(i, x):
        return i + 1, (x * 1.5 + 0).sin()

    return while_loop(more, body, (torch.zeros((), dtype=torch.int64), x))


def loop_with_constants(x):
    def more(i, x):
        return i < torch.tensor(3)

    def body(i, x):
        return i + torch.tensor(1), x @ torch.tensor([[0.5, 1.0], [1.0, 0.25]])

    return while_loop(more, body, (torch.zeros((), dtype=torch.int64), x))


def scanned(start, xs):
    return scan(lambda carry, x: (carry * 0.5 + x, (carry - x).sin()), start, xs)


def scanned_together(xs):
    return associative_scan(lambda a, b: a * b, xs, 0, combine_mode="generic")


def mapped(xs, y):
    return map_over(lambda x, y: (x * 1 + 0).sin() * y, xs, y)


@torch.compiler.nested_compile_region
def layer(x, y):
    return (x * y).sin() + 0


def region(x, y):
    return layer(layer(x, y), y)


def dropping(x, w):
    def part(x, w):
        return nn.functional.dropout((x @ w).tanh() * 1, 0.5)

    return checkpoint(part, x, w, use_reentrant=False) + checkpoint(part, x, w, use_reentrant=False)


def selective(x, w):
    def policy(context, operator, *args, **kwargs):
        keep = operator == torch.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE

    def part(x, w):
        return ((x @ w).sigmoid() @ w).tanh()

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    return checkpoint(part, x, w, use_reentrant=False, context_fn=contexts)


def reentrant(x, w):
    return checkpoint(lambda x, w: (x @ w).tanh(), x, w, use_reentrant=True)


def attention(q, k, v):
    def score(score, b, h, i, j):
        return score * 0.5 + (i - j)

    def causal(b, h, i, j):
        return i >= j

    mask = flex.create_block_mask(causal, None, None, 16, 16, device="cpu", BLOCK_SIZE=16)
    return flex.flex_attention(q, k, v, score_mod=score, block_mask=mask)


def flags(*values):
    def make(value):
        return lambda: (torch.tensor(value), numbers(2, 2))

    return tuple(make(value) for value in values)


def heads():
    return tuple(numbers(1, 2, 16, 16).mul(s).sin() for s in (0.3, 0.2, 0.1))


def square():
    return numbers(3, 3), numbers(3, 3).cos()


ROWS = (
    Row("cond", cond, flags(True, False), dynamic=True),
    Row(
        "cond, tensor constants in its branches",
        cond_with_constants,
        flags(True, False),
        inductor="works",
        keeps_code=False,
    ),
    Row(
        "cond, branches that read a global tensor",
        cond_with_closure,
        (lambda: (torch.tensor(True), numbers(2, 3)), lambda: (torch.tensor(False), numbers(2, 3))),
    ),
    Row("cond in a branch of a cond", cond_in_cond, flags(True, False)),
    Row("while_loop", loop, (lambda: (numbers(2, 2),),), dynamic=True),
    Row(
        "while_loop, tensor constants in its body",
        loop_with_constants,
        (lambda: (numbers(2, 2),),),
        inductor="works",
        keeps_code=False,
    ),
    Row("scan", scanned, (lambda: (numbers(3), numbers(4, 3)),), dynamic=True),
    Row("associative_scan", scanned_together, (lambda: (numbers(4, 3),),)),
    Row("map", mapped, (lambda: (numbers(4, 3), numbers(3)),), dynamic=True),
    Row("nested_compile_region", region, (square,), dynamic=True, inductor="works"),
    Row("checkpoint, with dropout", dropping, (square,), dynamic=True, inductor="works"),
    Row("checkpoint, a policy that saves some", selective, (square,)),
    Row("checkpoint, reentrant", reentrant, (square,)),
    Row(
        "flex_attention",
        attention,
        (heads,),
        training="error: Unsupported",
        says="does not support backward on CPU",
        inductor="works",
    ),
)
