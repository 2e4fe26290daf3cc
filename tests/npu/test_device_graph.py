"""Captured device graphs with the real ``torch.npu``: its allocator, its captures, its refusals."""

import pathlib
import subprocess
import threading

import ascend_sim
import pytest
import torch
from programs import assert_same_numbers, backend, compiled, on_npu

from xpu_graph import Target
from xpu_graph.artifact import SerializableArtifact
from xpu_graph.backends.device_graph import (
    DeviceGraphOptions,
    GraphRunner,
    device_graph_compiler,
)
from xpu_graph.errors import BackendError
from xpu_graph.testing import capture


def direct(function, *inputs, static=(), **options):
    """The artifact of a function of one or more tensors, which Dynamo takes in this order."""
    with torch.no_grad():
        (unit,) = capture(function, *inputs)
    return device_graph_compiler(
        unit.gm,
        unit.fake_inputs,
        device_type="npu",
        static_inputs=static,
        options=DeviceGraphOptions(**options),
    )


def squares(seed, count=2):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(4, 4, generator=generator) for _ in range(count)]


def matmul(x, w):
    return (torch.relu(x @ w) + 1,)


def writes(x, w):
    y = x + w
    x.add_(1)
    return (y * x,)


def views(x, w):
    y = x * w
    return x.t(), y.view(-1), y, w.view(2, 8)


def through_the_cpu(x, w):
    scale = (x + w).cpu().sum()
    return (x * scale.to(x.device) + w,)


def reads(x, w):
    return (x * (w + 1).sum().item() + w,)


def beyond_a_base(x, w):
    return (x.as_strided((2, 2), (2, 1), 1) + 1, x * w)


PROGRAMS = [
    pytest.param(function, id=function.__name__)
    for function in (matmul, writes, views, through_the_cpu, reads, beyond_a_base)
]


@pytest.mark.parametrize("clone_output", [False, True], ids=["aliases", "clones"])
@pytest.mark.parametrize("function", PROGRAMS)
def test_like_the_cpu_at_every_call(function, clone_output):
    run = compiled(function, "device_graph", clone_output=clone_output)
    for seed in (0, 1, 0):
        inputs = squares(seed)
        mine = [on_npu(value) for value in inputs]
        got = run(*mine)
        want = function(*inputs)
        assert_same_numbers(got, want)
        assert_same_numbers(mine, inputs)


def test_what_is_launched():
    artifact = direct(matmul, *map(on_npu, squares(0)))
    x, w = map(on_npu, squares(1))
    with ascend_sim.trace() as first:
        artifact(x, w)
    assert first.count("replay") == 1
    assert [line for line in first if line.startswith("record")] == [
        "record aclnnMatmul",
        "record aclnnRelu",
        "record aclnnAdds",
    ]
    with ascend_sim.trace() as second:
        artifact(x, w)
    assert [line for line in second if "Copy" not in line] == ["replay"]


def test_a_static_input_is_not_copied():
    artifact = direct(matmul, *map(on_npu, squares(0)), static=[0, 1])
    x, w = map(on_npu, squares(1))
    artifact(x, w)
    with ascend_sim.trace() as lines:
        artifact(x, w)
    assert lines == ["replay"]
    moved = x.clone()
    assert_same_numbers(artifact(moved, w), matmul(x.cpu(), w.cpu()))
    assert artifact.counts.recaptured == {"moved": 1}


def test_a_cache_is_written_once_a_call():
    def step(cache, value):
        cache.add_(value)
        return (cache.sum(),)

    run = compiled(step, "device_graph")
    cache, value = torch.zeros(4).npu(), torch.ones(4).npu()
    for count in (1, 2, 3):
        (total,) = run(cache, value)
        assert (cache.cpu().tolist(), total.item()) == ([float(count)] * 4, 4.0 * count)
    other = torch.zeros(4).npu()
    run(other, value)
    assert other.cpu().tolist() == [1.0] * 4
    assert cache.cpu().tolist() == [3.0] * 4


