"""Capture and replay: what is recorded, what a capture forbids, task groups, several streams."""

import ctypes
import json
import threading

import ascend_sim
import pytest
import torch

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2


@pytest.fixture
def acl():
    library = ctypes.CDLL("libascendcl.so")
    library.aclGetRecentErrMsg.restype = ctypes.c_char_p
    return library


@pytest.fixture
def x():
    return torch.zeros(4, device="npu")


class Capture:
    """A capture made of the runtime's own calls, without what torch adds to them."""

    def __init__(self, acl, mode=GLOBAL):
        self.acl, self.mode = acl, mode
        self.stream, self.model = torch.npu.Stream(), ctypes.c_void_p()
        self.handle = ctypes.c_void_p(self.stream.npu_stream)

    def begin(self):
        return self.acl.aclmdlRICaptureBegin(self.handle, self.mode)

    def end(self):
        return self.acl.aclmdlRICaptureEnd(self.handle, ctypes.byref(self.model))

    def status(self):
        status, model = ctypes.c_int(), ctypes.c_void_p()
        self.acl.aclmdlRICaptureGetInfo(self.handle, ctypes.byref(status), ctypes.byref(model))
        return ["none", "active", "invalidated"][status.value]

    def set_value(self, tensor, value, stream=None):
        """Record one task: a memset of a tensor of bytes."""
        size = ctypes.c_size_t(tensor.nbytes)
        stream = self.handle if stream is None else ctypes.c_void_p(stream.npu_stream)
        address = ctypes.c_void_p(tensor.data_ptr())
        return self.acl.aclrtMemsetAsync(address, size, value, size, stream)

    def replay(self):
        return self.acl.aclmdlRIExecuteAsync(self.model, self.handle)

    def illegal(self):
        """A call that no capture allows its own thread."""
        byte = (ctypes.c_char * 1)()
        return self.acl.aclrtMemset(byte, ctypes.c_size_t(1), 0, ctypes.c_size_t(1))


@pytest.fixture
def capture(acl):
    made = Capture(acl)
    yield made
    if made.status() != "none":
        made.end()


def bytes_on_npu():
    return torch.zeros(4, dtype=torch.uint8, device="npu")


# --- what torch_npu makes of it ---------------------------------------------------------------


def test_a_capture_does_not_run_and_replays_follow_the_inputs(x):
    calls = []

    def program():
        calls.append(1)
        return (x + 1) * 2

    graph = torch.npu.NPUGraph()
    with ascend_sim.trace() as recorded, torch.npu.graph(graph):
        y = program()
    assert recorded == ["begin", "record aclnnAdds", "record aclnnMuls", "end"]
    assert y.cpu().tolist() != [2.0] * 4
    for value in (0.0, 3.0):
        x.fill_(value)
        with ascend_sim.trace() as replayed:
            graph.replay()
        assert replayed == ["replay"]
        assert y.cpu().tolist() == [(value + 1) * 2] * 4
    assert calls == [1]


def test_a_replay_writes_to_what_the_capture_wrote_to(x):
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        x.add_(1)
    assert x.cpu().tolist() == [0.0] * 4
    for count in (1.0, 2.0, 3.0):
        graph.replay()
        assert x.cpu().tolist() == [count] * 4


def test_a_side_stream_that_joins(x):
    side, graph = torch.npu.Stream(), torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        y = x + 1
        side.wait_stream(torch.npu.current_stream())
        with torch.npu.stream(side):
            z = y * 3
        torch.npu.current_stream().wait_stream(side)
        out = z + y
    graph.replay()
    assert out.cpu().tolist() == [4.0] * 4
    x.fill_(1)
    graph.replay()
    assert out.cpu().tolist() == [8.0] * 4


def test_graphs_share_a_pool(x):
    first, second = torch.npu.NPUGraph(), torch.npu.NPUGraph()
    with torch.npu.graph(first):
        y = x + 1
    with torch.npu.graph(second, pool=first.pool()):
        z = y * 2
    first.replay()
    second.replay()
    assert z.cpu().tolist() == [2.0] * 4
    assert first.pool() == second.pool()


