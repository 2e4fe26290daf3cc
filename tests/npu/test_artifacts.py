"""What one process compiled, another one runs, without compiling and with the same numbers."""

import json
import os
import pathlib
import subprocess

import ascend_sim
import pytest
import torch
from programs import CAPTURING, MODES, backend, bare_vendor, compiled

from xpu_graph import CacheError, NotCacheable, XpuGraphLocalCache, XpuGraphMemoryCache
from xpu_graph.artifact import SerializableArtifact
from xpu_graph.backends.npu import (
    NpuSerializableArtifact,
    engines,
    ge_compiler,
    npu_compile,
)
from xpu_graph.testing import capture

HERE = pathlib.Path(__file__).resolve().parent


def run_program(*arguments):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), *_package_path()]),
    }
    done = subprocess.run(
        ascend_sim.command(str(HERE / "artifact_program.py"), *arguments),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def _package_path():
    import xpu_graph

    return [str(pathlib.Path(xpu_graph.__file__).parents[1])]


@pytest.mark.parametrize("mode", [*MODES, "device_graph"])
@pytest.mark.parametrize("how", [["static"], ["dynamic", "freeze"]], ids=["static", "dynamic"])
def test_a_new_process_does_not_compile(mode, how, tmp_path):
    first = run_program(mode, str(tmp_path), *how)
    assert set(first["cache"]) == {"miss"}
    second = run_program(mode, str(tmp_path), *how, "nocompile")
    assert set(second["cache"]) == {"hit"}
    assert first["worst"] < 1e-5
    assert second["worst"] < 1e-5


def unit_of(function, *inputs, **how):
    with torch.no_grad():
        (unit,) = capture(function, *inputs, **how)
    return unit


def test_the_compiler_by_its_own_name():
    unit = unit_of(lambda x: x + 1, torch.ones(4).npu())
    artifact = ge_compiler(unit.gm, unit.fake_inputs, mode="npugraph_ex")
    assert artifact(torch.ones(4).npu())[0].cpu().tolist() == [2.0] * 4


@pytest.mark.parametrize("mode", CAPTURING)
def test_bytes(mode):
    weight = torch.arange(8.0).npu()

    def program(x):
        return x.t() * 2, x.sum(0) * weight

    unit = unit_of(program, torch.ones(4, 8).npu())
    artifact = npu_compile(unit.gm, unit.fake_inputs, mode=mode)
    loaded = SerializableArtifact.rebuild_from_bytes(artifact.convert_to_bytes())
    assert type(loaded) is NpuSerializableArtifact
    assert NpuSerializableArtifact(loaded) is loaded
    inputs = [weight if value.dim() == 1 else torch.ones(4, 8).npu() for value in unit.fake_inputs]
    for left, right in zip(artifact(*inputs), loaded(*inputs), strict=True):
        assert left.cpu().equal(right.cpu())
        assert left.stride() == right.stride()


def owned_constant():
    unit = unit_of(lambda x: x + torch.ones(4096, device="npu"), torch.ones(4096).npu())
    constant = torch.full((4096,), 0.123456).npu()
    unit.gm.register_buffer("big", constant)
    graph = unit.gm.graph
    add = next(node for node in graph.nodes if node.target is torch.ops.aten.add.Tensor)
    with graph.inserting_before(add):
        node = graph.get_attr("big")
    node.meta["val"] = add.meta["val"]
    add.update_arg(1, node)
    return unit


@pytest.mark.parametrize("mode", MODES)
def test_constants_are_inputs(mode):
    unit = owned_constant()
    artifact = npu_compile(unit.gm, unit.fake_inputs, mode=mode, compiler="ge")
    members = artifact.members()
    assert len(members["constants.safetensors"]) > 4096 * 4
    assert len(members["code.py"]) < 4096 * 4
    loaded = NpuSerializableArtifact.from_members(members)
    for run in (artifact, loaded):
        assert run(torch.ones(4096).npu())[0].cpu().equal(torch.full((4096,), 1.0 + 0.123456))


def reason_not_kept(function, *inputs, **options):
    cache = XpuGraphMemoryCache()
    made = backend(options.pop("mode", "npugraph_ex"), cache=cache, **options)
    with torch.no_grad():
        torch.compile(function, backend=made)(*inputs)
    return made.reports[-1].graphs[-1].cache


def side_stream(x):
    event = torch.npu.Event()
    event.record()
    with torch.npu.stream(STREAM):
        event.wait()
        y = x + 1
        done = torch.npu.Event()
        done.record()
    done.wait()
    return y


STREAM = torch.npu.Stream()


@pytest.mark.parametrize(
    ("function", "options", "text"),
    [
        pytest.param(lambda x: torch.randn_like(x) + x, {}, "random", id="random numbers"),
        pytest.param(side_stream, {}, "stream", id="streams"),
        pytest.param(
            lambda x: x + 1, {"use_graph_pool": (0, 7)}, "use_graph_pool", id="a pool's handle"
        ),
        pytest.param(
            lambda x: x + 1,
            {"post_grad_custom_pre_pass": type("Pass", (), {"__call__": lambda *_: None})()},
            "post_grad_custom_pre_pass",
            id="a pass without identity",
        ),
        pytest.param(
            lambda x: x + 1, {"dump_tensor_data": True}, "dump_tensor_data", id="data dump"
        ),
    ],
)
def test_what_is_not_kept_says_why(function, options, text, tmp_path):
    if "dump_tensor_data" in options:
        options = {**options, "data_dump_dir": str(tmp_path)}
    outcome = reason_not_kept(function, torch.ones(4).npu(), **options)
    assert outcome.startswith("not cacheable")
    assert text in outcome


def test_a_pass_with_an_identity_is_kept():
    def custom(gm, inputs, config):
        """Changes nothing."""

    outcome = reason_not_kept(
        lambda x: x + 1, torch.ones(4).npu(), post_grad_custom_pre_pass=custom
    )
    assert outcome == "miss"


def test_cann_without_a_version_is_not_kept(monkeypatch):
    monkeypatch.setattr(torch.npu.utils, "get_cann_version", lambda module: "")
    assert "version of CANN" in reason_not_kept(lambda x: x + 1, torch.ones(4).npu())


def key_of(mode="npugraph_ex", **options):
    made = backend(mode, cache=XpuGraphMemoryCache(), **options)
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(lambda x: x + 1, backend=made)(torch.ones(4).npu())
    return made.reports[-1].graphs[-1].key


class TestKey:
    def test_equal_settings_agree(self):
        assert key_of(clone_input=True) == key_of(clone_input=True)

    @pytest.mark.parametrize(
        "options",
        [{"clone_output": True}, {"inplace_pass": False}, {"frozen_parameter": True}],
        ids=lambda options: next(iter(options)),
    )
    def test_options_count(self, options):
        assert key_of() != key_of(**options)

    def test_modes_count(self):
        assert len({key_of(mode) for mode in CAPTURING}) == 2

    def test_the_level_of_determinism_counts(self):
        before = torch.npu._get_deterministic_level()
        plain = key_of()
        torch.npu.set_deterministic_level(2)
        try:
            assert key_of() != plain
        finally:
            torch.npu.set_deterministic_level(before)

    @pytest.mark.parametrize("module", ["CANN", "OPP", "DRIVER"])
    def test_versions_of_cann_count(self, module, monkeypatch):
        plain = key_of()
        real = torch.npu.utils.get_cann_version
        monkeypatch.setattr(
            torch.npu.utils,
            "get_cann_version",
            lambda asked: "9.9.9" if asked == module else real(asked),
        )
        assert key_of() != plain

    def test_the_device_counts(self):
        def on(index):
            made = backend(cache=XpuGraphMemoryCache())
            torch._dynamo.reset()
            with torch.no_grad():
                run = torch.compile(lambda x: x + 1, backend=made)
                assert run(torch.ones(4, device=f"npu:{index}")).device.index == index
            return made.reports[-1].graphs[-1].key

        assert on(0) != on(1)


class TestDamagedEntries:
    def members(self):
        unit = unit_of(lambda x: x.t() + 1, torch.ones(4, 8).npu())
        return npu_compile(unit.gm, unit.fake_inputs, mode="npugraph_ex").members()

    @pytest.mark.parametrize(
        "name", ["code.py", "call.json", "constants.safetensors", "eager.kind"]
    )
    def test_a_missing_part(self, name):
        members = self.members()
        del members[name]
        with pytest.raises(CacheError):
            NpuSerializableArtifact.from_members(members)

    @pytest.mark.parametrize(
        ("name", "content"),
        [("code.py", b"raise RuntimeError()"), ("code.py", b"x ="), ("call.json", b"{}")],
    )
    def test_a_wrong_part(self, name, content):
        with pytest.raises(CacheError):
            NpuSerializableArtifact.from_members({**self.members(), name: content})

    def test_an_entry_that_does_not_load_is_a_miss(self, tmp_path, monkeypatch):
        x = torch.ones(4).npu()

        def run():
            torch._dynamo.reset()
            made = backend(cache=XpuGraphLocalCache(tmp_path))
            with torch.no_grad():
                result = torch.compile(lambda x: x + 1, backend=made)(x)
            assert result.cpu().tolist() == [2.0] * 4
            return made.reports[-1].graphs[-1].cache

        assert run() == "miss"

        def refuse(*_):
            raise CacheError("another version of the vendor's package")

        with monkeypatch.context() as patch:
            patch.setattr(engines, "load", refuse)
            assert run() == "miss"
        assert run() == "hit"


def test_the_vendor_without_a_text_is_told():
    class Compiled:
        def dump_artifacts(self):
            raise RuntimeError("Compiled fx type x does not support serialize.")

    with pytest.raises(NotCacheable, match="serialize"):
        engines.code_of(Compiled())


def test_bare_text_runs_in_this_process():
    x = torch.ones(4).npu()
    code = bare_vendor(lambda x: x + 1, x).dump_artifacts().py_code
    assert engines.load(code, "npugraph_ex")(x)[0].cpu().tolist() == [2.0] * 4
    assert compiled(lambda x: x + 1)(x).cpu().tolist() == [2.0] * 4
