"""Rows: how a program is made and called: breaks, random numbers, sizes, nests, other tracers."""

from __future__ import annotations

import collections
import dataclasses

import torch
from torch import nn

from tests.coverage.autograd import Net
from tests.coverage.control_flow import numbers
from tests.coverage.row import IN_PARTS, Row


def nested_compile(wrap):
    inner = wrap(lambda x: (x * 1 + 0).sin())
    return lambda x: inner(x * 2) + 1


def inner_module(wrap):
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net()
            if wrap is not None:
                self.call = wrap(self.net)

        def forward(self, x):
            return self.call(x) * 2

    return Outer()


def broken(x):
    y = x.sin() * 1
    torch._dynamo.graph_break()
    return y + y.cos()


def branches_on_data(x):
    if x.sum() > 1:
        return x * 2
    return x - 1


def drawn(x):
    a = torch.rand(3) + torch.randn(3)
    b = torch.nn.functional.dropout(x * 1, 0.5)
    c = torch.bernoulli(torch.full((3,), 0.5)) + torch.randint(0, 9, (3,))
    return a + x, b, c + torch.randperm(3), torch.rand_like(x) * x


def seeded(x):
    torch.manual_seed(5)
    return x + torch.rand(3)


def with_generator(wrap):
    generator = torch.Generator().manual_seed(3)
    return lambda x: x + torch.rand(3, generator=generator)


def nonzero(x):
    return (x > 0.3).nonzero().squeeze(1) * 1, x[x > 0.3] + 0


def item(x):
    return x * x.sum().item(), x + x.max().int().item()


def sized_by_data(sizes, x):
    n = sizes[0].item()
    torch._check(n >= 1)
    torch._check(n <= x.shape[0])
    return x[:n] * 1, torch.zeros(n) + 0


def in_loop(x):
    for size in range(3):
        x = x * size + 1
    return x


@dataclasses.dataclass
class Pair:
    a: torch.Tensor
    b: str


Point = collections.namedtuple("Point", ("x", "y"))


def containers(data, word, nothing, pair):
    factor = 2 if word == "twice" else 3
    x, (y, flag) = data["x"], data["rest"]
    result = {"sum": x * factor + pair.x, "list": [y, None, word], "point": Point(x + 0, flag)}
    return result, (nothing, 3, 2.5, True, torch.float32, ...)


def contained():
    return {"x": numbers(3), "rest": (numbers(3).cos(), True)}, "twice", None, Point(numbers(3), 1)


def number(x, scale):
    return x * scale + 0, scale * 2, x + int(scale)


def keywords(x, *rest, scale=1.0, **more):
    return x * scale + rest[0] + more["shift"]


def call_with_keywords(call, inputs):
    x, y = inputs
    return call(x, y, scale=2.0, shift=y)


def generator_function(x):
    def parts():
        for i in range(3):
            yield x * i

    return sum(parts())


def exported(wrap):
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.export.export(Net().eval(), (numbers(2, 3),)).module()

        def forward(self, x):
            return self.inner(x) * 1

    return Wrapped()


def traced(wrap):
    return torch.fx.symbolic_trace(Function())


class Function(nn.Module):
    def forward(self, x):
        return (x * 1 + 0).sin()


@torch.jit.script
def scripted(x):
    return (x * 1 + 0).sin()


def state_kept(wrap):
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return self.norm(x * 1) * self.calls

    return Running()


def deterministic(wrap):
    import contextlib

    @contextlib.contextmanager
    def block():
        torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(False)

    return block()


def scattered(x, index):
    return torch.zeros(3).index_add(0, index, x * 1), torch.empty(2).shape[0]


def optimiser_step(wrap):
    def program(p, grad):
        q = p.clone()
        torch._foreach_add_([q], [grad], alpha=-0.1)
        return torch._foreach_mul([q, grad], 2.0)

    return program


def capture_scalars(wrap):
    return torch._dynamo.config.patch(capture_scalar_outputs=True)


def capture_shapes(wrap):
    return torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)


def inference_mode(wrap):
    return torch.inference_mode()


def autocast(wrap):
    return torch.autocast("cpu", dtype=torch.bfloat16)


three = (lambda: (numbers(3),),)
rows_of_three = (lambda: (numbers(2, 3),),)

ROWS = (
    Row("a compiled function called in another", None, three, make=nested_compile),
    Row("a compiled module in another", None, rows_of_three, make=inner_module),
    Row(
        "graph break", broken, three, inference=IN_PARTS, training=IN_PARTS, graphs=2, dynamic=True
    ),
    Row(
        "branch on a value",
        branches_on_data,
        (lambda: (numbers(3),), lambda: (-numbers(3),)),
        graphs=2,
        inference=IN_PARTS,
        training=IN_PARTS,
    ),
    Row(
        "random operators",
        drawn,
        three,
        dynamic=True,
        inductor="works",
        options={"fallback_random": True},
    ),
    Row("manual_seed inside", seeded, three, inference=IN_PARTS, training=IN_PARTS),
    Row(
        "a generator of one's own",
        None,
        three,
        make=with_generator,
        inference=IN_PARTS,
        training=IN_PARTS,
    ),
    Row(
        "nonzero and masked selection",
        nonzero,
        (lambda: (numbers(6),), lambda: (numbers(9),)),
        around=capture_shapes,
        inductor="works",
        graphs=2,
        dynamic=True,
    ),
    Row(".item()", item, three, around=capture_scalars, dynamic=True),
    Row(
        "sizes from data, with torch._check",
        sized_by_data,
        (lambda: (torch.tensor([2]), numbers(4)), lambda: (torch.tensor([3]), numbers(4))),
        around=capture_scalars,
        leaves=(1,),
        inductor="works",
    ),
    Row("strings, None, numbers and nests", containers, (contained,)),
    Row(
        "float inputs",
        number,
        (lambda: (numbers(3), 2.5), lambda: (numbers(3), 3.5), lambda: (numbers(4), 4.5)),
        graphs=3,
        dynamic=True,
    ),
    Row(
        "keyword arguments",
        keywords,
        (lambda: (numbers(3), numbers(3)),),
        drive=call_with_keywords,
    ),
    Row("generator functions", generator_function, three),
    Row("torch.export'ed module", None, rows_of_three, make=exported),
    Row("fx.GraphModule", None, three, make=traced),
    Row("torch.jit.script function", lambda x: scripted(x) * 2, three),
    Row("state of modules", None, (lambda: (numbers(4, 3),),), make=state_kept),
    Row(
        "deterministic algorithms",
        scattered,
        (lambda: (numbers(3), torch.tensor([0, 2, 0])),),
        around=deterministic,
    ),
    Row(
        "called under inference_mode",
        lambda x: (x * 1 + 0, x.view(-1)),
        rows_of_three,
        training="-",
        around=inference_mode,
    ),
    Row("called under autocast", None, rows_of_three, make=Net, around=autocast),
    Row("foreach operators", None, (lambda: (numbers(3), numbers(3)),), make=optimiser_step),
)
