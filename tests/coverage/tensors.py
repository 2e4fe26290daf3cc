"""Rows: tensors of other kinds, and what shares their memory."""

import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

from tests.coverage.control_flow import numbers
from tests.coverage.row import EAGERLY, IN_PARTS, Row


class Scaled(torch.Tensor):
    """A wrapper subclass of the user's own: values times a number; results keep the number."""

    @staticmethod
    def __new__(cls, values, scale):
        return torch.Tensor._make_wrapper_subclass(
            cls,
            values.shape,
            strides=values.stride(),
            dtype=values.dtype,
            requires_grad=values.requires_grad,
        )

    def __init__(self, values, scale):
        self.values_, self.scale = values, scale

    def __tensor_flatten__(self):
        return ["values_"], self.scale

    @staticmethod
    def __tensor_unflatten__(inner, scale, outer_size, outer_stride):
        return Scaled(inner["values_"], scale)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        scales = [leaf.scale for leaf in pytree.tree_leaves(args) if isinstance(leaf, Scaled)]
        args, kwargs = pytree.tree_map_only(Scaled, lambda s: s.values_, (args, kwargs or {}))
        results = function(*args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, lambda t: Scaled(t, max(scales)), results)

    def __repr__(self):
        return f"Scaled({self.values_!r}, {self.scale})"


