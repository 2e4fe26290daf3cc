"""Every feature of the vendor's tables through our configuration: it does what it says."""

import pathlib

import ascend_sim
import pytest
import torch
from programs import CAPTURING, MODES, backend, compiled, inference, refused
from torch._functorch.aot_autograd import aot_module_simplified

from xpu_graph import ConfigError
from xpu_graph.backends.npu import npu_compile

each_capturing_mode = pytest.mark.parametrize("mode", CAPTURING)


def steps_of(run, *inputs):
    with ascend_sim.trace() as steps:
        result = run(*inputs)
    return result, steps


def ones(*shape):
    return torch.ones(*shape).npu()


# --- basic functions ------------------------------------------------------------------------------


@each_capturing_mode
def test_capture_once_and_replay(mode):
    run = compiled(lambda x: (x * 2).relu() + 1, mode)
    _, first = steps_of(run, ones(4))
    result, second = steps_of(run, ones(4) * 3)
    assert any(step.startswith("record ") for step in first)
    assert "replay" in first
    assert "replay" in second
    assert not any(step.startswith("record ") for step in second)
    assert result.cpu().tolist() == [7.0] * 4


@pytest.mark.parametrize("mode", MODES)
def test_force_eager(mode):
    run = compiled(lambda x: (x * 2).relu() + 1, mode, force_eager=True)
    result, steps = steps_of(run, ones(4))
    assert result.cpu().tolist() == [3.0] * 4
    assert not {"begin", "replay"} & set(steps)


def test_force_recapture():
    run = compiled(lambda x: x * 2, force_recapture=True)
    run(ones(4))
    for _ in range(2):
        _, steps = steps_of(run, ones(4))
        assert "record aclnnMuls" in steps
        assert "replay" in steps


@each_capturing_mode
@pytest.mark.parametrize("on", [True, False])
def test_inplace_pass(mode, on):
    run = compiled(lambda x: (x * 2).relu(), mode, inplace_pass=on)
    _, steps = steps_of(run, ones(4))
    assert ("record aclnnInplaceRelu" in steps) == on
    assert ("record aclnnRelu" in steps) != on


@each_capturing_mode
@pytest.mark.parametrize("on", [True, False])
def test_input_inplace_pass(mode, on):
    run = compiled(lambda x: x.add_(1) * 2, mode, input_inplace_pass=on)
    x = ones(4)
    for times in (2, 3):
        assert run(x).cpu().tolist() == [2.0 * times] * 4
    assert x.cpu().tolist() == [3.0] * 4


@each_capturing_mode
def test_a_replacement_registered_with_the_vendor(mode):
    """Two operators of the vendor's become one of its own, where its pattern pass is on."""

    def search(x, y, gamma):
        total = torch.ops.aten.add.Tensor(x, y)
        return torch.ops.npu.npu_rms_norm(total, gamma)[0]

    gamma = ones(8)
    run = compiled(lambda x, y: search(x, y, gamma), mode, pattern_fusion_pass=False)
    x = torch.randn(4, 8)
    expected = torch.nn.functional.rms_norm(x + 1, (8,), eps=1e-6)
    assert torch.allclose(run(x.npu(), ones(4, 8)).cpu(), expected, atol=1e-5)


@each_capturing_mode
def test_remove_noop_ops(mode):
    program = lambda x: torch.ops.aten.clone.default(x + 1) * 2  # noqa: E731 - traced below
    for on in (True, False):
        torch._dynamo.reset()
        run = compiled(program, mode, remove_noop_ops=on)
        assert run(ones(4)).cpu().tolist() == [4.0] * 4


@each_capturing_mode
@pytest.mark.parametrize("on", [True, False])
def test_remove_cat_ops(mode, on):
    run = compiled(lambda x, y: torch.cat([x + 1, y * 2]), mode, remove_cat_ops=on)
    result, steps = steps_of(run, ones(4), ones(4))
    assert result.cpu().tolist() == [2.0] * 8
    assert ("record aclnnCat" in steps) != on


