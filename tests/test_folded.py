"""Frozen parameters: folded once, never stale, and kept alive by nobody."""

import gc
import threading
import weakref

import pytest
import torch
from torch import nn

from xpu_graph.artifact import SerializableArtifact, SerializableGraphModule
from xpu_graph.compiler import XpuGraph
from xpu_graph.config import XpuGraphConfig
from xpu_graph.errors import CacheError
from xpu_graph.folded import FoldedArtifact
from xpu_graph.testing import assert_same

X = torch.arange(6.0).view(2, 3)


class Scaled(nn.Module):
    """Depends on its parameter through calls that can be folded."""

    def __init__(self, value=2.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), value))

    def forward(self, x):
        return x + (self.weight * 3).exp().log()


def backend(**config):
    return XpuGraph(XpuGraphConfig(freeze=True, enable_cache=False, **config))


def compiled(model, **config):
    made = backend(**config)
    return torch.compile(model, backend=made, fullgraph=True), made


def folds(made):
    return sum(artifact.folds for artifact in made._frozen)


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


def check(function, model, x=X):
    assert_same(function(x), model(x))


def test_nothing_is_folded_again_without_a_change():
    model = Scaled()
    function, made = compiled(model)
    for _ in range(3):
        check(function, model)
    assert folds(made) == 1
    assert len(made.reports) == 1


def in_place(model):
    model.weight.add_(1)


def by_copy(model):
    model.weight.copy_(torch.ones(3))


def load(model):
    model.load_state_dict({"weight": torch.full((3,), 5.0)})


def load_assign(model):
    model.load_state_dict({"weight": torch.full((3,), 5.0)}, assign=True)


def swap(model):
    model.weight = nn.Parameter(torch.full((3,), 7.0))


def swap_data(model):
    model.weight.data = torch.full((3,), 9.0)


def through_a_view(model):
    model.weight[1:].mul_(2)


def one_step(model):
    with torch.enable_grad():
        model(X).sum().backward()
    torch.optim.SGD(model.parameters(), 0.5).step()


def set_to(model):
    model.weight.set_(torch.full((3,), 11.0))


CHANGES = [
    in_place,
    by_copy,
    load,
    load_assign,
    swap,
    swap_data,
    through_a_view,
    one_step,
    set_to,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("cached", [False, True])
def test_a_change_is_seen(change, cached):
    model = Scaled()
    made = XpuGraph(XpuGraphConfig(freeze=True, enable_cache=cached))
    function = torch.compile(model, backend=made, fullgraph=True)
    check(function, model)
    before = folds(made)
    change(model)
    check(function, model)
    check(function, model)
    assert folds(made) == before + 1
    assert len(made.reports) == 1, "a change of a parameter compiles nothing again"


def test_an_address_that_is_used_again_is_no_proof():
    model = Scaled()
    model.weight = nn.Parameter(torch.ones(100_000, 3))
    x = torch.ones(100_000, 3)
    function, _ = compiled(model)
    reused = False
    for number in range(20):
        model.weight.data = torch.full((100_000, 3), float(number))
        check(function, model, x)
        before = (model.weight.data_ptr(), model.weight._version)
        for other in (1.25, 1.5, 1.75):
            model.weight.data = torch.full((100_000, 3), number + other)
            if (model.weight.data_ptr(), model.weight._version) == before:
                reused = True
                check(function, model, x)
    assert reused, "no address was used again, so this test shows nothing"


def test_a_swap_back_and_forth():
    model = Scaled()
    function, _ = compiled(model)
    one, two = model.weight, nn.Parameter(torch.full((3,), 4.0))
    for weight in (one, two, one, two):
        model.weight = weight
        check(function, model)
        weight.add_(1)
        check(function, model)


def test_refold_is_for_what_torch_cannot_see():
    model = Scaled()
    function, made = compiled(model)
    stale = function(X)
    model.weight.data.mul_(2)
    assert_same(function(X), stale)
    made.refold()
    check(function, model)
    assert folds(made) == 2


def test_refold_while_a_fold_runs_is_not_lost():
    class Fold(SerializableGraphModule):
        kind = ""

        def __init__(self):
            pass

        def boxed(self, args):
            value = weight.clone()
            if not meanwhile:
                meanwhile.append(True)
                weight.data.add_(1)
                artifact.refold()
            return [value]

    class Main(Fold):
        def boxed(self, args):
            return args

    weight, meanwhile = torch.zeros(1), []
    artifact = FoldedArtifact(Fold(), Main(), [0], [])
    artifact(weight)
    assert artifact(weight)[0] == 1


def test_a_buffer_that_the_model_changes():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(3))
            self.register_buffer("scale", torch.full((3,), 2.0))

        def forward(self, x):
            self.count.add_(1)
            return x * (self.count * 2) + (self.scale * 3).exp()

    mine, eagers = Counting(), Counting()
    function, made = compiled(mine)
    for _ in range(3):
        assert_same(function(X), eagers(X))
        assert_same(mine.count, eagers.count)
    assert folds(made) == 1


