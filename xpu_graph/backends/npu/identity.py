"""What code compiled for an NPU depends on beside the graph: versions, the device, the process."""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.metadata
import pathlib

import torch.distributed as dist

from xpu_graph.backends.npu.option_checks import Plan
from xpu_graph.backends.npu.vendor_settings import identity
from xpu_graph.errors import NotCacheable

CANN_MODULES = (*("CANN", "RUNTIME", "COMPILER", "HCCL", "TOOLKIT", "OPP", "OPP_KERNEL", "DRIVER"),)
"""The parts of CANN whose versions torch_npu can tell."""

PROCESS_OPTIONS = (
    "ALLOW_INTERNAL_FORMAT",
    "ALLOW_MATMUL_HF32",
    "ALLOW_CONV_HF32",
    "CUBE_MATH_TYPE",
    "TORCH_NPU_USE_COMPATIBLE_IMPL",
)
"""Options of the process that choose kernels and memory formats, by torch_npu's names."""


def fingerprint(plan: Plan) -> str:
    """One text, equal where compiled code may be exchanged.

    Raises:
        NotCacheable: an option or the installed CANN has no identity.
    """
    import torch_npu

    npu = torch_npu.npu
    versions = {module: npu.utils.get_cann_version(module) for module in CANN_MODULES}
    if not versions["CANN"]:
        raise NotCacheable("torch_npu cannot tell the version of CANN")
    facts = {
        **dict(identity(plan)),
        **{f"version of {module}": version for module, version in versions.items()},
        "torch_npu": f"{torch_npu.__version__} {torch_npu.version.git_version}",
        "vendor sources": _sources(),
        "device": f"{npu.get_device_name()} {npu.utils.get_soc_version()}",
        "deterministic level": str(npu._get_deterministic_level()),
        **{f"option {name}": str(torch_npu._C._npu_getOption(name)) for name in PROCESS_OPTIONS},
        "jit compile": str(not npu.is_jit_compile_false()),
        "group": _group(),
    }
    text = "\n".join(f"{name}: {value}" for name, value in sorted(facts.items()))
    head = f"npu {plan.compiler} {plan.mode or ''}".strip()
    return f"{head} {hashlib.sha256(text.encode()).hexdigest()[:32]}"


@functools.cache
def _sources() -> str:
    """A digest of torchair's and npugraph_ex's Python files; neither has a version."""
    digest = hashlib.sha256()
    for name in ("torchair", "npugraph_ex"):
        spec = importlib.import_module(f"{name}.configs").__spec__
        assert spec is not None
        for directory in spec.submodule_search_locations or ():
            root = pathlib.Path(directory).parent
            for path in sorted(root.rglob("*.py")):
                digest.update(str(path.relative_to(root)).encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:32]


def _group() -> str:
    """Rank and size of the default process group: generated code may hold them."""
    if not (dist.is_available() and dist.is_initialized()):
        return "none"
    return f"rank {dist.get_rank()} of {dist.get_world_size()}"