def test_random_calls_stay_outside():
    def function(x):
        return (torch.rand_like(x) + x * 2,)

    artifact = direct(function, torch.zeros(64).npu())
    assert [step.captured for step in artifact.plan.steps] == [False, True]
    (first,), (second,) = (tuple(t.cpu() for t in artifact(torch.zeros(64).npu())) for _ in "12")
    assert not torch.equal(first, second)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda k: (torch.arange(12.0) + k).view(4, 3).t(), id="transposed"),
        pytest.param(lambda k: (torch.arange(3.0) + k).expand(4, 3), id="expanded"),
        pytest.param(lambda k: (torch.arange(40.0) + k)[5:29].view(4, 6)[:, ::2], id="gaps"),
        pytest.param(lambda k: torch.zeros(0, 3), id="empty"),
        pytest.param(lambda k: torch.tensor(float(k)), id="no_dimension"),
        pytest.param(lambda k: torch.arange(6).view(2, 3) + k, id="integers"),
    ],
)
def test_layouts_of_inputs(make):
    def function(x):
        return x * 2, x.sum()

    base = [make(k) for k in range(3)]

    def placed(value):
        span = torch.zeros(64, dtype=value.dtype).npu()
        there = span.as_strided(value.shape, value.stride(), 7)
        if 0 in value.stride():
            there[:1].copy_(value[:1])
        else:
            there.copy_(value)
        return there

    artifact = direct(function, placed(base[0]))
    for value in base:
        assert_same_numbers(artifact(placed(value)), function(value))
    assert artifact.counts.captured == 1


def test_dynamic_shapes():
    def function(x):
        return (x.view(-1, 2) * x.shape[0],)

    run = compiled(function, "device_graph", dynamic=True)
    for size in (3, 5, 3, 4):
        x = torch.randn(size, 2)
        assert_same_numbers(run(x.npu()), function(x))


def test_capture_limit_frees_all():
    def function(x):
        return (x * 2,)

    with torch.no_grad():
        (unit,) = capture(function, torch.ones(3).npu(), dynamic=True)
    artifact = device_graph_compiler(
        unit.gm, unit.fake_inputs, device_type="npu", options=DeviceGraphOptions(capture_limit=2)
    )
    for size in (2, 3, 4, 2):
        (got,) = artifact(size, torch.ones(size).npu())
        assert got.cpu().tolist() == [2.0] * size
    assert (artifact.counts.captured, artifact.counts.fallback) == (2, {"capture_limit": 2})


def test_force_recapture():
    artifact = direct(matmul, *map(on_npu, squares(0)), force_recapture=True, capture_limit=1)
    for seed in (0, 1, 2):
        inputs = squares(seed)
        assert_same_numbers(artifact(*map(on_npu, inputs)), matmul(*inputs))
    assert artifact.counts.recaptured == {"force_recapture": 2}


def test_one_pool_has_one_stream_and_reuses_its_blocks():
    def function(x, w):
        return ((x * w).sum(),)

    big = [torch.ones(1024, 4096).npu() for _ in range(2)]

    def reserved_by(**options):
        torch.npu.empty_cache()
        before = torch.npu.memory_reserved()
        artifacts = [direct(function, *big, static=[0, 1], **options) for _ in range(3)]
        for artifact in artifacts:
            artifact(*big)
        torch.npu.empty_cache()
        return torch.npu.memory_reserved() - before

    shared = reserved_by(use_graph_pool=torch.npu.graph_pool_handle())
    assert shared * 2 < reserved_by()