class Counting(torch.Tensor):
    """A subclass with no inner tensor, that changes a function."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs or {})
        if function is torch.Tensor.sin:
            return result + 1
        return result


class WithSubclass(nn.Module):
    def __init__(self, wrap=None):
        super().__init__()
        self.weight = nn.Parameter(TwoTensor(numbers(3, 3), numbers(3, 3).cos()))

    def forward(self, x):
        return x @ self.weight * 1 + 0


def twins():
    return TwoTensor(numbers(3, 3), numbers(3, 3).cos()), numbers(3, 3)


def scaled():
    return (Scaled(numbers(2, 3), 3.0),)


def with_plain(x, y):
    return (x * 1 + y).sin(), (x @ y).relu(), y * 2


def made_inside(x, y):
    return TwoTensor(x * 1, y + 0).sin()


def jagged(values):
    offsets = torch.tensor([0, 2, 5])
    nested = torch.nested.nested_tensor_from_jagged(values, offsets)
    return (nested.sin() * 2 + 0).values()


def jagged_input(nested):
    return (nested * 2).sin() + 0


def jagged_inputs(sizes):
    def make():
        parts = [numbers(size, 2) for size in sizes]
        return (torch.nested.nested_tensor(parts, layout=torch.jagged),)

    return make


def waves():
    return torch.complex(numbers(2, 3), numbers(2, 3).cos()), numbers(2, 3)


def complex_numbers(z, x):
    return z * 1 + 0, z.conj() * x, z.real * 2, torch.fft.fft(x), (z @ z.mH).abs()


def conjugated(z, x):
    return z.conj(), torch.view_as_real(z), z.imag


def coo():
    return (torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], numbers(3), (2, 3)), numbers(3, 2))


def csr():
    return coo()[0].to_sparse_csr(), numbers(3, 2)


def quantized():
    return (torch.quantize_per_tensor(numbers(3), 0.1, 0, torch.qint8),)


def low_precision(x):
    q = torch.round(x / 0.1).clamp(-128, 127).to(torch.int8)
    return q, (q.float() * 0.1).to(torch.float8_e4m3fn).float()


def views(x):
    return x.t(), x[1:], x.view(-1)[::2], x.as_strided((2, 2), (1, 2), 1), x * 1


def in_place(x, y):
    before = x * 2
    x.add_(y)
    x[0].mul_(3)
    return before, x * 2


def in_place_on_a_view(x):
    y = x * 1
    y[0].add_(1)
    y.view(-1)[::2].zero_()
    return y, y.t()


def out_argument(x, y):
    torch.add(x, 1, out=y)
    return y * 2


def resized(x):
    y = x * 1
    y.resize_(2, 2)
    return y + 0


def resized_input(x):
    x.resize_(2, 2)
    return x + 0


def set_to_another(x, y):
    z = x * 1
    z.set_(y)
    return z + 1


def set_input(x, y):
    x.set_(y)
    return x + 1


def data_assigned(x, y):
    z = x * 1
    z.data = y * 2
    return z + 1


def strided(x):
    return (x.permute(2, 0, 1) * 1 + 0), x.permute(2, 0, 1)


def channels_last():
    return (numbers(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),)


def convolved(x):
    return nn.functional.conv2d(x * 1, torch.ones(2, 3, 2, 2)), x + 0


def overlapping():
    return (numbers(3).expand(2, 3),)


def shared():
    base = numbers(4, 3)
    return base, base[1:3]


def shared_written(x, y):
    y.mul_(2)
    return x + 0, y + 1


def same_twice(x, y):
    x.add_(1)
    return x * 1, y * 2


def one_object():
    x = numbers(3)
    return x, x


def nothing(x):
    return x.new_empty(0, 3) * 2, x[:0].sum(0)


def meta():
    return (torch.empty(2, 3, device="meta"),)


three = (lambda: (numbers(3),),)
pair = (lambda: (numbers(2, 3), numbers(2, 3).cos()),)

ROWS = (
    Row("TwoTensor among the inputs", with_plain, (twins,), dynamic=True, inductor="works"),
    Row(
        "TwoTensor as a parameter",
        None,
        (lambda: (numbers(3, 3),),),
        make=WithSubclass,
        leaves=(0,),
    ),
    Row("TwoTensor made inside", made_inside, (lambda: (numbers(3, 3), numbers(3, 3)),)),
    Row("wrapper subclass of the user's own", lambda x: (x * 2).sin() + 0, (scaled,), dynamic=True),
    Row(
        "subclass with __torch_function__ only",
        lambda x: x.sin() * 1,
        (lambda: (numbers(3).as_subclass(Counting),),),
        inference="error: TypeError",
        training="error: TypeError",
        cached="-",
        says="Multiple dispatch failed",
    ),
    Row("jagged tensor made inside", jagged, (lambda: (numbers(5, 2),),)),
    Row(
        "jagged tensor as input and result",
        jagged_input,
        (jagged_inputs((2, 3)), jagged_inputs((1, 4, 2))),
        graphs=2,
    ),
    Row("complex numbers", complex_numbers, (waves,), dynamic=True),
    Row("conj, real and imag of inputs", conjugated, (waves,), training="-"),
    Row(
        "sparse COO inputs",
        lambda a, x: a @ (x * 2) + 0,
        (coo,),
        leaves=(1,),
        inference=EAGERLY,
        training=EAGERLY,
        cached="-",
    ),
    Row(
        "sparse CSR inputs",
        lambda a, x: a @ (x * 2) + 0,
        (csr,),
        leaves=(1,),
        inference=EAGERLY,
        training=EAGERLY,
        cached="-",
    ),
    Row(
        "sparse tensor made inside",
        lambda x: (x * 2).to_sparse().to_dense() * 1,
        (lambda: (numbers(2, 3),),),
        inference=IN_PARTS,
        training=IN_PARTS,
    ),
    Row(
        "quantized tensors",
        lambda q: q.dequantize() * 1,
        (quantized,),
        training="-",
        inference=EAGERLY,
        cached="-",
    ),
    Row("int8 and float8", low_precision, three, training="-", dynamic=True),
    Row("views as results", views, (lambda: (numbers(4, 3),),), dynamic=True),
    Row("writes to an input", in_place, pair, training="-", dynamic=True),
    Row(
        "writes to a view of a value",
        in_place_on_a_view,
        (lambda: (numbers(4, 3),),),
        dynamic=True,
    ),
    Row("out=", out_argument, pair, training="-"),
    Row(
        "resize_ of a value",
        resized,
        (lambda: (numbers(6),),),
        training="-",
        inference=IN_PARTS,
        graphs=2,
    ),
    Row(
        "resize_ of an input",
        resized_input,
        (lambda: (numbers(6),),),
        training="-",
        inference=IN_PARTS,
    ),
    Row("set_ of a value", set_to_another, pair, training="-"),
    Row("set_ of an input", set_input, pair, training="-", inference=IN_PARTS),
    Row(".data assigned", data_assigned, pair, training="-", inference=IN_PARTS, graphs=2),
    Row(
        "inputs with other strides",
        strided,
        (lambda: (numbers(2, 3, 4).transpose(0, 1),),),
        dynamic=True,
    ),
    Row("channels_last", convolved, (channels_last,)),
    Row("expanded inputs", lambda x: x * 1 + 0, (overlapping,)),
    Row("inputs that share memory", shared_written, (shared,), training="-"),
    Row("one tensor given twice", same_twice, (one_object,), training="-"),
    Row("tensors without elements", nothing, (lambda: (numbers(2, 3),),)),
    Row(
        "meta tensors",
        lambda x: x * 2 + 0,
        (meta,),
        bitwise=False,
        inductor="error: BackendError",
        says="is on meta",
    ),
)
