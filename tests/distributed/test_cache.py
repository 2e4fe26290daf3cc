"""The ranks of a job share one cache: equal graphs have equal keys, and are compiled once."""

from collections import Counter

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.training import Net, Wide, compare
from xpu_graph import XpuGraph, XpuGraphConfig, XpuGraphLocalCache


def data_parallel():
    return DistributedDataParallel(Net())


def fully_sharded():
    return fully_shard(Net(), mesh=init_device_mesh("cpu", (2,)))


def tensor_parallel():
    model, mesh = Net(), init_device_mesh("cpu", (2,))
    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


MODELS = (data_parallel, fully_sharded, tensor_parallel)


def train(name, directory):
    make = {model.__name__: model for model in MODELS}[name]
    return compare(make, cache=directory, is_data_parallel=name != "tensor_parallel", steps=2)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_equal_graphs_are_compiled_once_by_all_ranks(pair, tmp_path, model):
    known = set()
    for _ in range(2):
        first, second = (
            [(stage, key, cache) for stage, key, cache in told if stage != "joint"]
            for told in pair.run(train, model.__name__, str(tmp_path))
        )
        assert [told[:2] for told in first] == [told[:2] for told in second]
        assert all(key for _, key, _ in first)
        outcomes = Counter(cache for _, _, cache in first + second)
        keys = {key for _, key, _ in first}
        assert outcomes["miss"] == len(keys - known)
        assert outcomes["hit"] == len(first + second) - outcomes["miss"]
        # Of the equal meshes of its inputs torch returns one or another.
        assert not known or keys == known or model is tensor_parallel
        known |= keys


def different(directory):
    """Other arithmetic on each rank around the same collectives, in another order of compiling."""
    backend = XpuGraph(XpuGraphConfig(opt_level="level2"), XpuGraphLocalCache(directory))
    rank = dist.get_rank()

    def one(x):
        return funcol.all_reduce(x * (2 + dist.get_rank()), "sum", dist.group.WORLD)

    def two(x):
        return x.sin() + 1

    def three(x):
        return x.cos() - 1

    x = torch.ones(3)
    order = (two, three) if rank == 0 else (three, two)
    locally = [torch.compile(f, backend=backend, fullgraph=True)(x) for f in order]
    torch.testing.assert_close(locally, [f(x) for f in order])
    summed = torch.compile(one, backend=backend, fullgraph=True)(x)
    torch.testing.assert_close(summed, torch.full((3,), 5.0))
    return [(g.key, g.cache) for report in backend.reports for g in report.graphs]


def test_graphs_that_differ_have_keys_of_their_own(pair, tmp_path):
    first, second = pair.run(different, str(tmp_path))
    assert {key for key, _ in first[:2]} == {key for key, _ in second[:2]}
    assert first[2][0] != second[2][0]
    assert first[2][1] == second[2][1] == "miss"
    assert Counter(cache for _, cache in first + second)["miss"] == 4


def subgroups(directory):
    """A group for each rank: its name is in the graph, so the graphs are not equal."""
    backend = XpuGraph(XpuGraphConfig(), XpuGraphLocalCache(directory))
    groups = [dist.new_group([0]), dist.new_group([1])]
    mine = groups[dist.get_rank()]

    def reduced(x):
        return funcol.all_reduce(x * 1, "sum", mine)

    x = torch.full((3,), float(dist.get_rank()))
    torch.testing.assert_close(torch.compile(reduced, backend=backend, fullgraph=True)(x), x)
    return backend.reports[-1].graphs[0].key


def test_other_groups_are_other_graphs(pair, tmp_path):
    first, second = pair.run(subgroups, str(tmp_path))
    assert first and second and first != second


# --- frozen parameters ---------------------------------------------------------------------------


class Folded(torch.nn.Module):
    """What depends on its weight alone is computed once where it is frozen."""

    def __init__(self, width=64):
        super().__init__()
        self.layer = torch.nn.Linear(width, width, bias=False)

    def forward(self, x):
        return torch.nn.functional.linear(x, self.layer.weight.tanh())


def gathered_weights():
    """FSDP gathers new values into one object of one version, often at one address."""
    mesh = init_device_mesh("cpu", (2,))
    backend = XpuGraph(XpuGraphConfig(freeze=True, enable_cache=False))
    x = torch.randn(4, 64)
    sides = []
    for is_compiled in (True, False):
        torch.manual_seed(0)
        model = fully_shard(Folded(), mesh=mesh, reshard_after_forward=True)
        call = torch.compile(model, backend=backend) if is_compiled else model
        seen = []
        for _ in range(8):
            with torch.no_grad():
                seen.append(call(x).clone())
                model.reshard()
                for parameter in model.parameters():
                    parameter.mul_(1.3)
        sides.append(seen)
    torch.testing.assert_close(*sides)
    return [note for report in backend.reports for note in report.graphs[0].notes]


def test_gathered_weights_are_not_folded(pair):
    for notes in pair.run(gathered_weights):
        assert any("FSDP" in note for note in notes)


def weights_in_pieces():
    """Where Dynamo cuts the graph for DDP, the backend is handed parameters without values."""
    model = DistributedDataParallel(Wide(), bucket_cap_mb=1)
    backend = XpuGraph(XpuGraphConfig(freeze=True, enable_cache=False))
    compiled = torch.compile(model, backend=backend)
    x = torch.randn(2, 16)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(x), model(x))
            for parameter in model.parameters():
                parameter.mul_(1.1)
    return len(backend.reports)


def test_frozen_pieces_follow_their_weights(pair):
    assert min(pair.run(weights_in_pieces)) > 1


def broadcast_weights():
    """Collectives that write to a tensor leave its version as it is: that is what refold is for."""
    torch.manual_seed(dist.get_rank())
    model = Folded()
    backend = XpuGraph(XpuGraphConfig(freeze=True, enable_cache=False))
    compiled = torch.compile(model, backend=backend)
    x = torch.ones(2, 64)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))
        dist.broadcast(model.layer.weight, 0)
        backend.refold()
        torch.testing.assert_close(compiled(x), model(x))


def test_refold_after_a_broadcast(pair):
    pair.run(broadcast_weights)