@each_capturing_mode
def test_clone_output(mode):
    run = compiled(lambda x: x * 2, mode, clone_output=True)
    first = run(ones(4))
    run(ones(4) * 5)
    assert first.cpu().tolist() == [2.0] * 4


@each_capturing_mode
def test_outputs_are_overwritten_without_clone_output(mode):
    run = compiled(lambda x: x * 2, mode)
    first = run(ones(4))
    run(ones(4) * 5)
    assert first.cpu().tolist() == [10.0] * 4


@each_capturing_mode
def test_outputs_survive_the_calls_of_another_thread(mode):
    import threading

    run = compiled(lambda x: x * 2, mode)
    run(ones(4))
    kept = []

    def call():
        kept.append(run(ones(4) * 3))
        run(ones(4) * 5)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    run(ones(4) * 7)
    assert kept[0].cpu().tolist() == [6.0] * 4


@each_capturing_mode
@pytest.mark.parametrize("frozen", [False, True])
def test_frozen_parameter(mode, frozen):
    layer = torch.nn.Linear(4, 4).npu()
    run = compiled(layer, mode, frozen_parameter=frozen)
    run(ones(2, 4))
    layer.weight.data = layer.weight.data.clone() * 2
    _, steps = steps_of(run, ones(2, 4))
    assert ("begin" in steps) != frozen  # a moved weight is captured again, unless it is trusted


@each_capturing_mode
def test_frozen_parameter_with_freeze_sees_new_weights(mode):
    """What the fold part made has moved, and the vendor, which trusts its place, is made again."""
    layer = torch.nn.Linear(4, 4).npu()
    run = compiled(layer, mode, frozen_parameter=True, config={"freeze": True})
    run(ones(2, 4))
    with torch.no_grad():
        layer.weight.fill_(1)
        layer.bias.fill_(0)
    assert run(ones(2, 4)).cpu().tolist() == [[4.0] * 4] * 2


@each_capturing_mode
def test_parameters_are_not_copied(mode):
    layer = torch.nn.Linear(4, 4).npu()
    run = compiled(layer, mode)
    run(ones(2, 4))
    _, steps = steps_of(run, ones(2, 4))
    assert steps.count("aclnnInplaceCopy") + steps.count("aclnnForeachCopy") == 1  # the input


@each_capturing_mode
def test_capture_limit(mode):
    run = compiled(lambda x: x * 2, mode, dynamic=True, capture_limit=2)
    captured = []
    for size in (3, 4, 5, 3):
        result, steps = steps_of(run, ones(size))
        assert result.cpu().tolist() == [2.0] * size
        captured.append("replay" in steps)
    assert captured == [True, True, False, False]


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_capture_error_mode(mode):
    run = compiled(lambda x: x * 2, capture_error_mode=mode)
    assert run(ones(4)).cpu().tolist() == [2.0] * 4


@each_capturing_mode
def test_pools(mode):
    handle = torch.npu.graph_pool_handle()
    reserved = []
    runs = []
    for _ in range(2):
        runs.append(compiled(lambda x: x * 2, mode, use_graph_pool=handle))
        torch._dynamo.reset()
        assert runs[-1](ones(4)).cpu().tolist() == [2.0] * 4
        reserved.append(torch.npu.memory_reserved())
    assert reserved[0] <= reserved[1]


def test_reuse_across_shapes():
    run = compiled(lambda x: x * 2, dynamic=True)
    assert len({run(ones(size)).data_ptr() for size in (3, 4, 5)}) == 1
    torch._dynamo.reset()
    run = compiled(lambda x: x * 2, dynamic=True, reuse_graph_pool_in_same_fx=False)
    assert len({run(ones(size)).data_ptr() for size in (3, 4, 5)}) == 3


def static_kernel_program(cache, x):
    cache.add_(x)
    return cache * 2


