"""What a program returns: aliases, repeats, None, numbers, and one compilation for many sizes."""

import pytest
import torch

from xpu_graph.testing import assert_same, check_against_eager


def ramp(*shape, dtype=torch.float32):
    return torch.arange(torch.Size(shape).numel()).reshape(shape).to(dtype)


def counted(backend):
    """The backend, and a list that grows by one for every graph it is asked to compile."""
    compiled = []

    def call(gm, inputs, **options):
        compiled.append(gm)
        return backend(gm, inputs, **options)

    return call, compiled


# --- results ---


def same_tensor_thrice(x):
    y = x + 1
    return y, None, [y, {"again": y}]


def input_as_it_is(x):
    return x, x * 1, x


def views_of_an_input(x):
    return x.view(-1), x[1:], x.t(), x


def views_of_one_result(x):
    y = x.sin()
    return y, y.view(-1), y[0]


def view_of_a_dropped_result(x):
    return x.cos().t()[1:]


def detached_input(x):
    return x.detach(), x.view_as(x), x.expand(2, *x.shape)


def numbers_and_text(x):
    return x.shape, x.shape[0] * 2, 2.5, "text", (x.dim(), True), None


def nothing(x):
    x + 1


def an_input_alone(x):
    return x


def split_in_views(x):
    a, b = x.split(1)[:2]
    return a, b, torch.unbind(x + 0.5)


RESULTS = (
    same_tensor_thrice,
    input_as_it_is,
    views_of_an_input,
    views_of_one_result,
    view_of_a_dropped_result,
    detached_input,
    numbers_and_text,
    nothing,
    an_input_alone,
    split_in_views,
)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", RESULTS, ids=lambda f: f.__name__)
def test_results(backend, function, dynamic):
    check_against_eager(function, lambda: [ramp(3, 4)], backend, dynamic=dynamic)


def test_no_inputs(backend):
    def function():
        return torch.arange(3), torch.ones(2) * 2, None

    check_against_eager(function, list, backend)


def test_only_numbers_in(backend):
    check_against_eager(lambda n, s: torch.full((n,), s) + n, lambda: [3, 0.5], backend)


# --- one compilation, many sizes ---


def write(x, y):
    x.add_(y)
    return x * 2


def write_through_a_view(x, y):
    x.t()[0].copy_(y[:, 0])
    x.view(-1)[::2] = -1
    return x + y


def write_twice(x, y):
    x.add_(1)
    z = x * y
    x.add_(1)
    return z, x.clone()


@pytest.mark.parametrize("function", [*RESULTS, write, write_through_a_view, write_twice])
def test_one_dynamic_compilation_serves_many_sizes(backend, function):
    call, compiled = counted(backend)
    torch._dynamo.reset()
    mine = torch.compile(function, backend=call, dynamic=True, fullgraph=True)
    with torch.no_grad():
        for rows, columns in ((3, 4), (5, 7), (8, 3), (11, 13)):
            sides = []
            for side in (mine, function):
                args = [ramp(rows, columns) + 1 for _ in range(function.__code__.co_argcount)]
                sides.append((side(*args), args))
            assert_same(*sides)
    # as many results as rows: that size cannot vary
    assert len(compiled) == (4 if function is split_in_views else 1)


def test_a_size_found_to_vary_is_compiled_once_more(backend):
    call, compiled = counted(backend)
    mine = torch.compile(lambda x: (x * 2 - 0).sum(0), backend=call)
    with torch.no_grad():
        for rows in (3, 5, 7, 9, 11):
            assert_same(mine(ramp(rows, 4)), (ramp(rows, 4) * 2).sum(0))
    assert len(compiled) == 2


def test_sizes_zero_and_one(backend):
    mine = torch.compile(lambda x: (x.sum(0) + 1, x.view(-1) * 1, x[:1]), backend=backend)
    with torch.no_grad():
        for rows in (4, 0, 1, 2, 0):
            x = ramp(rows, 3)
            assert_same(mine(x), (x.sum(0) + 1, x.view(-1) * 1, x[:1]))


def test_sizes_among_the_results(backend):
    check_against_eager(
        lambda x: (x.shape[0] * 3 + 1, x.numel(), x.sum() / x.shape[1], x.shape),
        lambda: [ramp(5, 7)],
        backend,
        dynamic=True,
    )


@pytest.mark.parametrize("whole", [False, True])
def test_sizes_that_depend_on_data(backend, whole):
    def function(x):
        kept = x[x > 2]
        where = torch.nonzero(x)
        return kept * 1 + 0, where, kept.shape[0], where.sum(0)

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=whole):
        check_against_eager(function, lambda: [ramp(2, 4)], backend, fullgraph=whole)


def test_a_number_read_from_a_tensor(backend):
    def function(x):
        n = x.max().item()
        return x * n, n

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        check_against_eager(function, lambda: [ramp(4)], backend)
        check_against_eager(function, lambda: [ramp(4, dtype=torch.int64)], backend)
