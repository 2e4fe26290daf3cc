"""Declared forms: what their words let vary, and what is no form."""

import pytest
import torch
from torch import fx

from xpu_graph.errors import PassError
from xpu_graph.fx import aten
from xpu_graph.passes.patterns.forms import ANY, cast, casted, either, form, reshaped
from xpu_graph.passes.patterns.match import Matcher
from xpu_graph.passes.rewriter import Rewriter
from xpu_graph.testing import capture

X, Y = torch.randn(4, 6), torch.randn(4, 6)


def matches(shape, function, *inputs):
    """The inputs of all matches, by name, and the last output of each."""
    unit = capture(function, *inputs)[0]
    matcher = Matcher(form(shape))
    rewriter = Rewriter(unit)
    candidates = list(matcher.candidates(rewriter))
    return [match for node in candidates for match in list(matcher.find(node))[:1]]


def names(match):
    return [one.name if isinstance(one, fx.Node) else one for one in match.inputs]


def scaled(x, factor):
    return aten.mul.Tensor(aten.sin.default(x), factor)


def test_a_parameter_fits_a_tensor_or_a_number():
    assert names(*matches(scaled, lambda x: x.sin() * 3, X)) == ["arg0_1", 3]
    assert names(*matches(scaled, lambda x, y: y * x.sin(), X, Y))[0] != "sin"
    assert len(matches(scaled, lambda x, y: y * x.sin(), X, Y)) == 1


def test_a_parameter_is_the_same_wherever_it_stands():
    def square(x):
        return aten.mul.Tensor(aten.sin.default(x), aten.cos.default(x))

    assert len(matches(square, lambda x, y: x.sin() * x.cos(), X, Y)) == 1
    assert not matches(square, lambda x, y: x.sin() * y.cos(), X, Y)


def test_either_takes_the_first_that_fits():
    def root(x, by, power):
        return aten.neg.default(
            either(aten.pow.Tensor_Scalar(x, power), aten.mul.Tensor(x, by), aten.sin.default(x))
        )

    assert names(*matches(root, lambda x: -(x**3), X))[2] == 3
    assert names(*matches(root, lambda x: -(x * 5), X)) == ["arg0_1", 5, None]
    assert names(*matches(root, lambda x: -x.sin(), X)) == ["arg0_1", None, None]
    assert not matches(root, lambda x: -x.cos(), X)


def test_either_at_the_root():
    def root(x, y):
        return either(aten.sin.default(x), aten.mul.Tensor(x, y))

    found = matches(root, lambda x, y: (x.sin(), x * y), X, Y)
    assert [match.outputs[0].target for match in found] == [aten.sin.default, aten.mul.Tensor]


def test_a_cast_may_stand_in_between_or_not():
    def root(x):
        return aten.sin.default(cast(x))

    (match,) = matches(root, lambda x: x.double().sin(), X)
    assert names(match) == ["arg0_1"]
    assert [node.target for node in match.inner] == [aten._to_copy.default]
    (match,) = matches(root, lambda x: x.sin(), X)
    assert not match.inner
    (match,) = matches(root, lambda x: x.float().sin(), torch.arange(4))
    assert match.inputs[0].target == aten._to_copy.default  # from integers it is no rounding


def test_a_cast_that_must_be_there():
    def root(x):
        return casted(aten.sin.default(x))

    (match,) = matches(root, lambda x: x.sin().double(), X)
    assert match.outputs[0].target == aten._to_copy.default
    assert not matches(root, lambda x: x.sin(), X)


def test_views_that_keep_the_order():
    def root(x):
        return aten.sin.default(reshaped(x))

    (match,) = matches(root, lambda x: x.view(2, 12).unsqueeze(1).clone().sin(), X)
    assert names(match) == ["arg0_1"]
    (match,) = matches(root, lambda x: x.view(4, 1, 6).permute(1, 0, 2).sin(), X)
    assert names(match) == ["arg0_1"]
    (match,) = matches(root, lambda x: x.view(4, 3, 2).permute(1, 0, 2).sin(), X)
    assert match.inputs[0].target == aten.permute.default


def test_anything_fits_any():
    def root(x):
        return aten.sum.dim_IntList(x, ANY, ANY)

    assert len(matches(root, lambda x: (x.sum(0), x.sum((0, 1), keepdim=True)), X)) == 2


def test_two_results():
    def root(x, y):
        total = aten.add.Tensor(x, y)
        return aten.sin.default(total), total

    (match,) = matches(root, lambda x, y: (x + y).sin(), X, Y)
    assert [node.target for node in match.outputs] == [aten.sin.default, aten.add.Tensor]


def loose(x, y):
    return aten.sin.default(x)


def literal(x):
    return 3


def optional(x):
    return cast(aten.sin.default(x))


def variadic(*x):
    return aten.sin.default(x[0])


NO_FORMS = {
    "a parameter that is not used": (loose, "does not use y"),
    "no call": (literal, "returns 3"),
    "a result that need not be there": (optional, "need not be there"),
    "variadic": (variadic, r"\*args"),
}


@pytest.mark.parametrize(("function", "message"), NO_FORMS.values(), ids=NO_FORMS)
def test_no_form(function, message):
    with pytest.raises(PassError, match=message):
        form(function)


def test_a_word_outside_of_a_form():
    with pytest.raises(PassError, match="declared forms alone"):
        cast(3)