def test_the_dump_of_a_graph(x, tmp_path):
    graph = torch.npu.NPUGraph()
    graph.enable_debug_mode()
    with torch.npu.graph(graph):
        (x + 1) * 2
    path = tmp_path / "graph.json"
    graph.debug_dump(str(path))
    names = [event["name"] for event in json.loads(path.read_text()) if event.get("ph") == "X"]
    assert names == ["aclnnAdds", "aclnnMuls"]


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda x: torch.npu.current_stream().synchronize(), "107027"),
        (lambda x: torch.npu.synchronize(), "107030"),
        (lambda x: torch.npu.current_stream().query(), "107027"),
        (lambda x: x.cpu(), "1070"),
        (lambda x: x.item(), "1070"),
    ],
    ids=["stream.synchronize", "synchronize", "stream.query", "cpu", "item"],
)
def test_what_torch_may_not_do_in_a_capture(call, code):
    x = torch.zeros(1, device="npu")
    graph, stream = torch.npu.NPUGraph(), torch.npu.Stream()
    with torch.npu.stream(stream):
        graph.capture_begin()
        with pytest.raises(RuntimeError, match=code):
            call(x)
        with pytest.raises(RuntimeError, match="507903"):
            graph.capture_end()
    assert (x + 1).item() == 1.0


def test_a_launch_that_fails_in_a_capture(x):
    graph = torch.npu.NPUGraph()
    with (
        ascend_sim.failing("aclnnAdds"),
        pytest.raises(RuntimeError, match="507000"),
        torch.npu.graph(graph),
    ):
        x + 1
    assert (x + 1).cpu().tolist() == [1.0] * 4


# --- the runtime's own calls --------------------------------------------------------------------


def test_the_life_of_a_capture(capture):
    target = bytes_on_npu()
    assert capture.status() == "none"
    assert capture.begin() == 0
    assert capture.status() == "active"
    assert capture.set_value(target, 5) == 0
    assert capture.end() == 0
    assert capture.status() == "none"
    assert target.cpu().tolist() == [0] * 4
    assert capture.replay() == 0
    assert target.cpu().tolist() == [5] * 4


def test_models_have_numbers_of_their_own(acl):
    numbers = []
    for _ in range(2):
        made, number = Capture(acl), ctypes.c_uint32()
        made.begin()
        made.end()
        acl.aclmdlRIGetId(made.model, ctypes.byref(number))
        numbers.append(number.value)
    assert numbers[0] != numbers[1]


def test_a_stream_is_captured_once(capture):
    capture.begin()
    assert capture.begin() == 107027
    assert capture.end() == 0


def test_no_capture_to_end(capture):
    assert capture.end() == 107029


def test_an_end_on_another_stream(capture, acl):
    capture.begin()
    side = Capture(acl)
    side.stream.wait_stream(capture.stream)
    assert side.status() == "active"
    assert side.end() == 107036
    assert capture.end() == 0
    assert side.status() == "none"


def test_an_end_in_another_thread(capture):
    capture.begin()
    codes = []
    thread = threading.Thread(target=lambda: codes.append(capture.end()))
    thread.start()
    thread.join()
    assert codes == [107038]
    assert capture.end() == 0


def test_a_side_stream_that_is_not_waited_for(capture):
    target, side = bytes_on_npu(), torch.npu.Stream()
    capture.begin()
    side.wait_stream(capture.stream)
    capture.set_value(target, 1, side)
    assert capture.end() == 107025


def test_a_side_stream_that_goes_on_after_it_was_waited_for(capture):
    target, side = bytes_on_npu(), torch.npu.Stream()
    capture.begin()
    side.wait_stream(capture.stream)
    capture.set_value(target, 1, side)
    capture.stream.wait_stream(side)
    capture.set_value(target, 2, side)
    assert capture.end() == 107025


def test_side_streams_that_are_waited_for_in_turn(capture):
    target, (first, second) = bytes_on_npu(), (torch.npu.Stream() for _ in range(2))
    capture.begin()
    first.wait_stream(capture.stream)
    capture.set_value(target, 1, first)
    second.wait_stream(first)
    capture.set_value(target, 2, second)
    capture.stream.wait_stream(second)
    assert capture.end() == 0
    capture.replay()
    assert target.cpu().tolist() == [2] * 4


@pytest.mark.parametrize("call", ["aclrtQueryEventStatus", "aclrtSynchronizeEvent"])
def test_an_event_of_a_capture(capture, acl, call):
    event = torch.npu.Event()
    event.record()
    capture.begin()
    event.record(capture.stream)
    status = ctypes.c_int()
    assert getattr(acl, call)(ctypes.c_void_p(event.npu_event), ctypes.byref(status)) == 107028
    assert capture.status() == "invalidated"
    assert capture.end() == 507903
    assert event.query()


