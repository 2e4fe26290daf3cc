"""Target ``npu``: Ascend. This version knows the target and says why it cannot be used."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from torch import fx

from xpu_graph.errors import BackendUnavailable


def why_not() -> str | None:
    """What is missing here, in one sentence."""
    if importlib.util.find_spec("torch_npu") is None:
        return "Target.npu needs the package torch_npu, which is not installed here"
    return "torch_npu is installed, but this version of xpu_graph does not drive it yet"


def check_options(config: Mapping[str, Any]) -> None:
    """The options are checked by the version that compiles."""


def fingerprint(config: Mapping[str, Any]) -> str | None:
    """Nothing is compiled, so nothing is kept."""
    return None


def npu_compile(
    gm: fx.GraphModule,
    fake_inputs: Sequence[Any],
    *,
    is_inference: bool,
    is_backward: bool,
    **config: Any,
) -> NoReturn:
    """Refuse, with the reason.

    Raises:
        BackendUnavailable: always.
    """
    raise BackendUnavailable(str(why_not()))
