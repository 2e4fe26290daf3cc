"""Each known defect of the vendor's compilers: shown on the bare call, and right through ours."""

import logging

import ascend_sim
import pytest
import torch
from programs import CAPTURING, backend, bare_vendor, compiled, refused

from xpu_graph.backends.npu import engines, npu_compile
from xpu_graph.errors import BackendError, ConfigError
from xpu_graph.testing import capture


def direct(function, *inputs, mode="npugraph_ex", **options):
    """What ``npu_compile`` makes of a function, called without Dynamo's guards around it."""
    with torch.no_grad():
        (unit,) = capture(function, *inputs)
    return npu_compile(unit.gm, unit.fake_inputs, compiler="ge", mode=mode, **options)


each_capturing_mode = pytest.mark.parametrize("mode", CAPTURING)


@each_capturing_mode
class TestOutputIsAnAliasOfAnInput:
    @staticmethod
    def program(x):
        return x.view(2, 4), x + 1

    def test_bare(self, mode):
        graph = bare_vendor(self.program, torch.zeros(8).npu(), mode=mode)
        first, second = torch.zeros(8).npu(), torch.ones(8).npu()
        graph(first)
        view, _ = graph(second)
        assert first.cpu().tolist() == [1.0] * 8  # the first caller's tensor was written to
        assert view.data_ptr() == first.data_ptr()

    def test_ours(self, mode):
        for run in (
            compiled(self.program, mode),
            direct(self.program, torch.zeros(8).npu(), mode=mode),
        ):
            first, second = torch.zeros(8).npu(), torch.ones(8).npu()
            run(first)
            view, more = run(second)
            assert first.cpu().tolist() == [0.0] * 8
            assert view.data_ptr() == second.data_ptr()
            assert view.shape == (2, 4)
            assert more.cpu().tolist() == [2.0] * 8


@each_capturing_mode
class TestTheSameObjectIsReturned:
    def test_bare(self, mode):
        x = torch.zeros(8).npu()
        graph = bare_vendor(lambda x: x + 1, x, mode=mode)
        graph(x)[0].unsqueeze_(0)
        assert graph(x)[0].shape == (1, 8)

    def test_ours(self, mode):
        run = compiled(lambda x: x + 1, mode)
        x = torch.zeros(8).npu()
        first = run(x)
        first.unsqueeze_(0)
        assert run(x).shape == (8,)
        assert run(x) is not first


@each_capturing_mode
class TestAViewIsTakenForTheWholeStorage:
    def test_bare(self, mode):
        flat = {"clone_input": False}
        nested = {"debug.aclgraph.clone_input": False}
        base = torch.arange(8.0).npu()
        graph = bare_vendor(lambda x: x + 1, base[4:], mode=mode, options=flat, settings=nested)
        graph(base[4:])
        assert graph(base[:4])[0].cpu().tolist() == [5.0, 6.0, 7.0, 8.0]  # the first call's

    def test_ours(self, mode):
        run = compiled(lambda x: x + 1, mode, clone_input=False)
        base = torch.arange(8.0).npu()
        assert run(base[4:]).cpu().tolist() == [5.0, 6.0, 7.0, 8.0]
        assert run(base[:4]).cpu().tolist() == [1.0, 2.0, 3.0, 4.0]
        assert base.cpu().tolist() == list(range(8))

    def test_an_input_that_is_written_to_is_refused(self, mode):
        run = compiled(lambda x: x.add_(1), mode, clone_input=False)
        with pytest.raises(BackendError, match="clone_input"):
            run(torch.arange(8.0).npu()[4:])


@each_capturing_mode
class TestALoadedGraphWhereTheVendorLogs:
    def test_bare(self, mode, vendor_logs):
        if mode == "npugraph_ex":
            from npugraph_ex.npu_fx_compiler import _CompiledFxGraph
        else:
            from torchair.npu_fx_compiler import _CompiledFxGraph

        x = torch.zeros(8).npu()
        artifacts = bare_vendor(lambda x: x + 1, x, mode=mode).dump_artifacts()
        loaded = _CompiledFxGraph.load_artifacts(artifacts)
        vendor_logs(mode)
        if mode == "npugraph_ex":
            with pytest.raises(AttributeError):
                loaded(x)

    def test_ours(self, mode, vendor_logs):
        x = torch.zeros(8).npu()
        code = bare_vendor(lambda x: x + 1, x, mode=mode).dump_artifacts().py_code
        loaded = engines.load(code, mode)
        vendor_logs(mode)
        assert loaded(x)[0].cpu().tolist() == [1.0] * 8


@pytest.fixture
def vendor_logs(monkeypatch):
    """Turns the vendor's logging for debugging on, without showing it."""

    def turn_on(mode):
        package = "npugraph_ex" if mode == "npugraph_ex" else "torchair"
        logger = __import__(f"{package}.core.utils", fromlist=["logger"]).logger
        monkeypatch.setattr(logger, "handlers", [logging.NullHandler()])
        before = logger.level
        logger.setLevel(logging.DEBUG)
        restore.append(lambda: logger.setLevel(before))

    restore = []
    yield turn_on
    for undo in restore:
        undo()


