"""Identities of values and of code: equal texts for equal things, in every process."""

import enum
import functools
import logging
import operator
import os
import pathlib
import subprocess
import sys
from types import FunctionType

import pytest
import torch

from xpu_graph.errors import NotCacheable
from xpu_graph.identity import identity_text

log = logging.getLogger(__name__)
FACTOR = 2


class Color(enum.Enum):
    red = 1
    blue = 2


class Opaque:
    def method(self):
        raise NotImplementedError


class Named:
    def __init__(self, uuid):
        self._uuid = uuid

    def uuid(self):
        return self._uuid

    def method(self):
        raise NotImplementedError


OPAQUE = Opaque()


def text(value):
    return identity_text(value, "the test")


def with_globals(function, **changes):
    """The same function in a module where some globals are others."""
    return FunctionType(
        function.__code__,
        {**function.__globals__, **changes},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )


def scaled(graph, by=1):
    log.debug("scaled")
    return helper(graph) * by * FACTOR


def helper(value):
    return operator.add(value, torch.pi)


def other_helper(value):
    return operator.sub(value, torch.pi)


def recursive(n):
    return n and recursive(n - 1)


def make(closed):
    return lambda: closed


def nested():
    return [FACTOR * i for i in range(3)]


def uses_opaque():
    return OPAQUE


def test_equal_values_have_equal_texts():
    assert text({"a": 1, "b": {2, 3}}) == text({"b": {3, 2}, "a": 1})
    assert text(make(3)) == text(make(3))
    assert text(functools.partial(scaled, by=2)) == text(functools.partial(scaled, by=2))
    assert text(Named("x")) == text(Named("x"))


DIFFERENT = [
    None,
    0,
    False,
    0.0,
    -0.0,
    "0",
    b"0",
    (0,),
    [0],
    {0},
    {0: 1},
    torch.float32,
    torch.device("cpu"),
    Color.red,
    Color.blue,
    Named("0"),
    Named("1"),
    Named("0").method,
    torch.ops.aten.add.Tensor,
    torch.ops.aten.add.Scalar,
    torch.ops.aten.add,
    operator.add,
    torch.nn.Linear,
    Opaque,
    torch,
    scaled,
    helper,
    other_helper,
    recursive,
    nested,
    make(1),
    make(2),
    make(scaled),
    functools.partial(scaled, by=1),
    functools.partial(scaled, by=2),
    with_globals(scaled, FACTOR=3),
    with_globals(scaled, helper=other_helper),
    with_globals(nested, FACTOR=3),
    lambda value: value + 1,
    lambda value: value - 1,
    lambda value, more=1: value + 1,
    lambda value, more=2: value + 1,
]


def test_unequal_values_have_unequal_texts():
    texts = [text(value) for value in DIFFERENT]
    assert len(set(texts)) == len(texts)


def test_what_is_logged_is_no_part():
    assert text(scaled) == text(with_globals(scaled, log=logging.getLogger("another")))


@pytest.mark.parametrize(
    ("value", "what"),
    [
        pytest.param(object(), "builtins.object", id="object"),
        pytest.param([OPAQUE], "Opaque", id="in_a_list"),
        pytest.param(OPAQUE.method, "Opaque", id="method"),
        pytest.param(make(OPAQUE), "closed", id="closure"),
        pytest.param(uses_opaque, "OPAQUE", id="global"),
        pytest.param(torch.zeros(2), "Tensor", id="tensor"),
        pytest.param(Named(None), "Named", id="uuid_none"),
        pytest.param(Named(object()), "object", id="uuid_object"),
        pytest.param(type("Made", (), {"__module__": "nowhere"}), "Made", id="class_without_file"),
    ],
)
def test_what_has_no_identity_is_named(value, what):
    with pytest.raises(NotCacheable) as caught:
        text(value)
    assert "the test" in str(caught.value)
    assert what in str(caught.value)


def test_texts_are_the_same_in_another_process(tmp_path):
    (tmp_path / "passes.py").write_text(
        "SIZES = {'a', 'b', 'c', 'd'}\n"
        "class Kind: pass\n"
        "def run(gm, inputs, config, *, names=frozenset('xyz')):\n"
        "    return Kind, [n for n in SIZES if n in {'p', 'q', 'r'}]\n"
    )
    program = (
        "import passes\n"
        "from xpu_graph.identity import identity_text\n"
        "print(identity_text(passes.run, 'x'))\n"
    )
    root = str(pathlib.Path(__file__).resolve().parents[2])
    printed = set()
    for seed in ("1", "2"):
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tmp_path), root]),
            "PYTHONHASHSEED": seed,
        }
        command = [sys.executable, "-c", program]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        printed.add(done.stdout)
    assert len(printed) == 1
