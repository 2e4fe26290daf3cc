"""Data parallel, sharded and tensor parallel training on two processes gives eager's numbers."""

import pytest
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.training import Net, Wide, compare
from xpu_graph import XpuGraph, XpuGraphConfig
from xpu_graph.backends.inductor import why_not_cpp
from xpu_graph.testing import assert_same

needs_cpp = pytest.mark.skipif(why_not_cpp() is not None, reason=str(why_not_cpp()))


def stages(told):
    return [stage for stage, _, _ in told]


TRAINED = ["joint", "forward", "backward"]

# --- DistributedDataParallel ------------------------------------------------------------------


def data_parallel(settings, unused, optimiser):
    return compare(
        lambda: DistributedDataParallel(Net(unused=unused), **settings), optimiser=optimiser
    )


def split_data_parallel(settings, unused):
    return compare(
        lambda: DistributedDataParallel(Wide(unused=unused), bucket_cap_mb=1, **settings)
    )


DDP = {
    "plain": ({}, False),
    "static graph": ({"static_graph": True}, False),
    "unused parameters": ({"find_unused_parameters": True}, True),
    "bucket views": ({"gradient_as_bucket_view": True}, False),
}


@pytest.mark.parametrize(
    ("name", "optimiser"),
    [(name, "sgd") for name in DDP] + [("plain", "adamw"), ("static graph", "adamw")],
)
def test_data_parallel(pair, name, optimiser):
    for told in pair.run(data_parallel, *DDP[name], optimiser):
        assert stages(told) == TRAINED


@pytest.mark.parametrize(("settings", "unused"), DDP.values(), ids=DDP)
def test_data_parallel_in_pieces(pair, settings, unused):
    """Dynamo's DDPOptimizer cuts the graph where a bucket is full, so that it is sent early."""
    for told in pair.run(split_data_parallel, settings, unused):
        assert stages(told) == TRAINED * 3


def compiled_inside():
    def compiler(model, backend):
        model.module.compile(backend=backend)
        return model

    return compare(lambda: DistributedDataParallel(Net()), compiler=compiler)


def test_data_parallel_around_a_compiled_model(pair):
    for told in pair.run(compiled_inside):
        assert stages(told) == TRAINED


def reduced_by_python():
    """One graph; hooks of DDP reduce each gradient, and compiled autograd traces them, too."""
    backward = XpuGraph(XpuGraphConfig(opt_level="level2", enable_cache=False))

    def autograd():
        compiled = torch._dynamo.compiled_autograd
        return compiled._enable(lambda gm: torch.compile(gm, backend=backward))

    with torch._dynamo.config.patch(optimize_ddp="python_reducer"):
        plain = compare(lambda: DistributedDataParallel(Net()))
        torch._dynamo.reset()
        traced = compare(lambda: DistributedDataParallel(Net()), around=autograd)
    calls = [dict(graph.before) for report in backward.reports for graph in report.graphs]
    return stages(plain), stages(traced), calls


def test_data_parallel_with_the_python_reducer(pair):
    for plain, traced, (calls,) in pair.run(reduced_by_python):
        assert plain == TRAINED
        assert traced == TRAINED[:2]
        assert calls["_c10d_functional.all_reduce.default"] == len([*Net().parameters()])


def small_buckets(backend):
    model = DistributedDataParallel(Net(), bucket_cap_mb=0.01)
    backend = backend or XpuGraph()
    try:
        torch.compile(model, backend=backend)(torch.ones(2, 16))
    except AssertionError as error:
        return str(error)
    return None


@pytest.mark.parametrize("backend", (None, "aot_eager"), ids=("ours", "torch's"))
def test_buckets_below_torchs_first_are_torchs_error(pair, backend):
    for said in pair.run(small_buckets, backend):
        assert "First bucket" in said


# --- FSDP2 ------------------------------------------------------------------------------------


def sharded(**settings):
    mesh = init_device_mesh("cpu", (2,))
    model = Net()
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **settings)
    return fully_shard(model, mesh=mesh, **settings)


