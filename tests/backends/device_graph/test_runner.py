"""``GraphRunner``: any function, captured by hand."""

import pytest
import torch

from xpu_graph import Target
from xpu_graph.backends.device_graph import GraphRunner
from xpu_graph.errors import BackendError, BackendUnavailable, ConfigError
from xpu_graph.testing import assert_same


def scaled(x, *, factor=2, offset=None):
    y = x * factor
    return {"result": y if offset is None else y + offset, "factor": factor}


def keep(x, **_):
    return [x]


def copy_in(buffers, x, **_):
    buffers[0].copy_(x)
    return True


@pytest.fixture
def runner(double):
    return GraphRunner[Target.cpu](scaled, keep, copy_in)


def test_capture_and_forward(runner, double):
    x = torch.ones(2)
    runner.capture(x, factor=3)
    assert double.graphs[0].replays == 0
    for value in (1.0, 2.0, 5.0):
        got = runner.forward(torch.full((2,), value))
        assert_same(got, {"result": torch.full((2,), value * 3), "factor": 3})
    assert_same(x, torch.full((2,), 5.0))  # the captured tensor is the buffer


def test_copies_of_the_arguments(runner):
    x, offset = torch.ones(2), torch.ones(2)
    runner.capture(x, offset=offset, clone_args=True)
    offset.fill_(9)
    assert_same(runner(torch.zeros(2))["result"], torch.ones(2))
    assert_same(x, torch.ones(2))


def test_results_are_new_objects_in_memory_that_is_written_again(runner):
    runner.capture(torch.ones(2))
    first, second = (runner(torch.ones(2))["result"] for _ in range(2))
    assert first is not second
    assert first.data_ptr() == second.data_ptr()


def test_callbacks_in_a_form_of_their_own(double):
    runner = GraphRunner["cpu"](
        callable_target=lambda x: x + 1,
        init_param_callback=lambda x: x,
        copy_param_callback=lambda buffer, x: (buffer.copy_(x), True),
    )
    runner.capture(torch.ones(2))
    assert_same(runner(torch.zeros(2)), torch.ones(2))


def test_without_callbacks_the_captured_tensors_are_read(double):
    x = torch.ones(2)
    runner = GraphRunner[Target.cpu](lambda x: x + 1)
    runner.capture(x)
    x.fill_(4)
    assert_same(runner(), torch.full((2,), 5.0))


def test_a_copy_that_fails(double):
    runner = GraphRunner[Target.cpu](scaled, keep, lambda buffers, x: False)
    runner.capture(torch.ones(2))
    with pytest.raises(BackendError, match="copy_param_callback"):
        runner(torch.ones(2))


def test_clone_has_no_capture(runner, double):
    runner.capture(torch.ones(2))
    clone = runner.clone()
    assert type(clone) is type(runner)
    with pytest.raises(BackendError, match="nothing is captured"):
        clone(torch.ones(2))
    clone.capture(torch.ones(2), factor=5)
    assert clone(torch.ones(2))["factor"] == 5
    assert runner(torch.ones(2))["factor"] == 2


def test_reset_drops_the_capture(runner, double):
    runner.capture(torch.ones(2))
    assert runner.reset() is runner
    assert double.live == []
    with pytest.raises(BackendError, match="nothing is captured"):
        runner(torch.ones(2))
    runner.capture(torch.ones(3))
    assert_same(runner(torch.ones(3))["result"], torch.full((3,), 2.0))


def test_a_second_capture_is_refused(runner, double):
    runner.capture(torch.ones(2))
    with pytest.raises(BackendError, match=r"reset\(\)"):
        runner.capture(torch.ones(2))
    assert len(double.graphs) == 1


def test_a_capture_inside_another_is_refused(runner, double):
    with (
        double.capture(double.graph(), 0, None, None, "global"),
        pytest.raises(BackendError, match="inside another"),
    ):
        runner.capture(torch.ones(2))


def test_a_failed_capture_leaves_the_runner_as_new(runner, double):
    double.failing = torch.ops.aten.mul.Tensor
    with pytest.raises(BackendError, match="capturing scaled failed"):
        runner.capture(torch.ones(2))
    double.failing = None
    assert double.live == []
    runner.capture(torch.ones(2))
    assert_same(runner(torch.ones(2))["result"], torch.full((2,), 2.0))


def test_pools(runner, double):
    assert runner.mempool is None
    runner.capture(torch.ones(2), memory_pool=(0, 5))
    other = runner.clone()
    other.capture(torch.ones(2), memory_pool=(0, 5))
    assert runner.mempool == other.mempool == (0, 5)
    assert double.pools == [(0, 5)] * 2
    assert len(set(double.streams_of_captures)) == 1
    third = runner.clone()
    third.capture(torch.ones(2))
    assert third.mempool != (0, 5)


def test_the_class_of_a_target(double):
    assert GraphRunner[Target.cpu] is GraphRunner["cpu"]
    assert GraphRunner[Target.cpu].target == "cpu"
    with pytest.raises(BackendError, match="no target"):
        GraphRunner(scaled)
    with pytest.raises(BackendError, match=r"'none'.*npu"):
        GraphRunner[Target.none]
    with pytest.raises(BackendUnavailable, match="NPUGraph"):
        GraphRunner[Target.npu]
    with pytest.raises(ConfigError):
        GraphRunner["nowhere"]