def test_a_failed_capture_names_the_operator_and_spoils_nothing():
    artifact = direct(matmul, *map(on_npu, squares(0)))
    inputs = squares(1)
    x, w = map(on_npu, inputs)

    class Reads(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if func is torch.ops.aten.relu.default:
                result.cpu()
            return result

    stream = torch.npu.current_stream()
    for _ in range(2):
        with Reads(), pytest.raises(BackendError, match=r"aten\.relu\.default .*test_device_graph"):
            artifact(x, w)
        assert torch.npu.current_stream() == stream
        assert not torch.npu.is_current_stream_capturing()
    assert artifact.counts.captured == 0
    assert_same_numbers(torch.relu(x), torch.relu(inputs[0]))
    assert_same_numbers(artifact(x, w), matmul(*inputs))


def test_a_call_inside_a_foreign_capture():
    artifact = direct(matmul, *map(on_npu, squares(0)))
    inputs = squares(1)
    x, w = map(on_npu, inputs)
    graph = torch.npu.NPUGraph()
    with torch.no_grad(), torch.npu.graph(graph):
        (got,) = artifact(x, w)
    graph.replay()
    assert artifact.counts.fallback == {"nested capture": 1}
    assert_same_numbers(got, matmul(*inputs)[0])
    assert_same_numbers(artifact(x, w), matmul(*inputs))


def test_streams_and_threads():
    # The default mode fails where another thread synchronises, as the copies below do.
    artifact = direct(
        matmul, *map(on_npu, squares(0)), clone_output=True, capture_error_mode="thread_local"
    )
    failures = []

    def work(seed):
        try:
            stream = torch.npu.Stream()
            inputs = squares(seed)
            with torch.npu.stream(stream), torch.no_grad():
                for _ in range(3):
                    got = artifact(*map(on_npu, inputs))
                    assert_same_numbers(got, matmul(*inputs))
        except Exception as error:  # told to the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert artifact.counts.captured == 1


LOADER = """
import sys, torch
import xpu_graph.backends.device_graph
from xpu_graph.artifact import SerializableArtifact
artifact = SerializableArtifact.rebuild_from_bytes(open(sys.argv[1], "rb").read())
for k in range(2):
    x, w = torch.full((4, 4), float(k)).npu(), torch.ones(4, 4).npu()
    (got,) = artifact(x, w)
    print("RESULT", got.cpu()[0, 0].item(), artifact.counts.captured)
"""


def test_a_new_process_captures_again(tmp_path):
    artifact = direct(matmul, *map(on_npu, squares(0)))
    stored, script = tmp_path / "artifact", tmp_path / "load.py"
    stored.write_bytes(artifact.convert_to_bytes())
    script.write_text(LOADER)
    assert isinstance(SerializableArtifact.rebuild_from_bytes(stored.read_bytes()), type(artifact))
    told = subprocess.run(
        ascend_sim.command(str(script), str(stored)), capture_output=True, text=True, check=False
    )
    results = [line for line in told.stdout.splitlines() if line.startswith("RESULT")]
    assert results == ["RESULT 1.0 1", "RESULT 5.0 1"], told.stderr


def test_the_whole_way_with_a_model_and_the_cache(tmp_path):
    from xpu_graph import XpuGraphLocalCache

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    model.eval()
    x = torch.randn(3, 4)
    want = model(x).detach()
    model.npu()
    for expected in ("miss", "hit"):
        made = backend("device_graph", cache=XpuGraphLocalCache(tmp_path))
        torch._dynamo.reset()
        with torch.no_grad():
            run = torch.compile(model, backend=made)
            for _ in range(2):
                assert_same_numbers(run(x.npu()), want)
        (graph,) = made.reports[-1].graphs
        assert expected in graph.cache


def test_runner():
    runner = GraphRunner[Target.npu](
        lambda x, w: torch.relu(x @ w),
        lambda x, w: [x, w],
        lambda buffers, x, w: all(b.copy_(v) is b for b, v in zip(buffers, (x, w), strict=True)),
    )
    runner.capture(*map(on_npu, squares(0)), clone_args=True)
    for seed in (1, 2):
        x, w = squares(seed)
        assert_same_numbers(runner(x.npu(), w.npu()), torch.relu(x @ w))
    twin = runner.clone()
    twin.capture(*map(on_npu, squares(0)), memory_pool=runner.mempool)
    assert twin.mempool == runner.mempool
    with pytest.raises(BackendError, match="holds a capture"):
        runner.capture(*map(on_npu, squares(0)))
    runner.reset().capture(*map(on_npu, squares(3)))


def test_debug_dump(tmp_path):
    artifact = direct(matmul, *map(on_npu, squares(0)))
    artifact(*map(on_npu, squares(0)))
    (path,) = artifact.debug_dump(f"{tmp_path}/")
    assert "aclnnMatmul" in pathlib.Path(path).read_text()
