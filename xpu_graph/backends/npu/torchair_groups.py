"""What the nested groups of ``torchair.CompilerConfig`` hold, as of torch_npu 2.13.0: plain data.

torchair checks names and values of most groups when they are set, and lets anything pass in
``aclgraph_config``, ``npugraphex_config`` and ``export``. Here all are checked, before tracing.
``tests/npu/test_option_drift.py`` compares this with the installed package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xpu_graph.backends.npu.option_table import (
    INT64_MAX,
    MAX_AUTOTUNE,
    OPTIONS,
    REDUCE_OVERHEAD,
    TORCHAIR_MODES,
    OptionSpec,
    VendorOption,
)

_G = frozenset({MAX_AUTOTUNE})
_A = frozenset({REDUCE_OVERHEAD})
_AG = frozenset(TORCHAIR_MODES)


@dataclass(frozen=True, kw_only=True)
class TorchairLeaf(OptionSpec):
    """One value of the nested configuration; ``name`` is its dotted path.

    Attributes:
        refused: why it is not taken here; empty where it is.
    """

    refused: str = ""


def _switch(path: str, modes: frozenset[str], default: bool | None = False) -> TorchairLeaf:
    return TorchairLeaf(path, "bool", default, modes=modes)


def _choice(path: str, modes: frozenset[str], default: str | None, *choices: str) -> TorchairLeaf:
    return TorchairLeaf(path, "str", default, choices=choices, modes=modes)


def _bypass(path: str, kind: str, default: Any, modes: frozenset[str], *choices: str) -> Any:
    return TorchairLeaf(path, kind, default, choices=choices, modes=modes, cache="bypass")


def _refused(path: str, kind: str, default: Any, reason: str) -> TorchairLeaf:
    return TorchairLeaf(path, kind, default, modes=_AG, refused=reason)


def _twin(option: VendorOption, path: str) -> TorchairLeaf:
    """The leaf that holds the value of a flat option."""
    return TorchairLeaf(
        path,
        option.kind,
        not option.default if option.invert else option.default,
        choices=option.choices,
        lo=option.lo,
        hi=option.hi,
        modes=option.modes & _AG,
        cache=option.cache,
    )


_TWINS = {
    row.torchair: row for row in OPTIONS.values() if row.torchair and row.torchair != row.name
}

_JOINT = "xpu_graph makes the joint graph itself; give XpuGraphConfig.partition_fn"
_EXPORT = "a graph in export mode is written to a file and does not run; use torchair.dynamo_export"
_UNREAD = "nothing in torchair reads it"

_OWN = (
    _bypass("debug.graph_dump.type", "str", None, _AG, "txt", "pbtxt", "py"),
    TorchairLeaf("debug.graph_dump.path", "str", None, modes=_AG),
    _bypass("debug.data_dump.type", "str", None, _AG, "npy"),
    TorchairLeaf("debug.data_dump.path", "str", None, modes=_AG),
    _bypass("debug.data_dump.filter", "filter", None, _AG),
    _bypass("debug.fx_summary.type", "str", None, _G, "csv"),
    _switch("debug.fx_summary.skip_compile", _G, True),
    _refused(
        "debug.deadlock_check",
        "bool",
        False,
        f"{_UNREAD}; option 'deadlock_check' works in mode 'npugraph_ex'",
    ),
    _bypass("aoe_config.aoe_mode", "str", None, _G, "2"),
    TorchairLeaf("aoe_config.work_path", "dir", "./", modes=_G),
    TorchairLeaf("aoe_config.aoe_config_file", "file", None, modes=_G),
    *(
        _refused(f"export.{name}", kind, default, _EXPORT)
        for name, kind, default in (
            ("export_mode", "bool", False),
            ("export_path_dir", "dir", "./"),
            ("export_name", "str", None),
            ("weight_name", "str", None),
            ("inputs_name", "str", None),
            ("experimental.auto_atc_config_generated", "bool", False),
        )
    ),
    _switch("export.experimental.enable_record_nn_module_stack", _G),
    _switch("export.experimental.enable_lite_export", _G),
    _choice("dump_config.dump_mode", _G, "all", "input", "output", "all"),
    _switch("dump_config.quant_dumpable", _G),
    TorchairLeaf("dump_config.dump_step", "steps", "", modes=_G),
    TorchairLeaf("dump_config.dump_layer", "layers", "", modes=_G),
    _choice("dump_config.dump_data", _G, "tensor", "tensor", "stats"),
    _bypass("dump_config.dump_config_path", "json_file", None, _G),
    TorchairLeaf("fusion_config.fusion_switch_file", "file", None, modes=_G),
    _switch("experimental_config.cc_parallel_enable", _G),
    _switch("experimental_config.memory_efficiency", _G),
    TorchairLeaf(
        "experimental_config.static_model_ops_lower_limit",
        "int",
        None,
        lo=-1,
        hi=INT64_MAX,
        modes=_G,
    ),
    _choice("experimental_config.jit_compile", _G, "auto", "auto"),
    _refused(
        "experimental_config.npu_fx_pass",
        "bool",
        False,
        "it empties Inductor's tables of decompositions and joint patterns for the whole process; "
        "give XpuGraphConfig.partition_fn",
    ),
    _refused("experimental_config.aot_config_enable_joint_graph", "bool", False, _JOINT),
    _refused("experimental_config.aot_config_output_loss_index", "int", 0, _JOINT),
    _choice(
        "experimental_config.topology_sorting_strategy",
        _G,
        "DFS",
        "BFS",
        "DFS",
        "RDFS",
        "StableRDFS",
    ),
    _bypass("experimental_config.enable_ref_data", "bool", False, _G),
    _switch("experimental_config.enable_view_optimize", _G, True),
    _switch("experimental_config.tiling_schedule_optimize", _G),
    TorchairLeaf(
        "experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir",
        "str",
        None,
        modes=_A,
    ),
    _choice("inference_config.dynamic_gears_merge_policy", _G, "zip", "zip", "product"),
    _switch("ge_config.enable_single_stream", _G),
    _choice("ge_config.oo_level", _G, "O3", "O1", "O3"),
    _switch("ge_config.oo_constant_folding", _G, None),
    _switch("ge_config.oo_dead_code_elimination", _G, None),
    _choice("ge_config.export_compile_stat", _G, "2", "0", "1", "2"),
    TorchairLeaf("ge_config.aicore_num", "text", None, modes=_G),
    TorchairLeaf("ge_config.optimization_switch", "text", None, modes=_G),
    TorchairLeaf("ge_config.multistream_parallel_mode", "text", None, modes=_G),
    *(
        _refused(
            f"npugraphex_config.{option.name}",
            option.kind,
            option.default,
            f"{_UNREAD}; give option {option.name!r}, outside of any group",
        )
        for option in OPTIONS.values()
        if option.torchair and option.entry == "compiler"
    ),
)

LEAVES = {leaf.name: leaf for leaf in (*_OWN, *(_twin(row, path) for path, row in _TWINS.items()))}
"""Dotted path -> leaf, without ``mode`` and the two custom passes, which are no group's."""

TWINS = {path: row.name for path, row in _TWINS.items()}
"""Dotted path -> the flat option that stands for it."""

GROUPS = frozenset(
    path.rsplit(".", depth)[0] for path in LEAVES for depth in range(1, path.count(".") + 1)
)
"""Dotted paths of all groups."""

TOP_GROUPS = frozenset(group for group in GROUPS if "." not in group)
"""The groups that may be given beside the flat options."""
