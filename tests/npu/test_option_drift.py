"""The option table and the snapshot of torchair's groups, compared with the installed packages.

A failure says that the vendor changed a name, a default or a choice: the table is what to change.
"""

import ast
import inspect
import textwrap

import pytest

torch_npu = pytest.importorskip("torch_npu")

from xpu_graph.backends.npu import vendor  # noqa: E402
from xpu_graph.backends.npu.option_checks import read_options  # noqa: E402
from xpu_graph.backends.npu.option_table import NPUGRAPH_EX, OPTIONS  # noqa: E402
from xpu_graph.backends.npu.option_values import SUPER_KERNEL_KEYS  # noqa: E402
from xpu_graph.backends.npu.torchair_groups import LEAVES, TOP_GROUPS, TWINS  # noqa: E402
from xpu_graph.backends.npu.vendor_settings import apply, torchair_settings  # noqa: E402

vendor.attach()  # imports torchair before npugraph_ex, the one order that works

from npugraph_ex.configs.compiler_config import CompilerConfig as FlatConfig  # noqa: E402
from torchair.configs.compiler_config import CompilerConfig as NestedConfig  # noqa: E402
from torchair.configs.npugraphex_config import _NpuGraphExConfig  # noqa: E402

FLAT = [name for name, row in OPTIONS.items() if NPUGRAPH_EX in row.modes]
FLAT_VENDOR = [name for name in FLAT if OPTIONS[name].entry == "compiler"]
NO_GROUP = {"mode", "post_grad_custom_pre_pass", "post_grad_custom_post_pass"}


def holder(config, path):
    """What a path leads to: an object that holds a value, or the value."""
    *groups, leaf = path.split(".")
    for group in groups:
        config = getattr(config, group)
    return getattr(config, leaf)


def is_option_value(value):
    return any(kind.__name__ == "OptionValue" for kind in type(value).__mro__)


def default_of(value):
    return value.default if is_option_value(value) else value


def choices_of(value):
    return getattr(value, "optional", None)


def bounds_of(value):
    if type(value).__name__ != "IntRangeValue":
        return None
    return value._IntRangeValue__min, value._IntRangeValue__max


def kind_of(value):
    kind = type(value).__name__
    known = {
        "IntRangeValue": "int",
        "IntListValue": "int_list",
        "StrOptionValue": "str",
        "MustExistedPathValue": "dir",
        "FileValue": "file",
        "MustExistedFileAddr": "json_file",
    }
    if kind in known:
        return known[kind]
    if kind == "OptionValue" and value.optional is not None:
        return "bool" if set(value.optional) == {True, False} else "str"
    return None


def leaf_paths(config, prefix=""):
    """Everything of a nested configuration that can be set, but for the private ``_path``."""
    for name, value in vars(config).items():
        if name in ("_fixed_attrs", "_path"):
            continue
        if hasattr(value, "__dict__") and not is_option_value(value):
            yield from leaf_paths(value, f"{prefix}{name}.")
            unread = set(getattr(type(value), "OPTIONS_TO_CONFIG_MAP", ()))
            yield from (f"{prefix}{name}.{option}" for option in unread)
        else:
            yield f"{prefix}{name}"
    for name in vars(config).get("_fixed_attrs", ()):
        if name not in vars(config) and isinstance(getattr(type(config), name, None), property):
            yield f"{prefix}{name}"


def compare(ours, held):
    default = list(ours.default) if isinstance(ours.default, tuple) else ours.default
    assert default == default_of(held), ours.name
    if ours.choices:
        assert set(ours.choices) == set(choices_of(held)), ours.name
    if bounds_of(held) is not None:
        assert (ours.lo, ours.hi) == bounds_of(held), ours.name
    if kind_of(held) is not None:
        assert ours.kind == kind_of(held), ours.name


# --- npugraph_ex ------------------------------------------------------------------------------


def test_the_table_has_the_options_of_npugraph_ex():
    vendors = {name for name in vars(FlatConfig()) if name != "_fixed_attrs"}
    assert vendors == {*FLAT_VENDOR, "mode"}


