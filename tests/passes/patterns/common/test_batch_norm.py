"""Batch norm goes into frozen weights."""

import copy

import pytest
import torch
from torch import nn

from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.testing import assert_same


def spread(model):
    """Numbers in the place of the zeros and ones of a fresh batch norm."""
    torch.manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            if module.affine:
                module.weight.data.uniform_(0.5, 2)
                module.bias.data.normal_()
    return model.eval()


def compiled(model, *inputs, **config):
    """Rewrites by pattern, and the backend; the results must be those of eager."""
    settings = {"opt_level": "level2", "freeze": True, "enable_cache": False, "verify": "each"}
    backend = XpuGraph(XpuGraphConfig(**{**settings, **config}))
    torch.compiler.reset()
    with torch.no_grad():
        function = torch.compile(model, backend=backend)
        for _ in range(2):
            assert_same(function(*inputs), model(*inputs), bitwise=False, rtol=1e-4, atol=1e-4)
    passes = backend.reports[-1].graphs[0].passes.items()
    return {name: one for name, one in passes if "batch_norm" in name}, function, backend


CONVOLUTIONS = {
    "1d": (nn.Conv1d(3, 5, 3), nn.BatchNorm1d(5), (2, 3, 9)),
    "2d": (nn.Conv2d(3, 5, 3, stride=2, padding=1), nn.BatchNorm2d(5), (2, 3, 9, 9)),
    "2d without bias": (nn.Conv2d(3, 5, 3, bias=False), nn.BatchNorm2d(5), (2, 3, 9, 9)),
    "3d": (nn.Conv3d(2, 4, 2), nn.BatchNorm3d(4), (2, 2, 4, 4, 4)),
    "grouped": (nn.Conv2d(4, 8, 3, groups=2), nn.BatchNorm2d(8), (2, 4, 9, 9)),
    "depthwise, dilated": (
        nn.Conv2d(4, 4, 3, groups=4, dilation=2),
        nn.BatchNorm2d(4),
        (2, 4, 9, 9),
    ),
    "not affine": (nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5, affine=False), (2, 3, 9, 9)),
}


def test_an_infinite_scale():
    model = spread(nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5, eps=0.0)))
    model[1].running_var[0] = 0.0
    records, _, _ = compiled(model, torch.randn(2, 3, 9, 9))
    record = records["common-convolution_batch_norm"]
    assert not record.applied
    assert set(record.refused) == {"eps is not positive"}


@pytest.mark.parametrize(("layer", "norm", "shape"), CONVOLUTIONS.values(), ids=CONVOLUTIONS)
def test_into_a_convolution(layer, norm, shape):
    model = spread(nn.Sequential(layer, norm, nn.ReLU()))
    records, _, _ = compiled(model, torch.randn(shape))
    assert records["common-convolution_batch_norm"].applied == 1


def test_into_a_linear_layer():
    records, _, _ = compiled(
        spread(nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5))), torch.randn(4, 6)
    )
    assert records["common-linear_batch_norm"].applied == 1


def test_nothing_of_it_is_computed_again_at_each_call():
    _, _, backend = compiled(
        spread(nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5))), torch.randn(2, 3, 9, 9)
    )
    (graph,) = backend.reports[-1].graphs
    assert not any("batch_norm" in call for call in graph.after)
    assert any("depend on frozen parameters alone" in note for note in graph.notes)


def test_a_changed_parameter_is_folded_again():
    model = spread(nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)))
    x = torch.randn(2, 3, 9, 9)
    _, function, _ = compiled(model, x)
    with torch.no_grad():
        model[1].running_var.mul_(3)
        model[0].weight.add_(0.5)
        assert_same(function(x), model(x), bitwise=False, rtol=1e-4, atol=1e-4)


def test_without_freeze_it_is_not_looked_for():
    model = spread(nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5)))
    records, _, _ = compiled(model, torch.randn(2, 3, 9, 9), freeze=False)
    assert not records


def test_inductor_does_it_by_itself():
    model = spread(nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5)))
    settings = {"target": "cpu", "vendor_compiler_config": {}}
    assert not compiled(model, torch.randn(4, 6), **settings)[0]


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(self.layer(self.layer(x)))


class Leaks(Twice):
    def forward(self, x):
        result = self.layer(x)
        return self.norm(result), result.sin()


class Given(Twice):
    def forward(self, x, weight):
        return self.norm(nn.functional.conv2d(x, weight))


REFUSED = {
    "a transposed convolution": (
        nn.Sequential(nn.ConvTranspose2d(3, 5, 3), nn.BatchNorm2d(5)),
        (),
        "the convolution is transposed",
    ),
    "a weight that is used twice": (Twice(), (), "something else reads the weight"),
    "a result that is read elsewhere": (Leaks(), (), "something else reads a value inside"),
    "a weight that is given": (Given(), (torch.randn(3, 3, 3, 3),), "a parameter is not frozen"),
}


@pytest.mark.parametrize(("model", "more", "reason"), REFUSED.values(), ids=REFUSED)
def test_refused(model, more, reason):
    records, _, _ = compiled(spread(copy.deepcopy(model)), torch.randn(2, 3, 9, 9), *more)
    record = records["common-convolution_batch_norm"]
    assert record.applied == 0
    assert reason in record.refused
