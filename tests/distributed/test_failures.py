"""A rank that raises or dies leaves the other with torch's error, and with no lock to wait for."""

import contextlib
import datetime
import os

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

from tests.distributed.pair import Pair
from xpu_graph import XpuGraph, XpuGraphConfig, XpuGraphLocalCache

COLLECTIVE_S = 2.0
"""After this a collective gives up on a rank that lives and does not come."""


@pytest.fixture
def doomed(tmp_path):
    """A pair of which a rank is going to die."""
    pair = Pair(tmp_path)
    yield pair
    pair.close()


def failures(pair, function, *arguments):
    """What each rank says that is asked to run a function in which both fail."""
    answers = pair.answers(function, *arguments, seconds=60, grace_s=40)
    assert not answers[0][0] and not answers[1][0]
    assert "no answer" not in answers[0][1] + answers[1][1]
    return answers[0][1], answers[1][1]


def make_reduced():
    """A function to compile; its group is impatient."""
    group = dist.new_group(timeout=datetime.timedelta(seconds=COLLECTIVE_S))

    def reduced(x):
        return funcol.all_reduce(x * 2, "sum", group) + 1

    return reduced


class Hooked(XpuGraphLocalCache):
    """A cache in which something happens to rank 1 while it holds the lock of a graph."""

    def __init__(self, path, happen):
        super().__init__(path)
        self._happen = happen

    def save_artifact(self, key, value, expire=None, **facts):
        if dist.get_rank() == 1:
            self._happen()
        return super().save_artifact(key, value, expire, **facts)


def fail_while_compiling(directory, dies):
    """Rank 1 dies, or is interrupted, with the lock; rank 0 comes for it afterwards."""

    def happen():
        dist.send(torch.ones(1), 0)
        if dies:
            os._exit(7)
        raise KeyboardInterrupt

    reduced = make_reduced()

    backend = XpuGraph(XpuGraphConfig(cache_wait_s=60.0), Hooked(directory, happen))
    if dist.get_rank() == 0:
        with contextlib.suppress(RuntimeError):  # it may be dead before all of it is here
            dist.recv(torch.zeros(1), 1)
    torch.compile(reduced, backend=backend, fullgraph=True)(torch.ones(3))


def test_dying_while_it_compiles(doomed, tmp_path):
    """Rank 0 ends far below ``cache_wait_s``: the lock is free, and the collective tells."""
    _, told = failures(doomed, fail_while_compiling, str(tmp_path / "cache"), True)
    assert told == "died with code 7"


def test_interrupted_while_it_compiles(pair, tmp_path):
    _, told = failures(pair, fail_while_compiling, str(tmp_path / "cache"), False)
    assert "KeyboardInterrupt" in told


def fail_between_calls(how):
    """Both have compiled; rank 1 does not come to the second call."""
    compiled = torch.compile(make_reduced(), backend=XpuGraph(XpuGraphConfig()), fullgraph=True)
    torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 5.0))
    if dist.get_rank() == 1:
        if how == "dies":
            os._exit(7)
        raise ValueError("not today")
    compiled(torch.ones(3))


def test_dying_between_calls(doomed):
    _, told = failures(doomed, fail_between_calls, "dies")
    assert told == "died with code 7"


def test_an_error_between_calls(pair):
    _, told = failures(pair, fail_between_calls, "raises")
    assert "not today" in told
    pair.run(go_on_after_an_error)


def go_on_after_an_error():
    """An error that all ranks get is an error, and no more: the next call is right."""

    def checked(x, index):
        return funcol.all_reduce(x[index], "sum", dist.group.WORLD)

    compiled = torch.compile(checked, backend=XpuGraph(XpuGraphConfig()), fullgraph=True)
    x = torch.ones(3)
    with pytest.raises((IndexError, RuntimeError)):
        compiled(x, torch.tensor([7]))
    torch.testing.assert_close(compiled(x, torch.tensor([1])), torch.full((1,), 2.0))


def test_an_error_on_all_ranks(pair):
    pair.run(go_on_after_an_error)
