"""Fake values made without torch's dispatch are those of the operators on real tensors."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from xpu_graph import fakes
from xpu_graph import fx as graph_facts
from xpu_graph.fx import aten
from xpu_graph.torch_compat import FakeTensorMode

BASES = {
    "contiguous": lambda: torch.ones(2, 1, 3),
    "transposed": lambda: torch.ones(3, 1, 2, dtype=torch.int64).transpose(0, 2),
    "an offset": lambda: torch.ones(5, 1, 3, dtype=torch.bfloat16)[1:3],
    "every other": lambda: torch.ones(2, 1, 6)[..., ::2],
    "expanded": lambda: torch.ones(1, 1, 3).expand(2, 1, 3),
    "odd strides": lambda: torch.ones(64).as_strided((2, 1, 3), (7, 5, 2)),
    "empty": lambda: torch.ones(2, 0, 3),
    "a lazy conjugate": lambda: torch.ones(2, 1, 3, dtype=torch.complex64).conj(),
}

VIEWS = {
    "alias": (aten.alias.default,),
    "detach": (aten.detach.default,),
    "expand": (aten.expand.default, [4, 2, 1, 3]),
    "expand one": (aten.expand.default, [2, 5, 3]),
    "permute": (aten.permute.default, [2, 0, -2]),
    "select": (aten.select.int, -1, 1),
    "select beyond": (aten.select.int, 0, 2),
    "slice": (aten.slice.Tensor, 2, 1, 9223372036854775807),
    "slice to nothing": (aten.slice.Tensor, 2, 2, 1),
    "slice of a negative step": (aten.slice.Tensor, 2, 0, 3, -1),
    "squeeze": (aten.squeeze.default,),
    "squeeze dim": (aten.squeeze.dim, 1),
    "squeeze dims": (aten.squeeze.dims, [0, -2]),
    "transpose": (aten.transpose.int, 0, -1),
    "t of three dimensions": (aten.t.default,),
    "unsqueeze": (aten.unsqueeze.default, -1),
    "unsqueeze beyond": (aten.unsqueeze.default, 7),
    "view": (aten.view.default, [3, 2]),
    "view with a rest": (aten.view.default, [-1]),
    "view of another size": (aten.view.default, [7]),
}


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
@pytest.mark.parametrize("call", VIEWS.values(), ids=VIEWS)
def test_views(base, call):
    target, *args = call
    real, mode = base(), FakeTensorMode()
    fake = mode.from_tensor(real)
    try:
        expected = target(real, *args)
    except (RuntimeError, IndexError) as error:
        with pytest.raises(type(error)):
            fakes.call_fake(target, (fake, *args), {}, mode, ask=False)
        return
    made = fakes.call_fake(target, (fake, *args), {}, mode, ask=False)
    assert graph_facts.geometry_difference(made, mode.from_tensor(expected)) is None
    assert made.untyped_storage()._cdata == fake.untyped_storage()._cdata
    assert made.fake_mode is mode
    assert not made.requires_grad


SCATTERS = {
    "slice_scatter": lambda x, y: aten.slice_scatter.default(x, y, 0, 0, 2),
    "select_scatter": lambda x, y: aten.select_scatter.default(x, y[0], 0, 0),
    "diagonal_scatter": lambda x, y: aten.diagonal_scatter.default(x.view(2, 3), y),
    "as_strided_scatter": lambda x, y: aten.as_strided_scatter.default(x, y, [2], [1], 1),
    "copy": lambda x, y: aten.copy.default(x, x),
}


@pytest.mark.parametrize("function", SCATTERS.values(), ids=SCATTERS)
def test_what_copies_the_whole_storage_keeps_the_offset(function):
    """Torch's cache of fake results says 0 from the second time on."""
    x, y = torch.arange(12.0)[1:7], torch.zeros(2)
    mode = FakeTensorMode()
    with mode:
        fakes_of = [mode.from_tensor(tensor) for tensor in (x, y)]
        gm = make_fx(lambda x, y: (function(x, y), function(x, y)[1:]))(*fakes_of)
    fakes.refresh_values(gm.graph)
    (output,) = gm.graph.find_nodes(op="output")
    for node, real in zip(output.args[0], (function(x, y), function(x, y)[1:]), strict=True):
        assert node.meta["val"].storage_offset() == real.storage_offset()
        assert fakes.run_fake(node, mode).storage_offset() == real.storage_offset()


@pytest.mark.parametrize(
    ("size", "number", "kwargs"),
    [
        ([2, 3], 1.5, {}),
        ([], 1, {}),
        ([0], True, {}),
        ([2], 1j, {}),
        ([2], 3, {"dtype": torch.int8}),
        ([2], 1, {"device": None}),
        ([2], 1, {"device": torch.device("cpu"), "pin_memory": False}),
        ([-1], 1, {}),
    ],
    ids=repr,
)
def test_full(size, number, kwargs):
    mode = FakeTensorMode()
    kwargs = {"device": torch.device("cpu"), **kwargs}
    try:
        expected = aten.full.default(size, number, **kwargs)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            fakes.call_fake(aten.full.default, (size, number), kwargs, mode, ask=False)
        return
    made = fakes.call_fake(aten.full.default, (size, number), kwargs, mode, ask=False)
    assert graph_facts.geometry_difference(made, mode.from_tensor(expected)) is None
    assert made.fake_mode is mode
