"""Replayed graphs give what eager gives, at every call, and write what eager writes, once."""

import gc
import threading
import weakref

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from xpu_graph.artifact import SerializableArtifact
from xpu_graph.backends.device_graph import DeviceGraphArtifact, device_graph_compiler
from xpu_graph.errors import BackendError, BackendUnavailable, CacheError, NotCacheable
from xpu_graph.testing import alias_classes, assert_same, capture

aten = torch.ops.aten


def kinds(artifact):
    return ["captured" if step.captured else "eager" for step in artifact.plan.steps]


def check(artifact, function, *calls):
    """Compare calls with eager: results, aliases, what became of the inputs."""
    for inputs in calls:
        mine, eagers = ([x.clone() if is_tensor(x) else x for x in inputs] for _ in range(2))
        with torch.no_grad():
            want = function(*eagers)
            got = artifact(*mine)
        assert_same(got, want)
        assert_same(mine, eagers, "input after the call")
        both = [[t for t in side if is_tensor(t)] for side in ([*mine, *got], [*eagers, *want])]
        assert alias_classes(both[0]) == alias_classes(both[1])


def is_tensor(value):
    return isinstance(value, torch.Tensor)


# --- numbers --------------------------------------------------------------------------------------


def plain(x, w):
    return [torch.relu(x @ w) + 1]


def in_place(x, w):
    w.mul_(2)
    return [x + w]


def through_a_view(x, w):
    w.view(-1)[1:3].add_(1)
    return [x + w]


def in_place_and_returned(x, w):
    w.copy_(x + w)
    return [w, w * 2]


def returns_inputs(x, w):
    return [x, x + w, w.t()]


def twice(x, w):
    y = x + w
    return [y, y]


def aliases_of_one_another(x, w):
    y = x + w
    return [y.view(-1), y, y.t()]


def beyond_a_base(x, w):
    return [x.as_strided((2, 2), (2, 1), 1) + 1, w + 1]


def draws(x, w):
    return [torch.rand_like(x) + x, x + w]


def reads(x, w):
    return [x * (x + w).sum().item() + w]


def a_mask(x, w):
    y = x + w
    return [y[y > 0] * 2, y]


def sequences(x, w):
    first, second = torch.split(x + w, 1)[:2]
    values, places = torch.topk(x, 2)
    return [first + second, values, places]


def a_constant(x, w):
    return [x + torch.arange(3.0)]


PROGRAMS = [
    *(plain, in_place, through_a_view, in_place_and_returned, returns_inputs, twice),
    *(aliases_of_one_another, beyond_a_base, reads, a_mask, sequences, a_constant),
]


def square(seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(3, 3, generator=generator) for _ in range(2)]


@pytest.mark.parametrize("clone_output", [False, True], ids=["aliases", "clones"])
@pytest.mark.parametrize("static", [(), (1,)], ids=["user_input", "static_input"])
@pytest.mark.parametrize("function", [pytest.param(f, id=f.__name__) for f in PROGRAMS])
def test_like_eager_at_every_call(compiled, function, static, clone_output):
    artifact = compiled(function, *square(0), static=static, clone_output=clone_output)
    check(artifact, function, *(square(seed) for seed in range(4)))
    assert artifact.counts.fallback == {}


def test_a_random_call_runs_outside_and_draws_anew(compiled):
    artifact = compiled(draws, *square(0))
    assert kinds(artifact) == ["eager", "captured"]
    results = []
    for make in (artifact, draws, artifact):
        torch.manual_seed(3)
        results.append([result.clone() for result in make(*square(1))])
    assert_same(results[0], results[1])
    assert_same(results[2], results[1])


def counted(start, count):
    return torch.arange(float(start), float(start + count))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda k: counted(k, 12).view(4, 3).t(), id="transposed"),
        pytest.param(lambda k: counted(k, 3).expand(4, 3), id="expanded"),
        pytest.param(lambda k: counted(k, 40)[5:29].view(4, 6)[:, ::2], id="gaps"),
        pytest.param(lambda k: counted(k, 12).as_strided((4, 3), (2, 1), 1), id="overlapping"),
        pytest.param(lambda k: torch.zeros(0, 3), id="empty"),
        pytest.param(lambda k: counted(k, 3)[1], id="no_dimension"),
        pytest.param(lambda k: counted(k, 6).view(2, 3).long(), id="integers"),
        pytest.param(lambda k: counted(k, 6).view(2, 3) > 2, id="booleans"),
        pytest.param(lambda k: counted(k, 24).view(1, 2, 3, 4).permute(0, 3, 1, 2), id="4d"),
    ],
)
def test_layouts_of_inputs(compiled, make):
    def function(x):
        return [x * 2, x.sum(), torch.empty_like(x).copy_(x)]

    artifact = compiled(function, make(0))
    for start in range(3):
        assert_same(artifact(make(start)), function(make(start)))
    assert artifact.counts.captured == 1


