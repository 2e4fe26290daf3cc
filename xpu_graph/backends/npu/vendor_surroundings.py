"""What the vendor's own ``torch.compile`` backends do around their compilers, done for ours."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from xpu_graph.backends.npu import ge_decompositions, vendor
from xpu_graph.backends.npu.option_checks import Plan
from xpu_graph.backends.npu.option_table import MAX_AUTOTUNE, NPUGRAPH_EX
from xpu_graph.backends.surroundings import Surroundings
from xpu_graph.errors import BackendError, ConfigError
from xpu_graph.fx import placeholders
from xpu_graph.torch_compat import forget_fake_results, input_name

_patch_lock = threading.Lock()
_patched: list[bool] = []


def surroundings_of(plan: Plan) -> Surroundings:
    """Decompositions, Dynamo-level changes and marks for one set of options."""
    own = Surroundings(
        decompositions=plan.value("custom_decompositions"),
        keep_input_mutations=plan.value("keep_inference_input_mutations"),
        partition_fn=plan.value("partition_fn"),
    )
    if plan.mode is None:
        return own
    around = dataclasses.replace(
        own,
        decompositions={**_vendor_decompositions(plan), **own.decompositions},
        prepare=functools.partial(_prepare, plan.mode),
    )
    if plan.mode != MAX_AUTOTUNE:
        return around
    gears = functools.partial(_gear_marks, plan.value("dim_gears") or {})
    return dataclasses.replace(around, input_marks=gears)


def _vendor_decompositions(plan: Plan) -> dict[Any, Callable[..., Any]]:
    """The vendor's table; its patches of torch's own tables are applied once a process."""
    import npugraph_ex._utils
    import torchair._utils

    with _patch_lock:
        if not _patched:
            # torchair first: it does not look whether the other one has been there.
            for package in (vendor.torchair(), vendor.npugraph_ex()):
                utils = torchair._utils if package.__name__ == "torchair" else npugraph_ex._utils
                utils.add_npu_patch({}, package.CompilerConfig())
            forget_fake_results()  # Dynamo has traced this graph with the operators as they were
            _patched.append(True)
    chosen = npugraph_ex._utils if plan.mode == NPUGRAPH_EX else torchair._utils
    table: dict[Any, Callable[..., Any]] = dict(chosen.get_npu_default_decompositions())
    if plan.mode == MAX_AUTOTUNE:
        table.update(ge_decompositions.decompositions())
    return table


def _prepare(mode: str, gm: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule:
    """Guard the level of determinism, and turn streams and events into operators."""
    from torch_npu.dynamo._deterministic_guard import install_npu_deterministic_level_guard

    install_npu_deterministic_level_guard()
    if mode == MAX_AUTOTUNE:
        return gm
    if mode == NPUGRAPH_EX:
        from npugraph_ex._acl_concrete_graph.replace_stream_event import replace_stream_event_pass
    else:
        from torchair._acl_concrete_graph.replace_stream_event import replace_stream_event_pass
    return replace_stream_event_pass(gm)  # type: ignore[no-any-return]


def _gear_marks(
    given: Mapping[str, Mapping[int, Sequence[int]]], gm: fx.GraphModule, inputs: Sequence[Any]
) -> Mapping[int, Mapping[str, Any]]:
    """Gears of sizes, from the option or from ``torchair.inference.set_dim_gears``.

    Raises:
        ConfigError: the option names no input of the program.
        BackendError: a size is none of its gears, or the gears are not legal for the input.
    """
    from torchair.inference._gear_utils import get_dim_gears, guard_gears_shape, set_dim_gears

    found: dict[int, Mapping[str, Any]] = {}
    names = [input_name(node) for node in placeholders(gm.graph)]
    for wanted in given:
        if wanted not in names:
            legal = ", ".join(repr(known) for known in names if known)
            raise ConfigError(f"dim_gears names {wanted!r}, which is no input; there are {legal}")
    for position, (name, value) in enumerate(zip(names, inputs, strict=True)):
        if not isinstance(value, torch.Tensor):
            continue
        if name is not None and name in given:
            gears = {dim: list(steps) for dim, steps in given[name].items()}
            with _named(f"dim_gears of {name!r}"):
                set_dim_gears(value, gears)
        chosen = get_dim_gears(value)
        if chosen is not None:
            found[position] = {"dim_gears": {dim: list(steps) for dim, steps in chosen.items()}}
    if found:
        with _named("dim_gears"):
            guard_gears_shape(inputs)
    return found


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    """The vendor asserts what it does not take."""
    try:
        yield
    except AssertionError as error:
        raise BackendError(f"{what}: {error}") from error
