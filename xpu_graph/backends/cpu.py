"""Target ``cpu``: the backend to copy when you write one.

Options (``vendor_compiler_config``):

    compiler    "inductor", the default and for now the only one
    mode        a mode of Inductor: "default", "reduce-overhead", "max-autotune", ...
    any name that ``torch._inductor.list_options()`` lists
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from xpu_graph.artifact import SerializableArtifact
from xpu_graph.backends import check_devices, inductor
from xpu_graph.errors import ConfigError, unknown_name
from xpu_graph.target import Target
from xpu_graph.torch_compat import cpu_identity

COMPILERS = ("inductor",)


def why_not(config: Mapping[str, Any] | None = None) -> str | None:
    """What is missing here: Inductor on a CPU needs a C++ compiler to make something new.

    Args:
        config: the options, of which ``cpp.cxx`` names the compiler.
    """
    return inductor.why_not_cpp(config or {})


def check_options(config: Mapping[str, Any]) -> None:
    """Check the options of the target.

    Raises:
        ConfigError: an option is unknown or has an illegal value.
    """
    compiler = config.get("compiler", "inductor")
    if compiler not in COMPILERS:
        raise ConfigError(unknown_name("compiler", compiler, COMPILERS, "Target.cpu"))
    inductor.check_options(_inductor_options(config), "Target.cpu")


def fingerprint(config: Mapping[str, Any]) -> str | None:
    """Inductor's settings and the instruction sets of this CPU."""
    return f"{inductor.fingerprint(_inductor_options(config))} on {cpu_identity()}"


def cpu_compile(
    gm: fx.GraphModule,
    fake_inputs: Sequence[Any],
    *,
    is_inference: bool,
    is_backward: bool,
    **config: Any,
) -> SerializableArtifact:
    """Compile a graph whose tensors live on the CPU.

    Raises:
        BackendUnavailable: the C++ compiler does not work.
        BackendError: a tensor lives elsewhere, or Inductor failed.
    """
    check_devices(gm, Target.cpu, "cpu")
    return inductor.inductor_compiler(gm, fake_inputs, **_inductor_options(config))


def _inductor_options(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "compiler"}