def test_several_inputs_of_several_dtypes(compiled):
    def function(a, b, c, d):
        return [a + b, c + d]

    def inputs(k):
        return [
            torch.full((2,), k, dtype=dtype) for dtype in (torch.float32,) * 2 + (torch.long,) * 2
        ]

    check(compiled(function, *inputs(1)), function, *(inputs(k) for k in range(3)))


def test_the_graph_reads_no_input_after_the_call(compiled):
    artifact = compiled(lambda x: [x + 1], torch.ones(2))
    x = torch.ones(2)
    (held,) = artifact(x)
    x.zero_()
    assert_same(held, torch.full((2,), 2.0))


def test_numbers_are_part_of_the_key(compiled, double):
    def function(x, n):
        return [x * n]

    artifact = compiled(function, torch.ones(3), 2, tracing_mode="symbolic")
    values = [2, 3, 2, 1, True, 0.0, -0.0, float("nan"), float("nan"), 2]
    x = torch.ones(3)
    for value in values:
        assert_same(artifact(x, value), function(x, value))


def test_dynamic_shapes(compiled):
    def function(x):
        return [x.view(-1, 2) + x.shape[0], x.new_ones(x.shape[0] * 2)]

    artifact = compiled(function, torch.ones(6, 2), tracing_mode="symbolic")
    for size in (6, 4, 6, 2, 4):
        x = torch.randn(size, 2)
        assert_same(artifact(x), function(x))
    assert artifact.counts.captured == 3
    assert artifact.counts.recaptured == {"new shape": 2}


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: [x], id="input"),
        pytest.param(lambda x: [x.t(), x.view(-1)], id="views"),
        pytest.param(lambda x: [None, 3, x], id="none_and_number"),
        pytest.param(lambda x: [], id="nothing"),
        pytest.param(lambda x: [torch.rand_like(x) * 0], id="eager_alone"),
    ],
)
def test_nothing_to_capture(compiled, double, function):
    artifact = compiled(function, torch.ones(2, 2))
    x = torch.randn(2, 2)
    got, want = artifact(x), function(x)
    assert_same(got, want)
    assert [g is x for g in got] == [w is x for w in want]
    assert (double.graphs, artifact.counts.captured) == ([], 0) or kinds(artifact) == [
        "eager",
        "captured",
    ]


def test_none_beside_captured_outputs(compiled):
    artifact = compiled(lambda x: [None, x + 1, 5], torch.ones(2))
    assert_same(artifact(torch.zeros(2)), [None, torch.ones(2), 5])


def test_a_graph_that_moves_its_memory_runs_eagerly(compiled):
    def function(x):
        x.t_()
        return [x + 1]

    artifact = compiled(function, torch.ones(2, 3))
    assert kinds(artifact) in ([], ["eager"])
    check(artifact, function, [torch.randn(2, 3)], [torch.randn(2, 3)])


# --- memory ---------------------------------------------------------------------------------------


def test_outputs_are_new_objects_in_memory_that_is_written_again(compiled):
    artifact = compiled(plain, *square(0))
    (first,) = artifact(*square(1))
    (second,) = artifact(*square(2))
    assert first is not second
    assert first.data_ptr() == second.data_ptr()
    second.unsqueeze_(0)
    (third,) = artifact(*square(2))
    assert third.shape == (3, 3)


def test_cloned_outputs_last(compiled):
    artifact = compiled(aliases_of_one_another, *square(0), clone_output=True)
    calls = [(square(seed), artifact(*square(seed))) for seed in range(3)]
    for inputs, got in calls:
        assert_same(got, aliases_of_one_another(*inputs))
        assert alias_classes(got) == [0, 0, 0]


def test_an_output_returned_twice_is_one_object(compiled):
    first, second = compiled(twice, *square(0))(*square(1))
    assert first is second


def test_an_output_can_be_the_next_input(compiled):
    artifact = compiled(lambda x: [x * 2], torch.ones(2))
    (x,) = artifact(torch.ones(2))
    for _ in range(3):
        (x,) = artifact(x)
    assert_same(x, torch.full((2,), 16.0))


