"""The simulated graph engine, behind torchair's max-autotune mode, against the CPU."""

import os
import subprocess

import ascend_sim
import pytest
import torch
import torch.nn.functional as F
import torchair
from aclnn_cases import Maker
from ascend_sim import ge
from ge_calls import assert_same, compiled
from ge_cases import CASES, NO_CONVERTER
from programs import bare_vendor, on_npu

TOLERANCES = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    ge.forget()


def assert_case(case, dtype, dynamic):
    here = case.inputs(Maker(getattr(torch, dtype)))
    there = [on_npu(value) for value in here]
    expected = case.call(*here)
    actual = compiled(case.call, dynamic)(*there)
    assert_same(actual, expected, TOLERANCES[dtype])
    assert_same(there, here, TOLERANCES[dtype])  # written where, and only where, the CPU writes
    assert ge.last_graphs()[-1]["runs"] == 1


@pytest.mark.parametrize("name", CASES, ids=str)
def test_operator(name):
    assert_case(CASES[name], "float32", dynamic=False)
    torch._dynamo.reset()
    assert_case(CASES[name], "float16", dynamic=False)


@pytest.mark.parametrize("name", CASES, ids=str)
def test_operator_dynamic(name):
    assert_case(CASES[name], "bfloat16", dynamic=True)


def weighted(x, w):
    return torch.relu(x @ w)


def test_static_and_dynamic_graphs(monkeypatch):
    x, w = torch.randn(3, 4, device="npu"), torch.randn(4, 5, device="npu")
    static = compiled(weighted)
    assert_same(static(x, w), weighted(x.cpu(), w.cpu()), 1e-4)
    monkeypatch.setenv("ASCEND_SIM_GE_DYNAMIC", "1")
    torch._dynamo.reset()
    assert_same(compiled(weighted)(x, w), weighted(x.cpu(), w.cpu()), 1e-4)
    torch._dynamo.reset()
    dynamic = compiled(weighted, dynamic=True)
    for rows in (3, 7, 0):
        x = torch.randn(rows, 4, device="npu")
        assert_same(dynamic(x, w), weighted(x.cpu(), w.cpu()), 1e-4)
    first, forced, last, *_ = ge.last_graphs()
    assert (first["static"], forced["static"], last["static"]) == (True, False, False)
    assert last["runs"] >= 2


def test_report_and_trace(tmp_path, monkeypatch):
    monkeypatch.setenv("ASCEND_SIM_GE_DUMP", str(tmp_path))
    call = compiled(weighted)
    inputs = torch.randn(3, 4, device="npu"), torch.randn(4, 5, device="npu")
    call(*inputs)
    with ascend_sim.trace() as lines:
        call(*inputs)
    (graph,) = ge.last_graphs()
    assert graph["ops"] == ["Data", "Data", "MatMul", "Relu"]
    assert [value["shape"] for value in graph["inputs"]] == [[3, 4], [4, 5]]
    assert [value["dtype"] for value in graph["outputs"]] == ["Float"]
    assert graph["options"]["mode"] == "max-autotune"
    assert ge.initialised()["ge.exec.deviceId"] == "0"
    assert ge.session()["ge.session_device_id"] == "0"
    assert f"ge:{graph['name']}" in lines
    assert [path.stem for path in tmp_path.iterdir()] == [graph["name"]]


def test_outputs_do_not_leak():
    call = compiled(weighted, dynamic=True)
    inputs = torch.randn(64, 64, device="npu"), torch.randn(64, 64, device="npu")
    call(*inputs)
    free = torch.npu.mem_get_info()[0]
    for _ in range(5):
        call(*inputs)
    assert torch.npu.mem_get_info()[0] == free


def test_an_output_lives_on():
    call = compiled(weighted, dynamic=True)
    x, w = torch.randn(3, 4, device="npu"), torch.randn(4, 5, device="npu")
    first = call(x, w)
    call(x + 1, w)
    torch._dynamo.reset()
    assert_same(first, weighted(x.cpu(), w.cpu()), 1e-4)