class TestWaitAndRecordAreDropped:
    def test_bare(self):
        """The text that the vendor generates has the call, and nothing is recorded."""

        def insert(gm, example_inputs, config):
            node = next(n for n in gm.graph.nodes if n.op == "call_function")
            with gm.graph.inserting_after(node):
                gm.graph.call_function(torch.ops.npugraph_ex.record.default, ())

        x = torch.zeros(4).npu()
        graph = bare_vendor(lambda x: x + 1, x, options={"post_grad_custom_post_pass": insert})
        with ascend_sim.trace() as steps:
            graph(x)
        assert "record aclnnAdds" in steps
        assert "record event" not in steps

    def test_ours_refuses_them(self):
        @torch.no_grad()
        def insert(gm):
            node = next(n for n in gm.graph.nodes if n.op == "call_function")
            with gm.graph.inserting_after(node):
                gm.graph.call_function(torch.ops.npugraph_ex.record.default, ())
            gm.recompile()

        with torch.no_grad():
            (unit,) = capture(lambda x: x + 1, torch.zeros(4).npu())
        insert(unit.gm)
        with pytest.raises(BackendError, match="tagged_event"):
            npu_compile(unit.gm, unit.fake_inputs, mode="npugraph_ex")


class TestCaptureLimitOfOne:
    def test_bare(self):
        x = torch.zeros(4).npu()
        options = {"capture_limit": 1, "force_recapture": True}
        graph = bare_vendor(lambda x: x + 1, x, options=options)
        graph(x)
        with ascend_sim.trace() as steps:
            graph(x)
        assert "replay" not in steps  # it ran operator by operator

    def test_ours_refuses_it(self):
        with pytest.raises(ConfigError, match="capture_limit"):
            backend("npugraph_ex", capture_limit=1, force_recapture=True)

    def test_ours_refuses_it_for_written_inputs(self):
        run = compiled(lambda x: x.add_(1), capture_limit=1)
        with refused("capture_limit"):
            run(torch.zeros(4).npu())

    def test_two_recapture(self):
        run = compiled(lambda x: x + 1, capture_limit=2, force_recapture=True)
        x = torch.zeros(4).npu()
        run(x)
        for _ in range(3):
            with ascend_sim.trace() as steps:
                assert run(x).cpu().tolist() == [1.0] * 4
            assert "replay" in steps
            assert "begin" in steps


@each_capturing_mode
class TestStaticKernelsRunTheGraphTwice:
    @staticmethod
    def program(cache, x):
        cache.add_(x)
        return cache * 2

    def test_bare(self, mode):
        cache, x = torch.zeros(4).npu(), torch.ones(4).npu()
        graph = bare_vendor(
            self.program,
            cache,
            x,
            mode=mode,
            options={"static_kernel_compile": True},
            settings={"experimental_config.aclgraph._aclnn_static_shape_kernel": True},
        )
        graph(cache, x)
        assert cache.cpu().tolist() == [2.0] * 4

    def test_ours(self, mode):
        cache, x = torch.zeros(4).npu(), torch.ones(4).npu()
        run = compiled(self.program, mode, static_kernel_compile=True)
        assert run(cache, x).cpu().tolist() == [2.0] * 4
        assert cache.cpu().tolist() == [1.0] * 4


class TestCatElimination:
    """An input of a ``cat`` that is also an output comes back as a view of the cat's result."""

    @staticmethod
    def program(a, b):
        c = b.relu()
        return torch.cat([a + 1, c]), c

    def test_bare(self):
        a, b = torch.zeros(4).npu(), torch.ones(4).npu()
        graph = bare_vendor(self.program, a, b)
        both, part = graph(a, b)
        assert part.untyped_storage().data_ptr() == both.untyped_storage().data_ptr()

    @each_capturing_mode
    def test_ours(self, mode):
        a, b = torch.zeros(4).npu(), torch.ones(4).npu()
        both, part = compiled(self.program, mode)(a, b)
        both.zero_()
        assert part.cpu().tolist() == [1.0] * 4

    @each_capturing_mode
    def test_mixed_types(self, mode):
        run = compiled(lambda a, b: torch.cat([a + 1, b.relu()]), mode)
        for start in (0, 5):
            a = torch.arange(start, start + 4).npu()
            b = torch.ones(4).npu()
            result = run(a, b)
            assert result.dtype == torch.float32
            assert result.cpu().tolist() == [
                start + 1.0,
                start + 2,
                start + 3,
                start + 4,
                1,
                1,
                1,
                1,
            ]

    def test_mixed_types_turn_it_off(self):
        graph = torch.fx.Graph()
        with torch._subclasses.FakeTensorMode() as mode:
            values = [torch.empty(4, dtype=t, device="npu") for t in (torch.int64, torch.float32)]
        inputs = []
        for i, value in enumerate(values):
            inputs.append(graph.placeholder(f"arg{i}"))
            inputs[-1].meta["val"] = value
        nodes = []
        for node, operator in zip(inputs, ("neg", "relu"), strict=True):
            nodes.append(graph.call_function(getattr(torch.ops.aten, operator).default, (node,)))
            nodes[-1].meta["val"] = node.meta["val"]
        cat = graph.call_function(torch.ops.aten.cat.default, (nodes,))
        with mode:
            cat.meta["val"] = torch.empty(8, device="npu")
        graph.output((cat,))
        gm = torch.fx.GraphModule({}, graph)
        run = npu_compile(gm, values, mode="npugraph_ex")
        (result,) = run(torch.arange(4).npu(), torch.ones(4).npu())
        assert result.cpu().tolist() == [0, -1, -2, -3, 1, 1, 1, 1]