@pytest.mark.parametrize("name", FLAT_VENDOR)
def test_an_option_of_npugraph_ex(name):
    compare(OPTIONS[name], getattr(FlatConfig(), name))


# --- torchair ---------------------------------------------------------------------------------


def test_the_snapshot_has_the_leaves_of_torchair():
    vendors = set(leaf_paths(NestedConfig())) - NO_GROUP
    assert vendors == set(LEAVES)


def test_the_snapshot_has_the_groups_of_torchair():
    config = NestedConfig()
    vendors = {name for name, value in vars(config).items() if hasattr(value, "__dict__")}
    assert {name for name in vendors if not is_option_value(getattr(config, name))} == TOP_GROUPS


@pytest.mark.parametrize("path", sorted(LEAVES))
def test_a_leaf_of_torchair(path):
    compare(LEAVES[path], holder(NestedConfig(), path))


def test_the_modes_of_torchair():
    assert set(NestedConfig().mode.optional) == {"max-autotune", "reduce-overhead", "npugraph_ex"}


def test_the_vendors_own_translation_is_ours():
    ours = {
        row.name: row.torchair
        for row in OPTIONS.values()
        if row.torchair and row.entry == "compiler"
    }
    assert ours == _NpuGraphExConfig.OPTIONS_TO_CONFIG_MAP
    inverted = {row.name for row in OPTIONS.values() if row.invert}
    assert inverted == set(_NpuGraphExConfig.OPTIONS_TO_CONFIG_TRANSFORMATIONS)


SWITCHES = [
    path
    for path, name in sorted(TWINS.items())
    if OPTIONS[name].kind == "bool" and OPTIONS[name].entry == "compiler"
]


@pytest.mark.parametrize("path", SWITCHES)
def test_a_flat_option_reaches_its_leaf(path):
    row = OPTIONS[TWINS[path]]
    config = NestedConfig()
    mode = sorted(LEAVES[path].modes)[-1]
    plan = read_options({"mode": mode, row.name: not row.default})
    apply(config, torchair_settings(plan))
    assert config.mode.value == mode
    assert holder(config, path).value == str(int(not LEAVES[path].default))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("debug.graph_dump.type", "py"),
        ("debug.graph_dump.path", "dumps"),
        ("debug.data_dump.type", "npy"),
        ("debug.data_dump.path", "dumps"),
        ("debug.fx_summary.type", "csv"),
        ("aoe_config.aoe_mode", "2"),
        ("dump_config.dump_step", "0|2-5|10"),
        ("dump_config.dump_layer", "Mul_1 Add1"),
        ("experimental_config.static_model_ops_lower_limit", -1),
        ("ge_config.oo_constant_folding", False),
        ("ge_config.export_compile_stat", "0"),
        ("ge_config.aicore_num", "24"),
    ],
)
def test_what_is_taken_here_the_vendor_takes(path, value):
    group = value
    for name in reversed(path.split(".")):
        group = {name: group}
    plan = read_options({"compiler": "ge", **group})
    apply(NestedConfig(), torchair_settings(plan))


# --- super kernels ----------------------------------------------------------------------------


def test_the_settings_of_super_kernels():
    method = torch_npu.npu.NPUGraph._validate_options
    source = ast.parse(textwrap.dedent(inspect.getsource(method)))
    assigned = next(
        node.value
        for node in ast.walk(source)
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "valid_options"
    )
    vendors = {
        name: {key: described(entry) for key, entry in entries.items()}
        for name, entries in eval(ast.unparse(assigned)).items()
    }
    assert vendors == {
        "optimize_options": SUPER_KERNEL_KEYS["super_kernel_optimize"],
        "debug_options": SUPER_KERNEL_KEYS["super_kernel_debug"],
    }


def described(entry):
    if "sub_options" in entry:
        return {key: described(inner) for key, inner in entry["sub_options"].items()}
    assert entry.get("element_type", str) is str
    return entry["value_type"]
