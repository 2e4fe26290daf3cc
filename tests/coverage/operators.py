"""Rows: custom operators, effects, and functions that Dynamo is told not to look into."""

import torch

from tests.coverage.control_flow import numbers
from tests.coverage.row import IN_PARTS, Row

NAMESPACE = "xpu_graph_coverage"


def operator(name, mutates=(), **options):
    return torch.library.custom_op(f"{NAMESPACE}::{name}", mutates_args=mutates, **options)


@operator("scale")
def scale(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


@scale.register_fake
def _(x, by):
    return torch.empty_like(x)


@operator("cube")
def cube(x: torch.Tensor) -> torch.Tensor:
    return x**3


@cube.register_fake
def _(x):
    return torch.empty_like(x)


def _keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


cube.register_autograd(lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2, setup_context=_keep)


@operator("bump", ("x",))
def bump(x: torch.Tensor, by: torch.Tensor) -> None:
    x.add_(by)


@operator("bump_and_count", ("x",))
def bump_and_count(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    x.add_(by)
    return x.sum()


@bump_and_count.register_fake
def _(x, by):
    return x.new_empty(())


@operator("pieces")
def pieces(x: torch.Tensor, sizes: list[int]) -> list[torch.Tensor]:
    return [part.clone() for part in x.split(sizes)]


@pieces.register_fake
def _(x, sizes):
    return [torch.empty_like(part) for part in x.split(sizes)]


@operator("drawn", tags=(torch.Tag.nondeterministic_seeded,))
def drawn(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand_like(x)


@drawn.register_fake
def _(x):
    return torch.empty_like(x)


@operator("positive")
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].clone()


@positive.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@operator("unknown_shape")
def unknown_shape(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@operator("count_up")
def count_up(x: torch.Tensor) -> torch.Tensor:
    COUNTED.append(float(x.sum()))
    return x + len(COUNTED)


@count_up.register_fake
def _(x):
    return torch.empty_like(x)


COUNTED = []
torch.library._register_effectful_op(
    f"{NAMESPACE}::count_up", torch._higher_order_ops.effects.EffectType.ORDERED
)


def functional(x):
    return scale(x * 1 + 0, 2.0) + scale(x, 2.0)


def differentiable(x):
    return cube(x * 1) + cube(x).sum()


def mutated(x, by):
    y = x.sin()
    before = y * 2
    bump(y, by)
    bump(y, by)
    return before, y * 2


def mutated_input(x, by):
    before = x * 2
    bump(x, by)
    bump(x[0], by[0])
    return before, x * 2


def mutated_and_returned(x, by):
    y = x.clone()
    first = bump_and_count(y, by)
    second = bump_and_count(y, by)
    return first, second, y


def listed(x):
    a, b = pieces(x * 1, [1, 2])
    return a + 0, b.sin()


def random(x):
    return drawn(x), drawn(x) + 0


def counted(x):
    return count_up(x * 1) + count_up(x * 1), count_up(x)


def fresh_count(wrap):
    COUNTED.clear()
    return counted


def printed(x):
    torch._higher_order_ops.print("{}", x)
    return x + 1


@torch.compiler.allow_in_graph
def opaque(x):
    return x.sin() * 2


@torch._dynamo.nonstrict_trace
def traced(x, scale):
    return x.sin() * scale["by"]


@torch.compiler.disable
def left_alone(x):
    return x.sin() * 2


ROWS = (
    Row("custom operator", functional, (lambda: (numbers(3),),), training="-", dynamic=True),
    Row(
        "custom operator without a formula for gradients",
        functional,
        (lambda: (numbers(3),),),
        inference="-",
        training="error: RuntimeError",
        says="autograd",
        cached="-",
    ),
    Row(
        "custom operator with register_autograd",
        differentiable,
        (lambda: (numbers(3),),),
        dynamic=True,
    ),
    Row(
        "custom operator that writes to its argument",
        mutated,
        (lambda: (numbers(3), numbers(3)),),
        training="-",
        dynamic=True,
    ),
    Row(
        "custom operator that writes to an input of the program",
        mutated_input,
        (lambda: (numbers(2, 3), numbers(2, 3)),),
        training="-",
        dynamic=True,
        inductor="works",
    ),
    Row(
        "custom operator that writes and returns",
        mutated_and_returned,
        (lambda: (numbers(3), numbers(3)),),
        training="-",
    ),
    Row("custom operator that returns a list", listed, (lambda: (numbers(3),),), training="-"),
    Row("custom operator that draws", random, (lambda: (numbers(3),),), training="-"),
    Row(
        "custom operator with a size that depends on data",
        lambda x: positive(x - 1) * 2,
        (lambda: (numbers(9),), lambda: (numbers(12),)),
        training="-",
        graphs=2,
    ),
    Row(
        "custom operator without a fake implementation",
        lambda x: unknown_shape(x) + 1,
        (lambda: (numbers(3),),),
        inference="error: TorchRuntimeError",
        says="no fake impl registered",
        training="-",
        cached="-",
    ),
    Row(
        "operator with an ordered effect",
        None,
        (lambda: (numbers(3),),),
        make=fresh_count,
        training="-",
        inductor="works",
        keeps_code=False,
    ),
    Row(
        "print",
        printed,
        (lambda: (numbers(3),),),
        cached="not cached: an argument is a Print, which has no stored form",
    ),
    Row("allow_in_graph", lambda x: opaque(x) + 1, (lambda: (numbers(3),),)),
    Row("nonstrict_trace", lambda x: traced(x, {"by": 2}), (lambda: (numbers(3),),)),
    Row("Triton kernels of the user", None, (), inference="-", training="-", cached="-"),
    Row(
        "torch.compiler.disable",
        lambda x: left_alone(x * 2) + 1,
        (lambda: (numbers(3),),),
        inference=IN_PARTS,
        training=IN_PARTS,
        graphs=2,
    ),
)
