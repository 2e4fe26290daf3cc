"""What several npu tests use: compiling through us, through the bare vendor, and comparing."""

import contextlib

import pytest
import torch
from torch._dynamo.backends.common import aot_autograd

from xpu_graph import Target, XpuGraph, XpuGraphConfig
from xpu_graph.errors import BackendError

MODES = ("max-autotune", "reduce-overhead", "npugraph_ex")
CAPTURING = ("reduce-overhead", "npugraph_ex")


def backend(mode="npugraph_ex", *, cache=None, config=None, **options):
    """A backend object for one mode of ``ge`` or another compiler."""
    compiler = {"compiler": "ge", "mode": mode} if mode in MODES else {"compiler": mode}
    fields = {"enable_cache": cache is not None, **(config or {})}
    return XpuGraph(
        XpuGraphConfig(target=Target.npu, vendor_compiler_config={**compiler, **options}, **fields),
        cache=cache,
    )


def compiled(function, mode="npugraph_ex", dynamic=None, **options):
    """The function compiled through us, in inference."""
    return inference(torch.compile(function, backend=backend(mode, **options), dynamic=dynamic))


def inference(function):
    """Call without gradients."""

    def call(*args, **kwargs):
        with torch.no_grad():
            return function(*args, **kwargs)

    return call


def bare_vendor(function, *inputs, mode="npugraph_ex", options=None, settings=None):
    """The vendor's own compiled graph for a function, as a direct caller of its compiler gets it.

    Args:
        function: what to compile; it is called once.
        inputs: what to call it with.
        mode: whose compiler.
        options: flat options for npugraph_ex.
        settings: dotted paths and values for torchair.
    """
    made = []

    def compile_graph(gm, fake_inputs):
        if mode == "npugraph_ex":
            made.append(torch.npu.npugraph_ex.compile_fx(gm, fake_inputs, options or {}))
        else:
            import torchair

            config = torchair.CompilerConfig()
            config.mode = mode
            for path, value in (settings or {}).items():
                *groups, leaf = path.split(".")
                owner = config
                for group in groups:
                    owner = getattr(owner, group)
                setattr(owner, leaf, value)
            made.append(torchair.get_compiler(config)(gm, fake_inputs))
        return gm

    with torch.no_grad(), contextlib.suppress(StopIteration):
        torch.compile(
            function,
            backend=aot_autograd(fw_compiler=compile_graph, keep_inference_input_mutations=True),
        )(*(value.clone() if isinstance(value, torch.Tensor) else value for value in inputs))
    (graph,) = made
    return graph


@contextlib.contextmanager
def refused(text, kind=BackendError):
    """The block fails to compile with an error of ours; Dynamo wraps it."""
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        yield
    assert isinstance(caught.value.inner_exception, kind)
    assert text in str(caught.value.inner_exception)


def on_npu(value):
    """The same values on the NPU, strides kept."""
    if isinstance(value, torch.Tensor):
        moved = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="npu")
        return moved.copy_(value)
    return value


def assert_same_numbers(actual, expected, rtol=1e-4, atol=1e-5):
    """NPU results against CPU results: values, dtypes and shapes."""
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(actual.cpu(), expected, rtol=rtol, atol=atol)
        return
    assert type(actual) is type(expected)
    assert len(actual) == len(expected)
    for left, right in zip(actual, expected, strict=True):
        if isinstance(right, torch.Tensor):
            assert_same_numbers(left, right, rtol, atol)
        else:
            assert left == right
