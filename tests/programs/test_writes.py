"""What a program writes to: inputs, views of them, inputs that are or share one memory, buffers."""

import copy

import pytest
import torch

from xpu_graph.testing import assert_same, check_against_eager


def ramp(*shape, dtype=torch.float32):
    return torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)


def write(x, y):
    x.add_(y)
    return x * 2


def write_after_read(x, y):
    before = x.sum()
    x.mul_(y)
    return before, x.sum()


def write_through_a_view(x, y):
    x.t()[0].copy_(y[:, 0])
    x.view(-1)[::2] = -1
    return x + y


def write_to_a_diagonal(x, y):
    x.diagonal().zero_()
    y[0, :2] = x[0, :2] + 1
    return x.sum() + y.sum()


def write_and_return_it(x, y):
    x.neg_()
    return x, x[0], y


def write_twice(x, y):
    x.add_(1)
    z = x * y
    x.add_(1)
    return z, x.clone()


def copy_between_inputs(x, y):
    x.copy_(y)
    y.fill_(7)
    return x.sum()


def write_by_index(x, y):
    x[torch.tensor([0, 0])] += 1
    x.index_put_((torch.tensor([2]),), y[0].clone(), accumulate=True)
    x.scatter_(0, torch.zeros(1, 4, dtype=torch.int64), 9.0)


WRITES = (
    write,
    write_after_read,
    write_through_a_view,
    write_to_a_diagonal,
    write_and_return_it,
    write_twice,
    copy_between_inputs,
    write_by_index,
)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", WRITES, ids=lambda f: f.__name__)
def test_writes_to_inputs(backend, function, dynamic):
    make = lambda: [ramp(3, 4), ramp(3, 4) + 2]  # noqa: E731
    check_against_eager(function, make, backend, dynamic=dynamic)


@pytest.mark.parametrize("function", WRITES, ids=lambda f: f.__name__)
def test_the_same_input_twice(backend, function):
    def make():
        x = ramp(3, 4) + 1
        return [x, x]

    check_against_eager(function, make, backend)


def fill_one(x, y):
    x.fill_(3)
    return y.sum(), (x * y).relu()


def fill_both(x, y):
    x[0] = -1
    before = y.clone()
    y.view(-1)[:5] = 8
    return before, x * 1, y.sum()


def write_to_the_part_they_share(x, y):
    x[2].neg_()
    y[0, :2] = x[0, :2] + 1
    return x.sum() + y.sum(), y * 1


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "function", [fill_one, fill_both, write_to_the_part_they_share], ids=lambda f: f.__name__
)
def test_overlapping_inputs(backend, function, dynamic):
    def make():
        memory = ramp(30) + 1
        return [memory[:12].view(3, 4), memory[6:18].view(3, 4)]

    check_against_eager(function, make, backend, dynamic=dynamic)


def test_out_argument(backend):
    def function(x, out):
        result = torch.mul(x, 3, out=out)
        return result, result + 1

    check_against_eager(function, lambda: [ramp(3), torch.zeros(3)], backend, fullgraph=False)


@pytest.mark.parametrize("dynamic", [False, True])
def test_metadata_written_in_place(backend, dynamic):
    def function(x, y, z):
        x.unsqueeze_(0)
        y.t_()
        z.squeeze_(0).add_(1)
        return x + 1, y * 2, z

    check_against_eager(
        function,
        lambda: [ramp(3), ramp(2, 3), ramp(1, 4)],
        backend,
        fullgraph=False,
        dynamic=dynamic,
    )


def test_buffers_the_model_writes(backend):
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
            self.register_buffer("last", torch.zeros(2, 4))

        def forward(self, x):
            self.calls += 1
            self.last[1:].copy_(self.last[:1].clone())
            self.last[0] = x.sum(0)
            return self.linear(x) * self.calls + self.last.sum()

    eager = Counting()
    mine = copy.deepcopy(eager)
    compiled = torch.compile(mine, backend=backend, fullgraph=True)
    with torch.no_grad():
        for step in range(3):
            assert_same(compiled(ramp(2, 4) + step), eager(ramp(2, 4) + step))
    assert_same(dict(mine.named_buffers()), dict(eager.named_buffers()), "buffer")


@pytest.mark.parametrize("freeze", [False, True])
def test_batch_norm_that_trains_without_gradients(backend, freeze):
    backend = backend.with_options(None, {"freeze": freeze})
    eager = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
    mine = copy.deepcopy(eager)
    compiled = torch.compile(mine, backend=backend, fullgraph=True)
    with torch.no_grad():
        for step in range(3):
            x = torch.randn(2, 3, 6, 6) + step
            assert_same(compiled(x), eager(x))
    assert_same(dict(mine.named_buffers()), dict(eager.named_buffers()), "buffer")
