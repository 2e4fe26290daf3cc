"""Captured device graphs: the device part of a graph is recorded once and replayed at each call.

The same on every target whose torch module captures graphs. ``device_graph_compiler`` compiles an
ATen graph, ``GraphRunner`` captures any function.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from torch import fx

from xpu_graph.artifact import SerializableGraphModule
from xpu_graph.backends.device_graph.artifact import DeviceGraphArtifact
from xpu_graph.backends.device_graph.capturable import device_of, rebinds_memory, refusals
from xpu_graph.backends.device_graph.device import graph_device
from xpu_graph.backends.device_graph.options import DeviceGraphOptions
from xpu_graph.backends.device_graph.plan import make_plan
from xpu_graph.backends.device_graph.runner import GraphRunner

__all__ = ["DeviceGraphArtifact", "DeviceGraphOptions", "GraphRunner", "device_graph_compiler"]


def device_graph_compiler(
    gm: fx.GraphModule,
    fake_inputs: Sequence[Any],
    *,
    device_type: str,
    static_inputs: Collection[int] = (),
    options: DeviceGraphOptions | None = None,
) -> DeviceGraphArtifact:
    """Cut a graph into what is captured and what runs eagerly; captures happen when it runs.

    Left out of the captures, and run eagerly at their place: what works on the CPU, copies between
    devices, what the host reads or whose size depends on content, random operators where the
    device does not draw anew at each replay, collectives, custom operators of namespaces that the
    device does not vouch for, higher-order operators and Python functions.

    Args:
        gm: an ATen graph for inference, with fake values.
        fake_inputs: its inputs, in placeholder order.
        device_type: type of the device that captures.
        static_inputs: positions of the inputs that stay where they are, such as parameters.
        options: how to capture; their values have been checked.

    Raises:
        BackendError: there are no device graphs for the type of device.
        BackendUnavailable: what captures them is not installed here.
    """
    device = graph_device(device_type)
    home = device_of(gm, device_type)
    why = rebinds_memory(gm)
    refuse = refusals(home if why is None else None, device.namespaces, device.captures_random)
    plan = make_plan(gm, static_inputs, refuse, home)
    return DeviceGraphArtifact(
        SerializableGraphModule(gm), plan, options or DeviceGraphOptions(), device_type
    )
