"""The joint graph of forward and backward: improved as one, then cut in two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from xpu_graph import effects, torch_compat
from xpu_graph.config import XpuGraphConfig, load_dotted_name
from xpu_graph.errors import ConfigError
from xpu_graph.fakes import refresh_values
from xpu_graph.fx import placeholders, storages_of
from xpu_graph.stage import Stage, Unit

Partition = Callable[..., Any]
"""Cuts a joint graph: ``f(joint, inputs, *, num_fwd_outputs, ...) -> (forward, backward)``."""


def partitioner(
    config: XpuGraphConfig,
    default: Partition | None,
    improve: Callable[[Unit], object] | None,
    name: str,
) -> Partition:
    """What AOTAutograd is given to cut joint graphs with.

    Args:
        config: names the function that cuts.
        default: what the target cuts with where the configuration names nothing.
        improve: changes the graph in place before it is cut.
        name: begins the names of the units.

    Returns:
        A function of the joint graph that raises ``ConfigError`` where the configured one does not
        return two graphs.
    """
    cut = _cut(config, default)

    def partition(joint: fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
        if improve is not None:
            fake_inputs = [node.meta["val"] for node in placeholders(joint.graph)]
            refresh_values(joint.graph)
            improve(Unit(Stage.joint, joint, fake_inputs, name=f"{name}_{Stage.joint.value}"))
        _keep_what_is_overwritten(joint)
        made = cut(joint, inputs, **kwargs)
        if not _is_pair_of_graphs(made):
            raise ConfigError(
                f"XpuGraphConfig.partition_fn: {config.partition_fn!r} returned {made!r}, "
                "and not the forward and the backward graph: (GraphModule, GraphModule)"
            )
        return made

    return partition


def _keep_what_is_overwritten(joint: fx.GraphModule) -> None:
    """Let what forward reads of memory that it writes to be saved, and not be computed again.

    The min-cut partitioner does not look at writes; in backward it would read what was written.
    """
    written = {
        storage
        for node in joint.graph.nodes
        if node.op == "call_function"
        for argument in effects.written_args(node)
        for storage in storages_of(argument)
    }
    if not written:
        return
    for node in joint.graph.nodes:
        reads = {storage for used in node.all_input_nodes for storage in storages_of(used)}
        is_view = not written.isdisjoint(storages_of(node))
        if node.op == "call_function" and not is_view and not written.isdisjoint(reads):
            node.meta.setdefault("recompute", CheckpointPolicy.MUST_SAVE)


def _cut(config: XpuGraphConfig, default: Partition | None) -> Partition:
    chosen = config.partition_fn if config.partition_fn is not None else default
    if chosen is None or chosen == "DEFAULT":
        return torch_compat.default_partition  # type: ignore[no-any-return]
    if chosen == "MINCUT":
        return torch_compat.min_cut_rematerialization_partition  # type: ignore[no-any-return]
    if isinstance(chosen, str):
        return load_dotted_name(chosen, "XpuGraphConfig.partition_fn")  # type: ignore[no-any-return]
    return chosen


def _is_pair_of_graphs(made: object) -> bool:
    return (
        isinstance(made, (tuple, list))
        and len(made) == 2
        and all(isinstance(part, fx.GraphModule) for part in made)
    )