class TestAFailedCapture:
    """The vendor keeps a half-made graph, and the next call of it fails in another way."""

    def test_bare(self):
        x = torch.eye(4).npu()
        graph = bare_vendor(lambda x: x.relu() + 1, x)
        with ascend_sim.failing("aclnnInplaceAdds"), pytest.raises(RuntimeError):
            graph(x)
        with pytest.raises(TypeError, match="NoneType"):
            graph(x)

    @each_capturing_mode
    def test_ours(self, mode):
        run = compiled(lambda x: x.relu() + 1, mode)
        x = torch.ones(4).npu()
        with ascend_sim.failing("aclnnInplaceAdds"):
            for _ in range(2):
                with pytest.raises(BackendError, match="relu"):
                    run(x)
        assert run(x).cpu().tolist() == [2.0] * 4


@each_capturing_mode
class TestChecksRunAtTheFirstCallAlone:
    def test_bare(self, mode):
        graph = bare_vendor(lambda x: x + 1, torch.zeros(4, 8).npu(), mode=mode)
        graph(torch.zeros(4, 8).npu())
        assert graph(torch.ones(1, 8).npu())[0].shape == (4, 8)

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(lambda: torch.ones(1, 8), id="shape"),
            pytest.param(lambda: torch.ones(8, 4).t(), id="stride"),
            pytest.param(lambda: torch.ones(4, 8, dtype=torch.int32), id="dtype"),
            pytest.param(lambda: 3, id="number"),
        ],
    )
    def test_ours(self, mode, other):
        run = direct(lambda x: x + 1, torch.zeros(4, 8).npu(), mode=mode)
        run(torch.zeros(4, 8).npu())
        value = other()
        with pytest.raises(BackendError, match="input 0"):
            run(value.npu() if isinstance(value, torch.Tensor) else value)

    def test_another_device(self, mode):
        run = direct(lambda x: x + 1, torch.zeros(4, 8).npu(), mode=mode)
        with pytest.raises(BackendError, match="cpu"):
            run(torch.zeros(4, 8))


@each_capturing_mode
class TestCopiedInputsAreContiguous:
    @staticmethod
    def program(x):
        return x.as_strided((32,), (1,)) * 2

    def test_bare(self, mode):
        x = torch.arange(32.0).view(8, 4).npu().t()
        result = bare_vendor(self.program, x, mode=mode)(x)[0]
        assert result.cpu().tolist() != [2.0 * i for i in range(32)]

    def test_ours(self, mode):
        run = compiled(self.program, mode)
        for factor in (1, 2):
            x = (factor * torch.arange(32.0)).view(8, 4).npu().t()
            assert run(x).cpu().tolist() == [2.0 * factor * i for i in range(32)]

    def test_an_input_with_gaps_is_refused(self, mode):
        x = torch.arange(64.0).view(8, 8).npu()[:, :4]
        with refused("contiguous"):
            compiled(lambda x: x.as_strided((4,), (8,)) * 2, mode)(x)


def test_deadlock_check_does_not_end_the_process(monkeypatch):
    """Without a dump of the capture the vendor calls ``sys.exit`` from inside the forward."""
    import npugraph_ex._acl_concrete_graph.acl_graph as vendor

    def leave(*_, **__):
        raise SystemExit(1)

    monkeypatch.setattr(vendor.AclGraph, "__call__", leave)
    run = compiled(lambda x: x + 1, deadlock_check=True)
    with pytest.raises(BackendError, match="SystemExit"):
        run(torch.zeros(4).npu())


def test_importing_the_packages_restores_the_process():
    import signal

    from xpu_graph.backends.npu import vendor

    before = logging.getLoggerClass(), signal.getsignal(signal.SIGINT)
    assert vendor.missing() is None
    assert (logging.getLoggerClass(), signal.getsignal(signal.SIGINT)) == before
    from torchair._utils import get_npu_default_decompositions

    assert get_npu_default_decompositions()


def test_inductor_keeps_its_decompositions():
    from torch._inductor.decomposition import decompositions

    before = len(decompositions)
    compiled(lambda x: x + 1, "reduce-overhead")(torch.zeros(4).npu())
    assert len(decompositions) == before
