"""How the tests of the graph engine compile with torchair itself, and compare."""

from typing import Any

import torch
import torchair
from programs import inference


def compiled(function: Any, dynamic: bool = False, **settings: Any) -> Any:
    """The function, or module, through torchair's max-autotune mode, in inference.

    Args:
        function: what to compile.
        dynamic: whether all sizes are symbols.
        settings: options of torchair as ``group__name``.
    """
    config = torchair.CompilerConfig()
    for path, value in settings.items():
        group, leaf = path.split("__")
        setattr(getattr(config, group), leaf, value)
    backend = torchair.get_npu_backend(compiler_config=config)
    return inference(torch.compile(function, backend=backend, dynamic=dynamic))


def assert_same(actual: Any, expected: Any, tolerance: float) -> None:
    """Results, perhaps on the NPU, against those of the CPU: values, types and shapes."""
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(actual.cpu(), expected, rtol=tolerance, atol=tolerance)
        return
    assert len(actual) == len(expected)
    for left, right in zip(actual, expected, strict=True):
        assert_same(left, right, tolerance)