def test_batch_norm_statistics():
    model = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3)).eval()
    function, _ = compiled(model)
    x = torch.randn(2, 2, 4, 4)
    check(function, model, x)
    model.train()
    for _ in range(2):
        model(x)
    model.eval()
    check(function, model, x)


def test_inference_tensors_are_not_folded():
    with torch.inference_mode():
        model = Scaled()
    function, made = compiled(model)
    check(function, model)
    with torch.inference_mode():
        model.weight.add_(1)
    check(function, model)
    assert not made._frozen
    assert any("inference tensor" in note for note in made.reports[-1].graphs[0].notes)


def test_an_inference_tensor_that_comes_later():
    model = Scaled()
    function, _ = compiled(model)
    check(function, model)
    with torch.inference_mode():
        model.weight = nn.Parameter(torch.full((3,), 4.0))
    for _ in range(2):
        check(function, model)
        with torch.inference_mode():
            model.weight.add_(1)


def test_what_is_folded_in_inference_mode_may_be_used_outside():
    model = Scaled()
    function, made = compiled(model)
    check(function, model)
    (artifact,) = made._frozen
    made.refold()
    args = [X, X]
    args[artifact._frozen_inputs[0]] = model.weight
    with torch.inference_mode():
        artifact(*args)
    assert artifact._current.values
    assert not any(constant.is_inference() for constant in artifact._current.values)


def test_a_result_that_is_written_to():
    class Returns(Scaled):
        def forward(self, x):
            folded = self.weight * 3
            return folded, folded.view(3, 1), self.weight.view(3, 1), x * folded.exp()

    model = Returns()
    function, _ = compiled(model)
    for result in function(X):
        result.zero_()
    assert_same(list(function(X)), list(model(X)))


@pytest.mark.parametrize("reset", [True, False])
def test_the_model_is_freed(reset):
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)).eval()
    function, made = compiled(model)
    check(function, model)
    check(function, model)
    assert folds(made) == 1
    references = [weakref.ref(part) for part in (model, *model.parameters())]
    del model, function
    if reset:
        torch._dynamo.reset()
    gc.collect()
    assert [r() for r in references[1:]] == [None] * (len(references) - 1)
    assert references[0]() is None


def test_many_threads():
    model = Scaled()
    function, _ = compiled(model)
    want = model(X)
    errors = []

    def work():
        try:
            for _ in range(50):
                with torch.no_grad():
                    assert_same(function(X), want)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_a_graph_that_needs_gradients_trains_and_says_why_it_is_not_folded():
    def gradients(make):
        model = Scaled()
        function = make(model)
        with torch.enable_grad():
            for _ in range(2):
                function(X).pow(2).sum().backward()
        return model.weight.grad

    made = backend()
    mine = gradients(lambda model: torch.compile(model, backend=made, fullgraph=True))
    assert_same(mine, gradients(lambda model: model))
    assert not made._frozen
    assert any("gradients" in note for note in made.reports[0].graphs[1].notes)


def test_folding_freezed_params_false_keeps_them_inputs():
    model = Scaled()
    function, made = compiled(model, folding_freezed_params=False)
    for change in (in_place, swap, swap_data):
        check(function, model)
        change(model)
    model.weight.data.mul_(2)
    check(function, model)
    assert not made._frozen
    assert any("folding_freezed_params" in note for note in made.reports[0].graphs[0].notes)


def test_stored_and_rebuilt():
    model = Scaled()
    function, made = compiled(model)
    check(function, model)
    (artifact,) = made._frozen
    found = SerializableArtifact.rebuild_from_bytes(artifact.convert_to_bytes())
    assert isinstance(found, FoldedArtifact)
    assert found.folds == 0
    args = [X, X]
    args[artifact._frozen_inputs[0]] = model.weight
    assert_same(list(found(*args)), [model(X)])
    assert found.folds == 1


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"frozen_inputs": [0]}', b"\xff"])
def test_a_stored_split_without_sense(content):
    with pytest.raises(CacheError):
        FoldedArtifact.from_members({"split.json": content})