def test_autograd_learns_that_an_earlier_output_has_changed(compiled):
    artifact = compiled(lambda x: [x * 2], torch.ones(2))
    (saved,) = artifact(torch.ones(2))
    weight = torch.ones(2, requires_grad=True)
    loss = (weight * saved).sum()
    artifact(torch.zeros(2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_written_input_has_a_new_version_at_every_call(compiled):
    artifact = compiled(in_place, *square(0))
    x, w = square(1)
    for _ in range(3):
        before = w._version
        artifact(x, w)
        assert w._version > before


def test_inputs_are_neither_kept_nor_written(compiled):
    artifact = compiled(plain, *square(0), static=[1])
    x, w = square(1)
    copies = [x.clone(), w.clone()]
    artifact(x, w)
    artifact(*square(2))
    assert_same([x, w], copies)
    memory = StorageWeakRef(x.untyped_storage())
    gone = [weakref.ref(x), weakref.ref(w)]
    del x, w
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
    assert memory.expired()


def test_the_list_is_emptied(compiled):
    artifact = compiled(plain, *square(0))
    for _ in range(2):
        args = square(1)
        artifact.boxed(args)
        assert args == []


@pytest.mark.parametrize("mode", ["captured_in", "called_in"])
def test_inference_mode_and_back(compiled, mode):
    artifact = compiled(in_place, *square(0))
    order = [True, False, True] if mode == "captured_in" else [False, True, False]
    for inference in order:
        x, w = square(1)
        with torch.inference_mode(inference), torch.no_grad():
            got = artifact(x.clone(), w.clone())
        assert_same(got, in_place(x, w))


def test_an_inference_tensor_is_written(compiled):
    artifact = compiled(in_place, *square(0))
    with torch.inference_mode():
        x, w = square(1)
        want = w * 2
        for _ in range(2):
            artifact(x, w)
        assert_same(w, want * 2)


def test_inputs_that_need_gradients(compiled):
    artifact = compiled(plain, *square(0), static=[1])
    for seed in (1, 2):
        inputs = [torch.nn.Parameter(tensor) for tensor in square(seed)]
        (got,) = artifact(*inputs)
        assert not got.requires_grad
        with torch.no_grad():
            assert_same(got, plain(*inputs)[0])


# --- keys and options -----------------------------------------------------------------------------


def test_a_moved_parameter_is_captured_again(compiled):
    artifact = compiled(plain, *square(0), static=[1])
    x, w = square(1)
    for _ in range(3):
        artifact(x, w)
    assert artifact.counts.captured == 1
    w.data = square(2)[1]
    assert_same(artifact(x, w), plain(x, w))
    assert artifact.counts.recaptured == {"moved": 1}
    w.data = w.data.t()  # the same address
    with pytest.raises(BackendError, match="stride"):
        artifact(x, w)


def test_user_inputs_are_captured_once(compiled, double):
    artifact = compiled(plain, *square(0))
    for seed in range(4):
        artifact(*square(seed))
    assert (artifact.counts.captured, artifact.counts.recaptured) == (1, {})
    assert double.graphs[0].replays == 4


def test_a_frozen_parameter_is_not_looked_at(compiled):
    artifact = compiled(plain, *square(0), static=[1], frozen_parameter=True)
    x, w = square(1)
    want = plain(x, w)
    artifact(x, w)
    assert_same(artifact(x, square(2)[1]), want)
    assert artifact.counts.captured == 1


def test_a_frozen_parameter_that_moves_is_found_in_debug(compiled, monkeypatch):
    monkeypatch.setenv("XPUGRAPH_DEBUG", "1")
    artifact = compiled(plain, *square(0), static=[1], frozen_parameter=True)
    x, w = square(1)
    for _ in range(2):
        artifact(x, w)
    with pytest.raises(BackendError, match="input 1 has moved"):
        artifact(x, square(2)[1])


def test_a_written_parameter_is_looked_at_although_frozen(compiled):
    artifact = compiled(in_place, *square(0), static=[1], frozen_parameter=True)
    check(artifact, in_place, square(1), square(2))


def test_inputs_that_are_not_cloned_are_never_written(compiled):
    artifact = compiled(plain, *square(0), clone_input=False)
    base = torch.arange(12.0)
    first, second = base[3:].view(3, 3), base[:9].view(3, 3)
    x, w = first.clone(), square(1)[1]
    copy = x.clone()
    for given in (x, second, first, x):
        assert_same(artifact(given, w), plain(given, w))
    assert_same(x, copy)
    assert artifact.counts.recaptured == {"moved": 2}


def test_force_eager(compiled, double):
    artifact = compiled(in_place, *square(0), force_eager=True)
    check(artifact, in_place, square(1), square(2))
    assert double.graphs == []


@pytest.mark.parametrize("limit", [1, 2])
def test_force_recapture(compiled, double, limit):
    artifact = compiled(reads, *square(0), force_recapture=True, capture_limit=limit)
    for seed in (1, 1, 1):
        assert_same(artifact(*square(seed)), reads(*square(seed)))
    pieces = kinds(artifact).count("captured")
    assert artifact.counts.captured == 3 * pieces
    assert artifact.counts.recaptured == {"force_recapture": 2 * pieces}
    assert artifact.counts.fallback == {}
    assert len(double.live) == pieces


def test_an_old_capture_lives_until_the_new_one_is_there(compiled, double):
    artifact = compiled(plain, *square(0), force_recapture=True)
    artifact(*square(1))
    double.failing = aten.relu.default
    with pytest.raises(BackendError):
        artifact(*square(1))
    assert double.live == [double.graphs[0]]


def test_capture_limit(compiled, double):
    dynamic = compiled(lambda x: [x * 2], torch.ones(3), tracing_mode="symbolic", capture_limit=2)
    for size in (2, 3, 2, 3):
        assert_same(dynamic(torch.ones(size)), [torch.full((size,), 2.0)])
    assert dynamic.counts.fallback == {}
    for size in (4, 2, 5):
        assert_same(dynamic(torch.ones(size)), [torch.full((size,), 2.0)])
    assert dynamic.counts.captured == 2
    assert dynamic.counts.fallback == {"capture_limit": 3}
    assert double.live == []


def test_an_overflow_in_the_middle_of_a_call_writes_once(compiled, double):
    def function(x, w):
        w.add_(1)
        return [(x + w) * w.sum().item()]

    artifact = compiled(function, *square(0), capture_limit=1)
    check(artifact, function, *(square(seed) for seed in range(3)))
    assert artifact.counts.fallback["capture_limit"] == 2
    assert double.live == []


def test_pools_and_streams(compiled, double):
    for function in (plain, reads):
        artifact = compiled(function, *square(0), use_graph_pool=(0, 7))
        artifact(*square(1))
    assert set(double.pools) == {(0, 7)}
    assert len(set(double.streams_of_captures)) == 1
    compiled(plain, *square(0))(*square(1))
    compiled(plain, *square(0))(*square(1))
    assert len(set(double.pools)) == len(set(double.streams_of_captures)) == 3


def test_all_captures_of_a_graph_are_in_one_pool(compiled, double):
    compiled(reads, *square(0))(*square(1))
    assert len(double.pools) == 2
    assert len(set(double.pools)) == len(set(double.streams_of_captures)) == 1


def test_capture_error_mode(compiled, double):
    compiled(plain, *square(0), capture_error_mode="relaxed")(*square(1))
    assert double.modes == ["relaxed"]


def test_a_call_inside_a_capture_runs_eagerly(compiled, double):
    artifact = compiled(plain, *square(0))
    graph = double.graph()
    x, w = square(1)
    for _ in range(2):
        with double.capture(graph, 0, None, None, "global"):
            (got,) = artifact(x, w)
    assert artifact.counts.fallback == {"nested capture": 2}
    assert artifact.counts.captured == 0
    graph.replay()
    assert_same(got, plain(x, w)[0])
    assert_same(artifact(x, w), plain(x, w))


def test_another_stream_waits_for_the_last_one(compiled, double):
    artifact = compiled(plain, *square(0))
    artifact(*square(1))
    first, double.current = double.current, type(double.current)()
    artifact(*square(1))
    artifact(*square(1))
    assert double.current.waited == [first]


def test_debug_dump(compiled, double):
    artifact = compiled(reads, *square(0))
    artifact(*square(1))
    paths = artifact.debug_dump("/dump/")
    assert [path for _, path in double.dumps] == paths
    assert len(set(paths)) == 2


# --- failures -------------------------------------------------------------------------------------


def test_a_failed_capture_names_the_operator_and_the_line(double):
    def model(x):
        return torch.relu(x + 1)

    (unit,) = capture(model, torch.ones(2))
    artifact = device_graph_compiler(unit.gm, unit.fake_inputs, device_type="cpu")
    double.failing = aten.relu.default
    with pytest.raises(BackendError) as caught:
        artifact(torch.ones(2))
    text = str(caught.value)
    for part in ("piece 1 of 1", "aten.relu.default", "return torch.relu(x + 1)", __file__):
        assert part in text
    assert "illegal in a capture" in str(caught.value.__cause__)


def test_after_a_failure_the_next_call_starts_anew(compiled, double):
    artifact = compiled(in_place, *square(0))
    x, w = square(1)
    before = w.clone()
    double.failing = aten.add.Tensor
    for _ in range(2):
        with pytest.raises(BackendError, match=r"aten\.add\.Tensor"):
            artifact(x, w)
    assert_same(w, before)
    assert (artifact.counts.captured, double.live) == (0, [])
    double.failing = None
    check(artifact, in_place, square(1), square(2))
    assert len(set(double.pools)) == 3


def test_a_capture_that_breaks_at_its_end(compiled, double):
    artifact = compiled(plain, *square(0))
    double.fails_at_end = True
    with pytest.raises(BackendError, match="when the capture ended"):
        artifact(*square(1))
    assert double.live == []


@pytest.mark.parametrize(
    ("x", "word"),
    [
        pytest.param(torch.ones(1, 3), "shape", id="shape"),
        pytest.param(torch.ones(3, 3).double(), "dtype", id="dtype"),
        pytest.param(torch.ones(3, 3).t().contiguous().t(), "stride", id="stride"),
    ],
)
def test_an_input_the_graph_was_not_traced_for(compiled, x, word):
    artifact = compiled(plain, *square(0))
    for _ in range(2):
        artifact(*square(1))
        with pytest.raises(BackendError, match=word):
            artifact(x, square(1)[1])


def test_devices_without_graphs(traced):
    gm = traced(lambda x: [x + 1], torch.ones(2))
    with pytest.raises(BackendError, match=r"'meta'.*npu"):
        device_graph_compiler(gm, [], device_type="meta")
    with pytest.raises(BackendUnavailable, match=r"torch\.npu\.NPUGraph"):
        device_graph_compiler(gm, [], device_type="npu")


# --- threads --------------------------------------------------------------------------------------


def test_threads_take_turns(compiled):
    artifact = compiled(reads, *square(0), clone_output=True)
    failures = []

    def work(seed):
        try:
            for _ in range(5):
                assert_same(artifact(*square(seed)), reads(*square(seed)))
        except Exception as error:  # told to the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


# --- the stored form ------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [pytest.param(f, id=f.__name__) for f in PROGRAMS])
def test_a_loaded_artifact_captures_again(compiled, double, function):
    artifact = compiled(function, *square(0), static=[1], clone_output=True)
    check(artifact, function, square(1))
    found = SerializableArtifact.rebuild_from_bytes(artifact.convert_to_bytes())
    assert type(found) is DeviceGraphArtifact
    assert (found.plan, found.options) == (artifact.plan, artifact.options)
    assert found.convert_to_bytes() == artifact.convert_to_bytes()
    captured = len(double.graphs)
    check(found, function, square(1), square(2))
    assert len(double.graphs) > captured


def test_loading_needs_no_device(compiled, monkeypatch):
    from xpu_graph.backends.device_graph import device

    data = compiled(plain, *square(0)).convert_to_bytes()
    monkeypatch.setattr(device, "DEVICES", {})
    found = SerializableArtifact.rebuild_from_bytes(data)
    with pytest.raises(BackendError, match="'cpu'"):
        found(*square(1))


def test_a_pool_of_this_process_is_not_stored(compiled):
    with pytest.raises(NotCacheable, match="use_graph_pool"):
        compiled(plain, *square(0), use_graph_pool=(0, 1)).members()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("device_graph.json", b"{}", id="no_plan"),
        pytest.param("device_graph.json", b"[", id="no_json"),
        pytest.param("graph.kind", b"other", id="no_graph"),
    ],
)
def test_broken_parts(compiled, name, content):
    members = {**compiled(plain, *square(0)).members(), name: content}
    with pytest.raises(CacheError):
        DeviceGraphArtifact.from_members(members)


def test_a_plan_for_another_graph(compiled):
    members = compiled(plain, *square(0)).members()
    other = compiled(lambda x: [x], torch.ones(2)).members()
    with pytest.raises(CacheError, match="not for the graph"):
        DeviceGraphArtifact.from_members(
            {**other, "device_graph.json": members["device_graph.json"]}
        )
