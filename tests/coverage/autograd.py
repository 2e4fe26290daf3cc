"""Rows: what differentiates, and what is in force around operators."""

import torch
from torch import nn
from torch.nn import functional

from tests.coverage.control_flow import numbers
from tests.coverage.row import IN_PARTS, Row


class Square(torch.autograd.Function):
    """Its gradient is not the one that autograd would find."""

    @staticmethod
    def forward(ctx, x, by):
        ctx.save_for_backward(x)
        ctx.by = by
        return x * x * by

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * ctx.by + 0, None


class WithIndices(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, indices = x.sort()
        ctx.save_for_backward(indices)
        ctx.mark_non_differentiable(indices)
        return values, indices

    @staticmethod
    def backward(ctx, grad, _):
        (indices,) = ctx.saved_tensors
        return torch.zeros_like(grad).scatter(-1, indices, grad)


class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()


class Net(nn.Module):
    def __init__(self, wrap=None):
        super().__init__()
        self.one = nn.Linear(3, 4)
        self.two = nn.Linear(4, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += 1
        return self.two(self.one(x).relu())


def hooked(wrap):
    net = Net()
    net.one.register_forward_hook(lambda module, args, result: result * 2)
    net.two.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    return net


def hooked_backward(wrap):
    net = Net()
    net.two.register_full_backward_hook(lambda module, given, got: (given[0] * 3,))
    return net


def triple(parameter):
    parameter.grad.mul_(3)


def hook_on_parameter(wrap):
    net = Net()
    net.one.weight.register_hook(lambda grad: grad * 2)
    net.two.weight.register_post_accumulate_grad_hook(triple)
    return net


def hook_on_result(x):
    y = x.sin()
    y.register_hook(lambda grad: grad * 2)
    return y * y


def saved_on_the_way(wrap):
    def pack(x):
        return x.bfloat16()

    def unpack(x):
        return x.float()

    def program(x):
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            return x.sin() * x

    return program


def gradient_inside(x):
    with torch.enable_grad():
        y = x.detach().requires_grad_()
        (grad,) = torch.autograd.grad((y * y.sin()).sum(), y)
    return grad * 1


def gradient_for_penalty(x):
    y = x * x.sin()
    (grad,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    return y.sum() + grad.square().sum()


def backward_of_backward(call, inputs):
    (x,) = inputs
    (grad,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
    return x, grad


def without_gradients(x):
    with torch.no_grad():
        scale = (x * 1).sum()
    y = x * scale
    with torch.set_grad_enabled(False):
        z = y.detach() * 2
    return y + z, z


def in_inference_mode(x):
    with torch.inference_mode():
        scale = (x * 1 + 0).sum()
    return scale + 0, x.shape[0]


def autocast(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            z = y.float() @ w
    return y, z + 0


def per_sample(x, y):
    return torch.vmap(lambda a, b: (a * 1) @ b, in_dims=(0, None))(x, y)


def per_sample_draws(x):
    return torch.vmap(lambda a: a + torch.rand_like(a), randomness="different")(x)


def transformed(x):
    def f(x):
        return (x * x.sin()).sum()

    return torch.func.grad(f)(x), torch.func.jacrev(torch.sin)(x), torch.func.vjp(f, x)[0]


def forward_mode(x):
    return torch.func.jvp(torch.sin, (x,), (x * 2,)), torch.func.jacfwd(torch.cos)(x)


def hessian(x):
    return torch.func.hessian(lambda x: (x**3).sum())(x)


def dual_numbers(x):
    import torch.autograd.forward_ad as fwad

    with fwad.dual_level():
        dual = fwad.make_dual(x, x * 2)
        return tuple(fwad.unpack_dual(dual.sin()))


def per_sample_gradients(wrap):
    net = nn.Linear(3, 1)

    class Gradients(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x):
            held = dict(self.net.named_parameters())

            def loss(held, x):
                return torch.func.functional_call(self.net, held, (x,)).sum()

            return torch.vmap(torch.func.grad(loss), (None, 0))(held, x)

    return Gradients()


def functional_call(wrap):
    net = Net()

    def program(w, x):
        return torch.func.functional_call(net, {"one.weight": w}, (x,))

    return program


def trace_autograd(wrap):
    return torch._dynamo.config.patch(trace_autograd_ops=True)


def compiled_backward(wrap):
    return torch._dynamo.compiled_autograd._enable(wrap)


def compiled_autograd_inside(wrap):
    def program(x, w):
        return (x @ w).tanh()

    return program


def detached(x, y):
    a = x * 2
    return a.detach() + y, a.data, x * y


def frozen_part(wrap):
    net = Net()
    net.one.requires_grad_(False)
    return net


def tied(wrap):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(5, 3)
            self.head = nn.Linear(3, 5, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return functional.cross_entropy(self.head(self.embed(ids)), ids)

    return Tied()


three = (lambda: (numbers(3),),)
rows_of_three = (lambda: (numbers(2, 3),),)
square = (lambda: (numbers(3, 3), numbers(3, 3).cos()),)

ROWS = (
    Row("autograd.Function", lambda x: Square.apply(x * 1, 2.0) + 0, three, dynamic=True),
    Row("autograd.Function, a result without gradients", WithIndices.apply, rows_of_three),
    Row(
        "autograd.Function that writes to its input",
        lambda x: InPlace.apply(x * 1),
        three,
        inference=IN_PARTS,
    ),
    Row("autograd.Function, once_differentiable", Twice.apply, three),
    Row("module with parameters and a buffer", None, rows_of_three, make=Net),
    Row("tied parameters", None, (lambda: (torch.tensor([1, 4, 1]),),), make=tied),
    Row("frozen parameters", None, rows_of_three, make=frozen_part),
    Row("forward hooks of modules", None, rows_of_three, make=hooked),
    Row(
        "backward hooks of modules",
        None,
        rows_of_three,
        make=hooked_backward,
        inference=IN_PARTS,
        training=IN_PARTS,
    ),
    Row("hooks of parameters", None, rows_of_three, make=hook_on_parameter),
    Row("hooks of tensors inside", hook_on_result, three, inference="-"),
    Row(
        "saved_tensors_hooks", None, three, make=saved_on_the_way, inference="-", training=IN_PARTS
    ),
    Row(
        "torch.autograd.grad inside",
        gradient_inside,
        three,
        inference=IN_PARTS,
        training="-",
        graphs=3,
    ),
    Row(
        "torch.autograd.grad inside, create_graph",
        gradient_for_penalty,
        three,
        inference="-",
        training="error: RuntimeError",
        says="double backward",
        cached="-",
    ),
    Row(
        "torch.autograd.grad inside, trace_autograd_ops",
        gradient_inside,
        three,
        training="-",
        around=trace_autograd,
    ),
    Row(
        "torch.autograd.grad inside, create_graph, trace_autograd_ops",
        gradient_for_penalty,
        three,
        inference="-",
        around=trace_autograd,
    ),
    Row(
        "backward of a backward",
        lambda x: x.sin() * x,
        three,
        inference="-",
        training="error: RuntimeError",
        says="double backward",
        drive=backward_of_backward,
        cached="-",
    ),
    Row("no_grad and set_grad_enabled regions", without_gradients, three, dynamic=True),
    Row("inference_mode regions", in_inference_mode, three, training="-"),
    Row("detach and .data", detached, (lambda: (numbers(3), numbers(3)),)),
    Row("autocast, bfloat16", autocast, square, dynamic=True),
    Row("vmap", per_sample, square, dynamic=True),
    Row("vmap with draws", per_sample_draws, rows_of_three),
    Row("torch.func.grad, jacrev, vjp", transformed, three),
    Row("torch.func.jvp, jacfwd", forward_mode, three),
    Row("torch.func.hessian", hessian, three),
    Row("forward_ad", dual_numbers, three),
    Row(
        "torch.func.functional_call",
        None,
        (lambda: (numbers(4, 3), numbers(2, 3)),),
        make=functional_call,
    ),
    Row("vmap of grad of functional_call", None, rows_of_three, make=per_sample_gradients),
    Row(
        "compiled autograd",
        None,
        square,
        make=compiled_autograd_inside,
        inference="-",
        around=compiled_backward,
        graphs=2,
    ),
)