def test_written_input_beside_its_old_value():
    def swap(x, y):
        old = x.clone()
        x.copy_(y)
        return old, x * 2

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    there = on_npu(x)
    old, doubled = compiled(swap)(there, on_npu(y))
    assert_same((old, doubled, there), (x, y * 2, y), 0)


def test_reference_data():
    def accumulate(total, x):
        total.copy_(total + x)
        return total * 2

    call = compiled(accumulate, experimental_config__enable_ref_data=True)
    total, x = torch.zeros(3, device="npu"), torch.ones(3, device="npu")
    assert [call(total, x)[0].item() for _ in range(3)] == [2, 4, 6]
    assert "RefData" in ge.last_graphs()[0]["ops"]


@pytest.mark.parametrize("name", NO_CONVERTER, ids=str)
def test_no_converter(name):
    case = NO_CONVERTER[name]
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        compiled(case.call)(*[on_npu(value) for value in case.inputs(Maker(torch.float32))])
    assert isinstance(caught.value.inner_exception, NotImplementedError)
    text = str(caught.value.inner_exception)
    assert text.startswith(f"torch.ops.{name} ge_converter is not implemented!")


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_unknown_operator(dynamic):
    inputs = torch.randn(1, 1, 4, 4, device="npu"), torch.randn(1, 2, 2, 2, device="npu")
    with pytest.raises(RuntimeError) as caught:
        compiled(lambda x, grid: F.grid_sample(x, grid, align_corners=False), dynamic)(*inputs)
    for part in ("operator GridSampler2D(", "grid=Float[1, 2, 2, 2]", "of node GridSampler2D"):
        assert part in str(caught.value)
    assert ge.last_graphs()[0]["static"] is None


def test_failure_of_a_run():
    """Zeros are legal indices, so it compiles; the run names the operator."""
    call = compiled(F.embedding)
    with pytest.raises(RuntimeError) as caught:
        call(torch.tensor([1, 7], device="npu"), torch.randn(3, 4, device="npu"))
    assert "GatherV2(x=Float[3, 4], indices=Long[2]" in str(caught.value)


def test_injected_failure():
    call = compiled(weighted)
    inputs = torch.randn(3, 4, device="npu"), torch.randn(4, 5, device="npu")
    call(*inputs)
    with (
        ascend_sim.failing("ge:" + ge.last_graphs()[0]["name"]),
        pytest.raises(RuntimeError, match="a test asked for it"),
    ):
        call(*inputs)
    assert_same(call(*inputs), weighted(*(value.cpu() for value in inputs)), 1e-4)


def geared(rows):
    value = torch.randn(rows, 4, device="npu")
    torchair.inference.set_dim_gears(value, {0: [2, 4]})
    return value


def test_gears():
    call, w = compiled(weighted, dynamic=True), torch.randn(4, 5, device="npu")
    for rows in (2, 4, 2):
        x = geared(rows)
        assert_same(call(x, w), weighted(x.cpu(), w.cpu()), 1e-4)
    (graph,) = ge.last_graphs()
    assert graph["options"]["ge.dynamicDims"] == "2;4"
    assert graph["options"]["ge.dynamicNodeType"] == "1"


def test_artifact():
    inputs = torch.randn(3, 4, device="npu"), torch.randn(4, 5, device="npu")
    graph = bare_vendor(weighted, *inputs, mode="max-autotune")
    loaded = type(graph).load_artifacts(graph.dump_artifacts())
    (result,) = loaded(*inputs)
    assert_same(result, weighted(*(value.cpu() for value in inputs)), 1e-4)


PROGRAM = """
import torch, torchair
config = torchair.CompilerConfig()
config.ge_config.enable_single_stream = True
call = torch.compile(torch.relu, backend=torchair.get_npu_backend(compiler_config=config))
with torch.no_grad():
    call(torch.ones(3, device="npu"))
from ascend_sim import ge
assert ge.initialised()["ge.enableSingleStream"] == "true", ge.initialised()
"""


def test_global_options_of_another_process():
    """They are fixed for a process, so one of its own shows that they arrive."""
    done = subprocess.run(
        ascend_sim.command("-c", PROGRAM),
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
