"""Torch's bisector finds a wrong rewrite among right ones."""

import pytest
import torch
from torch._inductor import compiler_bisector
from torch._inductor.compiler_bisector import CompilerBisector

from xpu_graph import compiler, xpu_graph_backend
from xpu_graph.debug import bisect
from xpu_graph.fx import aten
from xpu_graph.passes import RewritePass


class SinBecomesCos(RewritePass):
    """sin(x) -> cos(x), which is wrong."""

    name = "sin_becomes_cos"
    targets = frozenset({aten.sin.default})

    def visit(self, node, unit):
        unit.rewriter.replace_with_call(node, aten.cos.default, node.args)


def program(x):
    y = x.clone() * 1
    for _ in range(3):
        y = (y * 1 + 2).clone()
    return y.sin() * 1


@pytest.fixture
def bisecting(monkeypatch):
    """The bisector starts with this backend, and the backend has a wrong pass."""
    later = {"inductor": [compiler_bisector.BisectSubsystem("lowerings")]}
    monkeypatch.setattr(compiler_bisector, "BACKENDS", {"xpu_graph": [], **later})
    bisect.register_with_bisector()
    bisect.register_with_bisector()  # a second time changes nothing
    assert len(compiler_bisector.BACKENDS["xpu_graph"]) == 1
    monkeypatch.setattr(compiler, "DEFAULT_PASSES", (*compiler.DEFAULT_PASSES, SinBecomesCos))
    monkeypatch.setattr(xpu_graph_backend, "_made", {})


def is_right():
    torch.compiler.reset()
    compiled = torch.compile(program, backend="xpu_graph", options={"vendor_compiler_config": None})
    x = torch.ones(3)
    with torch.no_grad():
        return torch.equal(compiled(x), program(x))


def test_the_wrong_rewrite_is_found(bisecting):
    found = CompilerBisector.do_bisect(is_right)
    assert (found.backend, found.subsystem) == ("xpu_graph", "rewrites")
    assert found.debug_info.startswith("sin_becomes_cos in graph_")
    assert found.bisect_number > 0


def test_nothing_is_asked_where_nobody_bisects():
    assert not bisect.is_bisecting()
    assert bisect.Bisection().allow_rewrite(None, "any")