def test_the_reason_is_told(capture, acl):
    capture.begin()
    capture.illegal()
    capture.end()
    assert b"aclrtMemset is not allowed while a stream is captured" in acl.aclGetRecentErrMsg()


@pytest.mark.parametrize(
    ("mode", "own", "other"),
    [(GLOBAL, 107030, 107030), (THREAD_LOCAL, 107030, 0), (RELAXED, 0, 0)],
    ids=["global", "thread_local", "relaxed"],
)
def test_whom_a_capture_forbids_what(capture, mode, own, other):
    capture.mode = mode
    codes = []
    thread = threading.Thread(target=lambda: codes.append(capture.illegal()))
    capture.begin()
    thread.start()
    thread.join()
    codes.append(capture.illegal())
    assert codes == [other, own]
    assert capture.end() == (507903 if own or other else 0)


def test_a_thread_that_is_relaxed_for_a_while(capture, acl):
    mode = ctypes.c_int(RELAXED)
    capture.begin()
    acl.aclmdlRICaptureThreadExchangeMode(ctypes.byref(mode))
    assert mode.value == GLOBAL
    assert capture.illegal() == 0
    acl.aclmdlRICaptureThreadExchangeMode(ctypes.byref(mode))
    assert mode.value == RELAXED
    assert capture.end() == 0


# --- task groups and updates --------------------------------------------------------------------


class Updatable:
    """A graph with one task, ``x * 2``, that can be updated, and an add before and after it."""

    def __init__(self, x):
        self.graph, self.event, self.updates = (
            torch.npu.NPUGraph(),
            torch.npu.ExternalEvent(),
            torch.npu.Stream(),
        )
        with torch.npu.graph(self.graph):
            stream = torch.npu.current_stream()
            self.before = x + 1
            self.event.wait(stream)
            self.event.reset(stream)
            torch.npu.graph_task_group_begin(stream)
            self.product = torch.mul(self.before, 2.0)
            self.group = torch.npu.graph_task_group_end(stream)
            self.after = self.product + 1

    def update(self, *programs):
        with torch.npu.stream(self.updates):
            torch.npu.graph_task_update_begin(self.updates, self.group)
            try:
                for program in programs:
                    program()
            finally:
                torch.npu.graph_task_update_end(self.updates)
            self.event.record(self.updates)

    def factor(self, value):
        return lambda: torch.mul(self.before, value, out=self.product)


@pytest.mark.parametrize("update_first", [True, False], ids=["update-first", "replay-first"])
def test_a_task_is_updated(x, update_first):
    made = Updatable(x)
    for factor in (3.0, 5.0):
        if update_first:
            made.update(made.factor(factor))
        made.graph.replay()
        if not update_first:
            assert not torch.npu.current_stream().query()
            made.update(made.factor(factor))
        assert made.after.cpu().tolist() == [factor + 1] * 4


def test_a_replay_without_an_update_does_not_end(x):
    made = Updatable(x)
    made.graph.replay()
    with pytest.raises(RuntimeError, match="507046"):
        torch.npu.synchronize()
    torch.npu.synchronize()


def test_an_update_with_more_tasks_than_the_group(x):
    made = Updatable(x)
    with pytest.raises(RuntimeError, match="107033"):
        made.update(made.factor(2.0), made.factor(3.0))


def test_an_update_with_fewer_tasks_than_the_group(x):
    with pytest.raises(RuntimeError, match="107033"):
        Updatable(x).update()


def test_an_update_with_another_task(x):
    made = Updatable(x)
    with pytest.raises(RuntimeError, match=r"207019|107033"):
        made.update(lambda: torch.add(made.before, 2.0, out=made.product))


def test_task_groups_out_of_place(capture, acl):
    group = ctypes.c_void_p()
    assert acl.aclmdlRICaptureTaskGrpBegin(capture.handle) == 107029
    assert acl.aclmdlRICaptureTaskUpdateEnd(capture.handle) == 107033
    capture.begin()
    assert acl.aclmdlRICaptureTaskGrpEnd(capture.handle, ctypes.byref(group)) == 107033
    assert acl.aclmdlRICaptureTaskGrpBegin(capture.handle) == 0
    assert acl.aclmdlRICaptureTaskGrpBegin(capture.handle) == 107033
    assert capture.end() == 107033  # the group is still open
