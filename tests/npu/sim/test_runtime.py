"""The simulated runtime: devices, memory, copies, streams and events, and what is not simulated."""

import ctypes
import gc
import os
import subprocess
import textwrap

import ascend_sim
import pytest
import torch

POISON = 0xCB
MIB = 1 << 20


@pytest.fixture
def acl():
    """The library itself; it is found by its name, as the vendor's code finds it."""
    library = ctypes.CDLL("libascendcl.so")
    library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    return library


def handle(stream):
    return ctypes.c_void_p(stream.npu_stream)


def run_program(*arguments, **environment):
    """What a program on the simulator prints, by line."""
    done = subprocess.run(
        ascend_sim.command(*arguments),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


# --- devices --------------------------------------------------------------------------------


def test_what_the_device_is():
    assert torch.npu.device_count() == 2
    assert torch.npu.get_device_name(0) == "Ascend910B1"
    properties = torch.npu.get_device_properties(0)
    assert (properties.cube_core_num, properties.vector_core_num) == (24, 48)
    assert torch.npu.get_device_properties(1).uuid != properties.uuid
    assert torch.npu.is_bf16_supported()


def test_devices_and_memory_of_the_environment(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys, torch
            torch.empty(48 << 20, dtype=torch.uint8, device="npu:2")
            try:
                torch.empty(80 << 20, dtype=torch.uint8, device="npu:2")
            except torch.OutOfMemoryError:
                print(torch.npu.device_count(), torch.npu.mem_get_info(2)[1] >> 20, sys.argv[1:])
            """
        )
    )
    printed = run_program(
        str(script), "an argument", ASCEND_SIM_DEVICES="3", ASCEND_SIM_MEMORY=str(64 * MIB)
    )
    assert printed[-1] == "3 64 ['an argument']"


def test_a_device_that_is_not_there(acl):
    with pytest.raises(RuntimeError, match="107001"):
        torch.zeros(1, device="npu:2")
    assert acl.aclrtSetDevice(2) == 107001
    assert acl.aclGetRecentErrMsg() == b"there is no device 2"


def test_tensors_live_on_their_device():
    x = torch.arange(4.0, device="npu:1")
    assert (x + 1).device == torch.device("npu:1")
    assert x.to("npu:0").cpu().tolist() == [0.0, 1.0, 2.0, 3.0]


# --- memory ---------------------------------------------------------------------------------


def test_fresh_memory_holds_no_zeros():
    torch.npu.empty_cache()
    block = torch.empty(8 * MIB, dtype=torch.uint8, device="npu")
    assert block.cpu().eq(POISON).all()


def test_reused_memory_of_the_device_holds_no_old_values():
    torch.full((8 * MIB,), 7, dtype=torch.uint8, device="npu")
    torch.npu.empty_cache()
    block = torch.empty(8 * MIB, dtype=torch.uint8, device="npu")
    assert block.cpu().eq(POISON).all()


def test_memory_is_counted():
    gc.collect()  # earlier tests left nothing that could go meanwhile
    torch.npu.empty_cache()
    (before, total), reserved = torch.npu.mem_get_info(), torch.npu.memory_reserved()
    block = torch.empty(64 * MIB, dtype=torch.uint8, device="npu")
    taken = torch.npu.memory_reserved() - reserved
    assert before - torch.npu.mem_get_info()[0] == taken >= 64 * MIB
    del block
    torch.npu.empty_cache()
    assert torch.npu.mem_get_info() == (before, total)


def test_out_of_memory():
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(torch.npu.mem_get_info()[1] + 1, dtype=torch.uint8, device="npu")
    assert torch.ones(2).npu().cpu().tolist() == [1.0, 1.0]


def test_a_pointer_that_is_no_block(acl):
    assert acl.aclrtFree(ctypes.c_void_p(4096)) == 107000


def test_where_a_pointer_points(acl):
    attributes = (ctypes.c_uint32 * 8)()
    device = torch.empty(MIB, dtype=torch.uint8, device="npu:1")
    for pointer, expected in (
        (device.data_ptr() + 5, [1, 1]),
        (torch.empty(16).data_ptr(), [0, 2]),
    ):
        assert acl.aclrtPointerGetAttributes(ctypes.c_void_p(pointer), attributes) == 0
        assert attributes[:2] == expected


# --- copies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bool, torch.int64], ids=str)
@pytest.mark.parametrize("non_blocking", [False, True], ids=["blocking", "non_blocking"])
def test_there_and_back(dtype, non_blocking):
    x = torch.arange(12).reshape(3, 4).remainder(5).to(dtype)
    there = x.pin_memory().to("npu", non_blocking=non_blocking)
    assert torch.equal(there.t().to("cpu"), x.t())


def test_a_copy_larger_than_its_target(acl):
    x = torch.zeros(4, device="npu")
    source = torch.ones(4)
    target, origin = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (x, source))
    assert acl.aclrtMemcpy(target, ctypes.c_size_t(8), origin, ctypes.c_size_t(16), 1) == 107000
    assert x.cpu().tolist() == [0.0] * 4


# --- streams and events -----------------------------------------------------------------------


def test_streams_and_events_are_done_at_once():
    stream = torch.npu.Stream()
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record(stream)
    end.record(stream)
    torch.npu.current_stream().wait_event(end)
    stream.synchronize()
    torch.npu.synchronize()
    assert stream.query()
    assert end.query()
    assert start.elapsed_time(end) >= 0


def test_host_functions_run_in_order(acl):
    order = []
    functions = [
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _, i=i: order.append(i)) for i in range(2)
    ]
    stream = torch.npu.Stream()
    for function in functions:
        assert acl.aclrtLaunchHostFunc(handle(stream), function, None) == 0
    assert order == [0, 1]


def test_an_external_event_holds_a_stream_up():
    event, waiting, other = torch.npu.ExternalEvent(), torch.npu.Stream(), torch.npu.Stream()
    x = torch.zeros(2, device="npu")
    event.wait(waiting)
    with torch.npu.stream(waiting):
        x.add_(1)
    behind = torch.npu.Event()
    behind.record(waiting)
    assert not waiting.query()
    assert not behind.query()
    assert x.cpu().tolist() == [0.0, 0.0]
    event.record(other)
    assert waiting.query()
    assert behind.query()
    assert x.cpu().tolist() == [1.0, 1.0]


def test_a_stream_that_waits_for_a_held_up_stream():
    event = torch.npu.ExternalEvent()
    first, second, third = (torch.npu.Stream() for _ in range(3))
    event.wait(first)
    second.wait_stream(first)
    assert not second.query()
    event.record(third)
    assert second.query()


def test_a_wait_that_nothing_ends():
    stream = torch.npu.Stream()
    torch.npu.ExternalEvent().wait(stream)
    with pytest.raises(RuntimeError, match="507046"):
        stream.synchronize()
    stream.synchronize()  # the stream was given up, and is of use again


@pytest.mark.parametrize(
    ("mode", "value", "word", "goes_on"),
    [
        (0, 2, 3, True),
        (0, 2, 1, False),
        (1, 2, 2, True),
        (1, 2, 3, False),
        (2, 2, 6, True),
        (2, 2, 5, False),
        (3, 2, 5, True),
        (3, 2, 2**64 - 3, False),
    ],
    ids=["ge", "not-ge", "eq", "not-eq", "and", "not-and", "nor", "not-nor"],
)
def test_waiting_for_a_value(acl, mode, value, word, goes_on):
    memory = torch.zeros(1, dtype=torch.int64, device="npu")
    address = ctypes.c_void_p(memory.data_ptr())
    stream, other = torch.npu.Stream(), torch.npu.Stream()
    assert acl.aclrtValueWrite(address, ctypes.c_uint64(word), 0, handle(other)) == 0
    assert acl.aclrtValueWait(address, ctypes.c_uint64(value), mode, handle(stream)) == 0
    assert stream.query() is goes_on
    for end in (2, 2**62):  # one of them ends each wait
        acl.aclrtValueWrite(address, ctypes.c_uint64(end), 0, handle(other))
    assert stream.query()


def test_limits_of_cores():
    stream = torch.npu.Stream()
    torch.zeros(1, device="npu:1")
    torch.npu.set_stream_limit(stream, 4, 8)
    assert torch.npu.get_stream_limit(stream) == {"cube_core_num": 4, "vector_core_num": 8}
    torch.npu.reset_stream_limit(stream)
    assert torch.npu.get_stream_limit(stream) == {"cube_core_num": 24, "vector_core_num": 48}


# --- settings, traces, failures ---------------------------------------------------------------


def test_determinism_is_remembered(acl):
    value = ctypes.c_int64()
    for wanted in (1, 0):
        assert acl.aclrtSetSysParamOpt(0, ctypes.c_int64(wanted)) == 0
        assert acl.aclrtGetSysParamOpt(0, ctypes.byref(value)) == 0
        assert value.value == wanted


def test_traces_are_in_order_and_nest():
    x = torch.zeros(2, device="npu")
    with ascend_sim.trace() as outer:
        x.add_(1)
        with ascend_sim.trace() as inner:
            x.mul_(x)
    assert inner == ["aclnnInplaceMul"]
    assert outer == ["aclnnInplaceAdds", "aclnnInplaceMul"]
    with ascend_sim.trace() as nothing:
        pass
    assert nothing == []


def test_a_launch_that_is_made_to_fail():
    x = torch.zeros(2, device="npu")
    with ascend_sim.failing("aclnnInplaceAdds"), pytest.raises(RuntimeError, match="507000"):
        x.add_(1)
    assert x.cpu().tolist() == [0.0, 0.0]
    assert x.add_(1).cpu().tolist() == [1.0, 1.0]


# --- what is not simulated --------------------------------------------------------------------


def test_an_unknown_function_fails_with_its_name(acl):
    assert acl.HcclAllReduce() == 207000
    assert acl.aclGetRecentErrMsg() == b"HcclAllReduce is not simulated"
    assert acl.aclGetRecentErrMsg() == b""


def test_what_is_missing_is_known():
    missing = ascend_sim.missing()
    assert "HcclAllReduce" in missing
    assert not [name for name in missing if name.startswith("aclnn")]
    assert "aclrtMalloc" not in missing


def test_a_collective_does_not_pretend():
    import torch.distributed as dist

    x = torch.ones(2, device="npu")
    dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(RuntimeError, match="207000"):
            dist.all_reduce(x)
    finally:
        dist.destroy_process_group()
    assert x.cpu().tolist() == [1.0, 1.0]


# --- building and loading ---------------------------------------------------------------------


def test_no_compiler(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert "g++" in ascend_sim.why_not()
    with pytest.raises(RuntimeError, match=r"g\+\+"):
        ascend_sim.build()


def test_no_vendor_packages(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "torch" in ascend_sim.why_not()


def test_a_second_load_does_nothing():
    ascend_sim.load()
    assert torch.ones(1).npu().item() == 1.0


@pytest.mark.parametrize("form", ["-c", "-m"])
def test_programs(form, tmp_path, monkeypatch):
    text = "import sys, torch; print(torch.ones(1).npu().item(), sys.argv[1:])"
    (tmp_path / "a_module.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    printed = run_program(form, text if form == "-c" else "a_module", "argument")
    assert printed[-1] == "1.0 ['argument']"
