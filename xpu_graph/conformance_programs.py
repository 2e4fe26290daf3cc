"""What the conformance suite compiles, and how it compiles in a new process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import torch

from xpu_graph.cache import XpuGraphLocalCache
from xpu_graph.compiler import XpuGraph
from xpu_graph.config import XpuGraphConfig


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What the suite compiles where any program will do."""
    return (x + y) * 2


def writes_to_input(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Writes to an input that it also reads."""
    x.mul_(2)
    return x + y


def only_writes(x: torch.Tensor, y: torch.Tensor) -> None:
    """Is run for what it writes."""
    x.add_(y)


def shares_memory(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Returns tensors that share memory with an input and with each other."""
    z = x + y
    return x.view(-1), z, z[1:], x


def returns_no_tensors_too(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
    """Returns None, a number, and a size, which is a symbol where sizes are dynamic."""
    return None, (x + y) * 2, 3, x.shape[0] + 1


def has_constant(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Holds a tensor of its own; the last size of the inputs is 8."""
    return (x + y) * torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], device=x.device)


def in_new_process(job: Mapping[str, Any]) -> dict[str, Any]:
    """Compile ``program`` in a new process that finds modules where this one does.

    Args:
        job: target, vendor options, directory of a local cache, inputs as lists, and their device.

    Returns:
        What became of the cache, the steps of the compilation, and the result as a list.
    """
    done = subprocess.run(
        [sys.executable, "-m", __name__, json.dumps(job)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _compile_once(job: Mapping[str, Any]) -> dict[str, Any]:
    backend = XpuGraph(
        XpuGraphConfig(target=job["target"], vendor_compiler_config=job["options"]),
        cache=XpuGraphLocalCache(job["directory"]),
    )
    inputs = [torch.tensor(values, device=job["device"]) for values in job["inputs"]]
    with torch.no_grad():
        result = torch.compile(program, backend=backend)(*inputs)
    (graph,) = backend.reports[-1].graphs
    return {"cache": graph.cache, "steps": sorted(graph.seconds), "result": result.tolist()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_compile_once(json.loads(sys.argv[1]))) + "\n")
