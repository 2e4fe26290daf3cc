"""Kinds of faults that were found by trying to break the target; each compared with eager."""

import os
import subprocess

import ascend_sim
import pytest
import torch
from programs import CAPTURING, MODES, backend, compiled, refused

each_mode = pytest.mark.parametrize("mode", MODES)
each_capturing_mode = pytest.mark.parametrize("mode", CAPTURING)


@each_mode
@pytest.mark.parametrize(
    "guard", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference"]
)
@pytest.mark.parametrize("keep", [lambda o: o, lambda o: o.view(-1)], ids=["itself", "a view"])
def test_outputs_are_held_while_other_sizes_are_captured(mode, guard, keep):
    run = torch.compile(lambda x: x + 1, backend=backend(mode), dynamic=True)
    held = None
    with guard():
        for size in (3, 4, 5, 3, 6, 2, 3):
            output = run(torch.ones(size, 3).npu())
            assert output.cpu().tolist() == [[2.0] * 3] * size
            held = keep(output)
            del output
    assert held is not None


@each_mode
def test_outputs_are_held_while_moved_weights_are_captured(mode):
    layer = torch.nn.Linear(4, 8).eval().npu()
    run = compiled(layer, mode)
    x = torch.randn(2, 4).npu()
    held = run(x)
    for _ in range(2):
        layer.weight.data = layer.weight.data * 3
        held = run(x)
        with torch.no_grad():
            assert torch.allclose(held.cpu(), layer(x).cpu(), atol=1e-4)


@each_mode
def test_two_modules_of_one_class(mode):
    first, second = (torch.nn.Linear(4, 4).eval().npu() for _ in range(2))
    run_first, run_second = (compiled(layer, mode) for layer in (first, second))
    x = torch.randn(2, 4).npu()
    for _ in range(4):
        hidden = run_first(x)
        result = run_second(hidden) + hidden
        with torch.no_grad():
            expected = second(first(x)) + first(x)
        assert torch.allclose(result.cpu(), expected.cpu(), atol=1e-5)


@each_mode
def test_a_copy_of_an_input_that_is_overwritten(mode):
    def swap(x, y):
        kept = x.clone()
        x.copy_(y)
        y.copy_(kept)

    x, y = torch.ones(3).npu(), torch.zeros(3).npu()
    run = compiled(swap, mode)
    for times in range(1, 4):
        run(x, y)
        assert x.cpu().tolist() == [float(times % 2 == 0)] * 3
        assert y.cpu().tolist() == [float(times % 2 == 1)] * 3


@each_mode
def test_a_written_input_and_a_view_of_it_at_other_sizes(mode):
    run = compiled(lambda x, y: (x.add_(y), x.t()), mode, dynamic=True)
    for size in (3, 3, 4, 5, 3):
        x = torch.ones(size, 3).npu()
        total, view = run(x, torch.ones(size, 3).npu())
        assert total.cpu().tolist() == [[2.0] * 3] * size
        assert view.shape == (3, size)
        assert x.cpu().tolist() == [[2.0] * 3] * size


@each_mode
def test_numbers_made_of_sizes(mode):
    run = compiled(lambda x, n: (x + 1, n / 2, n > 3, n // 2), mode, dynamic=True)
    for number in (4, 5, 3):
        assert run(torch.ones(3).npu(), number)[1:] == (number / 2, number > 3, number // 2)


@each_mode
def test_host_scalars_made_of_sizes(mode):
    run = compiled(lambda x: x.sum(0) + torch.tensor(x.shape[0] * 1.0), mode, dynamic=True)
    for size in (3, 5, 4):
        assert run(torch.ones(size, 2).npu()).cpu().tolist() == [2.0 * size] * 2


@each_mode
def test_a_write_to_a_host_input_is_refused(mode):
    def program(x, count):
        count.add_(1)
        return x + count.npu()

    with refused("not on the NPU"):
        compiled(program, mode)(torch.ones(3).npu(), torch.zeros(3))


def test_a_write_to_a_host_input_with_device_graph():
    def program(x, count):
        count.add_(1)
        return x + count.npu()

    run = compiled(program, "device_graph")
    count = torch.zeros(3)
    for times in (1, 2, 3):
        assert run(torch.ones(3).npu(), count).cpu().tolist() == [1.0 + times] * 3
        assert count.tolist() == [float(times)] * 3


FIRST_GRAPH = """
import torch
from xpu_graph import npu_compiler
layer = torch.nn.BatchNorm1d(8).eval()
run = torch.compile(layer.npu(), backend=npu_compiler(mode="npugraph_ex"))
x = torch.randn(4, 8)
with torch.no_grad():
    assert torch.allclose(run(x.npu()).cpu(), layer.cpu()(x), atol=1e-5)
"""


def test_the_first_graph_of_a_process():
    """The vendor replaces fake implementations after Dynamo has traced the first graph."""
    environment = {**os.environ, "XPUGRAPH_VERIFY": "each"}
    done = subprocess.run(
        ascend_sim.command("-c", FIRST_GRAPH),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


ALONE_FIRST = """
import torch
from xpu_graph.backends.npu import npu_compile
from xpu_graph.testing import capture
with torch.no_grad():
    (unit,) = capture(lambda x: x + 1, torch.ones(4).npu())
npu_compile(unit.gm, unit.fake_inputs, mode="npugraph_ex")
import torchair
torchair.get_npu_backend()
"""


def test_the_compiler_used_alone_imports_the_packages_in_order():
    """npugraph_ex imported first breaks torchair for the rest of the process."""
    done = subprocess.run(
        ascend_sim.command("-c", ALONE_FIRST), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