@each_capturing_mode
def test_static_kernel_writes_once(mode):
    """The vendor runs the graph on the real inputs before it captures it."""
    run = compiled(static_kernel_program, mode, static_kernel_compile=True)
    cache = torch.zeros(4).npu()
    for times in (1, 2, 3):
        assert run(cache, ones(4)).cpu().tolist() == [2.0 * times] * 4
        assert cache.cpu().tolist() == [float(times)] * 4


# --- shapes, inputs, and what goes around the compiler ----------------------------------------


@each_capturing_mode
def test_several_shapes_in_one_graph(mode):
    made = backend(mode)
    run = inference(torch.compile(lambda x: x.sum(1) * x.shape[0], backend=made, dynamic=True))
    for batch, width in [(2, 3), (4, 3), (2, 5), (4, 3), (2, 3)]:
        expected = [float(width * batch)] * batch
        assert run(ones(batch, width)).cpu().tolist() == expected
    assert len(made.reports) == 1


@each_capturing_mode
def test_a_cache_that_is_written_to(mode):
    def step(cache, position, x):
        cache.index_copy_(0, position, x)
        return cache.sum(0)

    run = compiled(step, mode)
    cache, expected = torch.zeros(4, 2), torch.zeros(4, 2)
    cache = cache.npu()
    for i in range(4):
        position, x = torch.tensor([i]), torch.full((1, 2), float(i + 1))
        got = run(cache, position.npu(), x.npu())
        assert torch.equal(got.cpu(), step(expected, position, x))
        assert torch.equal(cache.cpu(), expected)


@each_capturing_mode
def test_a_moved_cache_is_captured_again(mode):
    run = compiled(lambda cache, x: cache.add_(x).sum(), mode)
    for _ in range(2):
        cache = torch.zeros(4).npu()
        for times in (1, 2):
            assert run(cache, ones(4)).item() == 4.0 * times


@pytest.mark.parametrize("keep", [True, False])
def test_keep_inference_input_mutations(keep):
    run = compiled(lambda x: x.add_(1) * 2, keep_inference_input_mutations=keep)
    x = ones(4)
    assert run(x).cpu().tolist() == [4.0] * 4
    assert run(x).cpu().tolist() == [6.0] * 4
    assert x.cpu().tolist() == [3.0] * 4


def test_custom_decompositions():
    def silu(x):
        return x * 0 + 5

    run = compiled(
        torch.nn.functional.silu, custom_decompositions={torch.ops.aten.silu.default: silu}
    )
    assert run(ones(4)).cpu().tolist() == [5.0] * 4