def fully_sharded(optimiser, reshard):
    return compare(lambda: sharded(reshard_after_forward=reshard), optimiser=optimiser)


@pytest.mark.parametrize(
    ("optimiser", "reshard"),
    [("sgd", True), ("adamw", True), ("adamw", False)],
    ids=("sgd", "adamw", "gathered parameters kept"),
)
def test_fully_sharded(pair, optimiser, reshard):
    for told in pair.run(fully_sharded, optimiser, reshard):
        assert set(stages(told)) == set(TRAINED)


def in_bfloat16():
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return compare(lambda: sharded(mp_policy=policy), rtol=2e-2, atol=2e-3)


def test_fully_sharded_in_bfloat16(pair):
    for told in pair.run(in_bfloat16):
        assert set(stages(told)) == set(TRAINED)


def compiled_blocks():
    def compiler(model, backend):
        for block in model.blocks:
            block.compile(backend=backend)
        return model

    return compare(sharded, compiler=compiler)


def test_blocks_compiled_one_by_one(pair):
    for told in pair.run(compiled_blocks):
        assert set(stages(told)) == set(TRAINED)


# --- tensor parallel --------------------------------------------------------------------------

PLANS = {
    "columns and rows": lambda: {"up": ColwiseParallel(), "down": RowwiseParallel()},
    "distributed between": lambda: {  # DTensors between the layers: their inputs and outputs
        "up": ColwiseParallel(use_local_output=False),
        "down": RowwiseParallel(input_layouts=Shard(-1), output_layouts=Replicate()),
    },
    "rows between the blocks": lambda: {  # gathered before a block, scattered after it
        "up": ColwiseParallel(input_layouts=Shard(0)),
        "down": RowwiseParallel(output_layouts=Shard(0)),
    },
}


def tensor_parallel(plan, optimiser):
    def make():
        model = Net()
        mesh = init_device_mesh("cpu", (2,))
        for block in model.blocks:
            parallelize_module(block, mesh, PLANS[plan]())
        return model

    has_own_rows = plan == "rows between the blocks"
    return compare(make, optimiser=optimiser, is_data_parallel=has_own_rows)


@pytest.mark.parametrize(
    ("plan", "optimiser"), [(plan, "sgd") for plan in PLANS] + [("columns and rows", "adamw")]
)
def test_tensor_parallel(pair, plan, optimiser):
    for told in pair.run(tensor_parallel, plan, optimiser):
        assert stages(told) == TRAINED


def two_layers():
    """Little to compile, and all that there is of tensor parallel: a reduction each way."""
    plan = {"enter": ColwiseParallel(), "head": RowwiseParallel()}
    return compare(
        lambda: parallelize_module(Net(blocks=0), init_device_mesh("cpu", (2,)), plan),
        is_data_parallel=False,
        fields={"target": "cpu", "vendor_compiler_config": {}},
    )


@needs_cpp
def test_tensor_parallel_with_inductor(pair):
    for told in pair.run(two_layers):
        assert stages(told) == TRAINED


def distributed_arguments():
    """A function of DTensors that gives DTensors."""
    from torch.distributed.tensor import distribute_tensor

    mesh = init_device_mesh("cpu", (2,))

    def function(x, w):
        y = (x @ w).relu() * 1
        return y.redistribute(placements=[Replicate()]), y.sum(), y

    sides = []
    for call in (torch.compile(function, backend=XpuGraph(), fullgraph=True), function):
        torch.manual_seed(0)
        x = distribute_tensor(torch.randn(6, 8), mesh, [Shard(0)])
        w = distribute_tensor(torch.randn(8, 5), mesh, [Replicate()]).requires_grad_()
        out = call(x, w)
        assert all(isinstance(o, DTensor) for o in out)
        loss = sum(o.square().sum() for o in out)
        loss.full_tensor().backward()
        where = [str(o.placements) for o in out]
        sides.append(([o.detach().to_local() for o in out], where, w.grad.full_tensor()))
    assert_same(*sides, bitwise=False, rtol=1e-5, atol=1e-6)


def test_functions_of_distributed_tensors(pair):
    pair.run(distributed_arguments)