@pytest.mark.parametrize("mode", MODES)
def test_swapping_the_target_is_one_word(mode):
    from xpu_graph import XpuGraph, XpuGraphConfig

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    x = torch.randn(3, 4)
    results = {}
    for target in ("cpu", "npu"):
        options = {"cpu": {}, "npu": {"compiler": "ge", "mode": mode}}[target]
        made = XpuGraph(
            XpuGraphConfig(target=target, vendor_compiler_config=options, enable_cache=False)
        )
        torch._dynamo.reset()
        run = inference(torch.compile(model.to(target), backend=made))
        results[target] = run(x.to(target)).cpu()
    assert torch.allclose(results["cpu"], results["npu"], atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_alone_as_a_compiler_of_aot_autograd(mode):
    """The user's own backend, around nothing but our compiler."""
    made = []

    def compile_graph(gm, fake_inputs):
        made.append(npu_compile(gm, fake_inputs, compiler="ge", mode=mode))
        return made[-1]

    def own_backend(gm, inputs):
        return aot_module_simplified(
            gm, inputs, fw_compiler=compile_graph, keep_inference_input_mutations=True
        )

    layer = torch.nn.Linear(4, 4)
    on_npu = torch.nn.Linear(4, 4).npu()
    on_npu.load_state_dict(layer.state_dict())
    run = inference(torch.compile(on_npu, backend=own_backend))
    for _ in range(2):
        x = torch.randn(2, 4)
        assert torch.allclose(run(x.npu()).cpu(), layer(x), atol=1e-5)
    assert len(made) == 1


# --- advanced functions ---------------------------------------------------------------------------


def two_streams(x):
    event, done = torch.npu.Event(), torch.npu.Event()
    y = x + 1
    event.record()
    with torch.npu.stream(SIDE):
        event.wait()
        z = y * 2
        done.record()
    done.wait()
    return y.relu() + z


SIDE = torch.npu.Stream()


def test_multi_stream():
    run = compiled(two_streams)
    for factor in (1.0, 2.0):
        result, steps = steps_of(run, ones(4) * factor)
        assert result.cpu().tolist() == [3 * (factor + 1)] * 4
        assert "replay" in steps


def test_streams_are_refused_where_the_vendor_has_none():
    with refused("npugraph_ex"):
        compiled(two_streams, "reduce-overhead")(ones(4))


def limited_in_npugraph_ex(x):
    y = x + 1
    with torch.npu.npugraph_ex.scope.limit_core_num(4, 8):
        z = y * 2
    return z + y


def test_core_limits():
    run = compiled(limited_in_npugraph_ex)
    result, steps = steps_of(run, ones(4))
    assert result.cpu().tolist() == [6.0] * 4
    limits = [step for step in steps if step.startswith("limit")]
    recorded = steps.index("record aclnnMuls")
    assert limits
    assert any("4" in step.split() for step in steps[:recorded] if step.startswith("limit"))


def test_a_scope_is_not_merged_with_what_is_outside():
    def program(x):
        y = x * 2
        with torch.npu.npugraph_ex.scope.limit_core_num(4, 8):
            z = x * 2
        return y.relu() + z

    run = compiled(program, config={"opt_level": 2})
    _, steps = steps_of(run, ones(4))
    assert steps.count("record aclnnMuls") == 2


@each_capturing_mode
def test_custom_passes(mode):
    seen = []

    def pre(gm, example_inputs, config):
        seen.append((len(example_inputs), type(config).__name__))

    def post(gm, example_inputs, config):
        for node in gm.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor):
            node.update_arg(1, 3)

    run = compiled(
        lambda x: x * 2, mode, post_grad_custom_pre_pass=pre, post_grad_custom_post_pass=post
    )
    assert run(ones(4)).cpu().tolist() == [3.0] * 4
    assert seen == [(1, "CompilerConfig")]


@pytest.mark.parametrize("strict", [False, True])
def test_tiling_update(strict):
    """Lengths that an attention operator takes on the host are updated, not captured again.

    ``strict`` is what torch turns on where the variable CI is set: a custom operator may not
    return an input, as the one that the vendor puts in place of the user's does.
    """
    with torch._functorch.config.patch(error_on_custom_op_aliasing=strict):
        lengths_are_updated()


def lengths_are_updated():
    heads, depth, longest = 2, 16, 8
    key, value = torch.randn(1, heads, longest, depth), torch.randn(1, heads, longest, depth)

    def program(query, key, value, length):
        return torch.ops.npu.npu_fused_infer_attention_score(
            query,
            key,
            value,
            num_heads=heads,
            input_layout="BNSD",
            scale=depth**-0.5,
            actual_seq_lengths_kv=[length],
        )[0]

    run = compiled(program, dynamic=True)
    captured = []
    for length in (3, 5, 8, 2):
        query = torch.randn(1, heads, 1, depth)
        got, steps = steps_of(run, query.npu(), key.npu(), value.npu(), length)
        expected = torch.nn.functional.scaled_dot_product_attention(
            query, key[:, :, :length], value[:, :, :length]
        )
        assert torch.allclose(got.cpu(), expected, atol=1e-4)
        captured.append("begin" in steps)
    assert captured == [True, False, False, False]


# --- finding faults -------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["optimized", "original"])
def test_data_dump(stage, tmp_path):
    run = compiled(
        lambda x: (x * 2).relu() + 1,
        dump_tensor_data=True,
        data_dump_stage=stage,
        data_dump_dir=str(tmp_path),
    )
    assert run(ones(4)).cpu().tolist() == [3.0] * 4
    torch.npu.synchronize()
    dumped = {path.name.split("_device_")[0]: path for path in tmp_path.rglob("*.pt")}
    assert set(dumped) >= {"mul", "relu", "add"}
    assert torch.load(dumped["mul"], map_location="cpu").tolist() == [2.0] * 4


@pytest.mark.parametrize(
    ("options", "text"),
    [
        pytest.param({"data_dump_dir": "/no/such/place"}, "/no/such/place", id="no directory"),
        pytest.param({"clone_inputs": True}, "clone_input", id="unknown"),
        pytest.param({"clone_input": 0}, "clone_input", id="a number for a bool"),
    ],
)
def test_bad_options_are_refused_before_anything_is_traced(options, text):
    with pytest.raises(ConfigError, match=text):
        backend("npugraph_ex", **options)


def test_debug_save(tmp_path):
    """The vendor reads the variable when it is imported, so it takes a process of its own."""
    import os
    import subprocess

    script = (
        "import torch\n"
        "from xpu_graph import npu_compiler\n"
        "run = torch.compile(lambda x: x * 2, backend=npu_compiler(mode='npugraph_ex'))\n"
        "with torch.no_grad():\n"
        "    assert run(torch.ones(4).npu()).cpu().tolist() == [2.0] * 4\n"
    )
    environment = {**os.environ, "TORCH_COMPILE_DEBUG": "1"}
    done = subprocess.run(
        ascend_sim.command("-c", script),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    names = {path.name for path in pathlib.Path(tmp_path).rglob("*")}
    assert "output_code.py" in names


# --- what is not to be ----------------------------------------------------------------------------


def test_an_operator_on_the_host_names_the_line():
    with refused("device_graph"):
        compiled(lambda x: x + (x.cpu() * torch.ones(4)).npu())(ones(4))


def test_work_on_the_host_at_the_ends_is_right():
    def program(x, scale):
        return (x * scale.to(x.device)).cpu(), x + 1

    run = compiled(program)
    for factor in (2.0, 3.0):
        on_host, on_device = run(ones(4), torch.full((4,), factor))
        assert on_host.device.type == "cpu"
        assert on_host.tolist() == [factor] * 4
        assert on_device.cpu().tolist() == [2.0] * 4


def test_a_call_inside_a_capture_of_the_programs_own():
    run = compiled(lambda x: x * 2)
    x = ones(4)
    run(x)
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        result = run(x)
    for factor in (1.0, 3.0):
        x.fill_(factor)
        graph.replay()
        assert result.cpu().tolist() == [2 * factor] * 4


def test_training_is_refused_by_the_compiler():
    layer = torch.nn.Linear(4, 4).npu()
    from torch._dynamo.backends.common import aot_autograd

    def compile_graph(gm, fake_inputs):
        return npu_compile(gm, fake_inputs, is_inference=False, mode="npugraph_ex")

    with pytest.raises(Exception, match="gradients"):
        torch.compile(layer, backend=aot_autograd(fw_compiler=compile_graph))(ones(2, 4))


def test_inductor_says_what_is_missing():
    with refused("triton-ascend"):
        compiled(lambda x: x + 1, "inductor")(ones(4))


@pytest.mark.parametrize("mode", [*MODES, "device_graph"])
def test_a_graph_without_inputs(mode):
    def program():
        return torch.ones(3, device="npu") + torch.arange(3, device="npu"), 3

    run = compiled(program, mode)
    for _ in range(2):
        values, number = run()
        assert values.cpu().tolist() == [1.0, 2.0, 3.0]
        assert number == 3
