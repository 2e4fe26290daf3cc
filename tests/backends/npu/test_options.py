"""The options of target npu: the default rule, what is refused and how, and what is normalised."""

import functools
import warnings

import pytest
import torch

from xpu_graph.backends.npu.option_checks import read_options
from xpu_graph.backends.npu.option_table import (
    ENGINES,
    GE_MODES,
    LEGACY,
    OPTIONS,
    SYNONYMS,
    TORCHAIR_MODES,
)
from xpu_graph.backends.npu.torchair_groups import LEAVES, TOP_GROUPS, TWINS
from xpu_graph.environment import VENDOR_MODES
from xpu_graph.errors import ConfigError


def engine_config(engine):
    return {"mode": engine} if engine in GE_MODES else {"compiler": engine}


def refusal(config):
    with pytest.raises(ConfigError) as caught:
        read_options(config)
    return str(caught.value)


def assert_names(text, *parts):
    missing = [part for part in parts if part not in text]
    assert not missing, f"{missing} not in {text!r}"


def change_nothing(graph_module, example_inputs, config):
    pass


# --- compiler and mode ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        pytest.param({}, ("ge", "reduce-overhead"), id="nothing"),
        pytest.param({"clone_input": False}, ("ge", "reduce-overhead"), id="an_option_alone"),
        pytest.param({"compiler": "ge"}, ("ge", "max-autotune"), id="ge"),
        pytest.param({"mode": "max-autotune"}, ("ge", "max-autotune"), id="mode_max-autotune"),
        pytest.param({"mode": "npugraph_ex"}, ("ge", "npugraph_ex"), id="mode_npugraph_ex"),
        pytest.param(
            {"compiler": "ge", "mode": "reduce-overhead"}, ("ge", "reduce-overhead"), id="both"
        ),
        pytest.param({"compiler": "npugraph_ex"}, ("ge", "npugraph_ex"), id="short_form"),
        pytest.param(
            {"compiler": "npugraph_ex", "mode": "npugraph_ex"},
            ("ge", "npugraph_ex"),
            id="short_form_with_its_mode",
        ),
        pytest.param({"compiler": "device_graph"}, ("device_graph", None), id="device_graph"),
        pytest.param({"compiler": "inductor"}, ("inductor", None), id="inductor"),
    ],
)
def test_the_default_rule(config, expected):
    plan = read_options(config)
    assert (plan.compiler, plan.mode) == expected


@pytest.mark.parametrize("compiler", ["gee", None, 3])
def test_an_unknown_compiler_lists_the_legal_ones(compiler):
    assert_names(refusal({"compiler": compiler}), repr(compiler), "device_graph", "inductor")


@pytest.mark.parametrize("mode", sorted({*VENDOR_MODES, "none"} - {*GE_MODES}))
def test_a_mode_of_another_compiler_lists_the_legal_ones(mode):
    assert_names(refusal({"mode": mode}), repr(mode), *GE_MODES, "inductor")


def test_a_compiler_without_modes_takes_none():
    text = refusal({"compiler": "device_graph", "mode": "max-autotune"})
    assert_names(text, "'max-autotune'", "device_graph")


def test_the_short_form_takes_no_other_mode():
    text = refusal({"compiler": "npugraph_ex", "mode": "max-autotune"})
    assert_names(text, "'max-autotune'", "npugraph_ex")


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "suggestion"),
    [
        *((synonym, option) for synonym, option in SYNONYMS.items()),
        ("clone_inptu", "clone_input"),
        ("captur_limit", "capture_limit"),
        ("Force_Eager", "force_eager"),
        ("oo_level", "ge_config"),
        ("debug.run_eagerly", "force_eager"),
        ("ge_confg", "ge_config"),
    ],
)
def test_an_unknown_option_names_the_nearest_and_where_it_works(key, suggestion):
    text = refusal({"mode": "npugraph_ex", key: True})
    assert_names(text, repr(key), "npu/npugraph_ex", "did you mean")
    hint = text.partition("did you mean")[2].partition(" Legal:")[0]
    assert_names(hint, repr(suggestion), "mode ")


def test_a_synonym_that_says_the_opposite_is_marked():
    assert_names(refusal({"disable_mempool_reuse_in_same_fx": True}), "the opposite")


def test_a_name_like_no_other_lists_what_the_mode_takes():
    text = refusal({"compiler": "device_graph", "zzzz": 1})
    assert "did you mean" not in text
    takes = text.partition("Legal: ")[2].split(", ")
    wanted = {name for name, row in OPTIONS.items() if "device_graph" in row.modes}
    assert set(takes) == wanted | {"compiler", "mode", "allow_unsafe"}


def test_synonyms_lead_to_options():
    assert set(SYNONYMS.values()) | set(LEGACY.values()) <= set(OPTIONS)
    assert not (set(SYNONYMS) | set(LEGACY)) & set(OPTIONS)


def test_a_legacy_name_is_taken_and_deprecated():
    with pytest.warns(DeprecationWarning, match="use_graph_pool"):
        plan = read_options({"use_custom_pool": (0, 3)})
    assert plan.options == {"use_graph_pool": (0, 3)}


def test_nothing_else_is_deprecated():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_options({"use_graph_pool": (0, 3)})


# --- modes ------------------------------------------------------------------------------------


LEGAL = {
    "post_grad_custom_pre_pass": change_nothing,
    "post_grad_custom_post_pass": change_nothing,
    "use_graph_pool": (0, 3),
    "super_kernel_optimize_options": {"preload_code": 1},
    "super_kernel_debug_options": {"debug_extend": "x"},
    "_vllm_aclnn_static_kernel_sym_range": [2, 4],
    "custom_decompositions": {torch.ops.aten.addmm.default: change_nothing},
    "partition_fn": "MINCUT",
    "dim_gears": {"x": {0: (2, 4)}},
}


def legal_value(name):
    row = OPTIONS[name]
    return LEGAL.get(name, row.default)


INDUCTORS_TOO = ("post_grad_custom_pre_pass", "post_grad_custom_post_pass")
"""With compiler inductor these are Inductor's options of that name."""


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        (engine, name)
        for engine in ENGINES
        for name in OPTIONS
        if engine != "inductor" or name not in INDUCTORS_TOO
    ],
)
def test_an_option_is_taken_exactly_where_it_has_an_effect(engine, name):
    config = {**engine_config(engine), name: legal_value(name)}
    if engine in OPTIONS[name].modes:
        assert read_options(config).options == {name: legal_value(name)}
        return
    text = refusal(config)
    assert_names(text, repr(name), repr(engine), *OPTIONS[name].modes)
    assert not [other for other in ENGINES if f"use mode {other!r}" in text and other == engine]


def test_the_refusal_of_a_mode_says_what_to_use():
    text = refusal({"force_recapture": True})
    assert "use mode 'npugraph_ex' or compiler 'device_graph'" in text


# --- values -----------------------------------------------------------------------------------

BOOLS = [name for name, row in OPTIONS.items() if row.kind == "bool"]


def mode_of(name):
    return next(engine for engine in reversed(GE_MODES) if engine in OPTIONS[name].modes)


@pytest.mark.parametrize("name", BOOLS)
@pytest.mark.parametrize("value", [0, 1, "True", None], ids=repr)
def test_switches_are_true_or_false(name, value):
    text = refusal({"mode": mode_of(name), name: value})
    assert_names(text, repr(name), repr(value), "True or False")


@pytest.mark.parametrize("value", [0, -1, True, "64", 64.0, 2**63, None], ids=repr)
def test_a_limit_out_of_bounds(value):
    assert_names(
        refusal({"capture_limit": value}), "'capture_limit'", repr(value), "1", str(2**63 - 1)
    )


def test_numbers_at_their_bounds():
    assert read_options({"capture_limit": 1}).options == {"capture_limit": 1}
    assert read_options({"capture_limit": 2**63 - 1}).value("capture_limit") == 2**63 - 1


@pytest.mark.parametrize("value", ["globl", True, None], ids=repr)
def test_choices_are_listed(value):
    text = refusal({"mode": "npugraph_ex", "capture_error_mode": value})
    assert_names(text, repr(value), "global", "thread_local", "relaxed")


def test_a_directory_has_to_exist(tmp_path):
    there = {"dump_tensor_data": True, "data_dump_dir": tmp_path}
    assert read_options(there).value("data_dump_dir") == str(tmp_path)
    gone = tmp_path / "gone"
    assert_names(refusal({"data_dump_dir": gone}), "'data_dump_dir'", str(gone))
    (tmp_path / "file").write_text("")
    assert_names(refusal({"data_dump_dir": str(tmp_path / "file")}), "directory")
    assert_names(refusal({"data_dump_dir": 3}), "'data_dump_dir'", "3")


def test_a_directory_goes_into_generated_code(tmp_path):
    quoted = tmp_path / 'a"b'
    quoted.mkdir()
    assert_names(refusal({"data_dump_dir": quoted}), "generated code")


@pytest.mark.parametrize("name", ["post_grad_custom_pre_pass", "post_grad_custom_post_pass"])
def test_a_pass_takes_three_arguments(name):
    read_options({name: change_nothing})
    read_options({name: lambda *args: None})
    read_options({name: functools.partial(lambda extra, *args: None, 1)})
    assert_names(refusal({name: lambda gm: None}), repr(name), "example_inputs")
    assert_names(refusal({name: lambda gm, inputs, config, more: None}), "'more'")
    assert_names(refusal({name: "a pass"}), "'a pass'")
    assert read_options({name: None}).options == {}


@pytest.mark.parametrize(
    "value", ["abc", [0, 1], (0, 1, 2), (1, 2), (0, True), (0, 1.0), 0], ids=repr
)
def test_a_pool_is_a_handle(value):
    assert_names(refusal({"use_graph_pool": value}), repr(value), "graph_pool_handle")


@pytest.mark.parametrize("value", [(0, 3), (3, 0), (0, 0)], ids=repr)
def test_pools_that_are_handles(value):
    assert read_options({"use_graph_pool": value}).value("use_graph_pool") == value


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        pytest.param({"preload_cod": 1}, ("'preload_cod'", "'preload_code'"), id="key"),
        pytest.param({"preload_code": True}, ("'preload_code'", "whole number"), id="bool"),
        pytest.param({"opt_extend": 1}, ("'opt_extend'", "string"), id="text"),
        pytest.param({"dcci_disable_on_kernel": "k"}, ("list of strings",), id="list"),
        pytest.param({"dcci_disable_on_kernel": [1]}, ("list of strings",), id="elements"),
        pytest.param({"opt_extend": "it's"}, ("generated code",), id="quote"),
        pytest.param(
            {"aggressive_opt_strategies": {"task_breaker": 1}},
            ("'task_breaker'", "'task_breaker_bypass'"),
            id="inner_key",
        ),
        pytest.param({"aggressive_opt_strategies": 1}, ("dict",), id="inner_dict"),
        pytest.param("text", ("dict",), id="dict"),
    ],
)
def test_settings_of_super_kernels(value, parts):
    text = refusal({"super_kernel_optimize_options": value})
    assert_names(text, "super_kernel_optimize_options", *parts)


def test_settings_of_super_kernels_that_are_legal():
    given = {
        "preload_code": 1,
        "dcci_disable_on_kernel": ["a"],
        "aggressive_opt_strategies": {"task_breaker_bypass": 1},
    }
    assert read_options({"super_kernel_optimize_options": given}).options == {
        "super_kernel_optimize_options": given
    }
    assert_names(refusal({"super_kernel_debug_options": {"preload_code": 1}}), "'preload_code'")


@pytest.mark.parametrize("value", [3, "2", [True], [2.0]], ids=repr)
def test_a_list_of_numbers(value):
    assert_names(refusal({"_vllm_aclnn_static_kernel_sym_range": value}), "whole numbers")


def test_decompositions_are_by_overload():
    for value in ([], {"aten.add": change_nothing}, {torch.ops.aten.addmm: change_nothing}):
        assert_names(refusal({"custom_decompositions": value}), "custom_decompositions", "overload")
    assert_names(refusal({"custom_decompositions": {torch.ops.aten.addmm.default: 1}}), "addmm")


def test_the_partitioner():
    for value in ("DEFAULT", "MINCUT", "torch.add", change_nothing):
        assert read_options({"partition_fn": value}).value("partition_fn") is value
    for value in ("mincut", "no.such.module", "torch.pi", 3):
        assert_names(refusal({"partition_fn": value}), repr(value))


# --- dim gears --------------------------------------------------------------------------------


def gears(value, policy=None):
    group = {"inference_config": {"dynamic_gears_merge_policy": policy}} if policy else {}
    return {"compiler": "ge", "dim_gears": value, **group}


@pytest.mark.parametrize(
    "value",
    [
        [],
        {0: {0: [2, 4]}},
        {"": {0: [2, 4]}},
        {"x": {}},
        {"x": [2, 4]},
        {"x": {-1: [2, 4]}},
        {"x": {True: [2, 4]}},
        {"x": {0: 4}},
        {"x": {0: [2]}},
        {"x": {0: [0, 2]}},
        {"x": {0: [1, 2]}},
        {"x": {0: [2, True]}},
        {"x": {0: list(range(2, 103))}},
    ],
    ids=lambda value: repr(value)[:24],
)
def test_gears_that_the_vendor_would_assert_on(value):
    assert_names(refusal(gears(value)), "'dim_gears'")


def test_gears_are_combined_by_the_merge_policy():
    unequal = {"x": {0: [2, 4], 1: [3, 5, 7]}}
    assert_names(refusal(gears(unequal)), "'zip'", "2, 3", "product")
    assert read_options(gears(unequal, "product")).value("dim_gears") == {
        "x": {0: (2, 4), 1: (3, 5, 7)}
    }
    many = {"x": {0: list(range(2, 13)), 1: list(range(2, 13))}}
    read_options(gears(many))
    assert_names(refusal(gears(many, "product")), "121", "100")
    repeated = {"x": {0: [2, 2], 1: [3, 5]}}
    read_options(gears(repeated))


# --- torchair's groups ------------------------------------------------------------------------


@pytest.mark.parametrize("group", sorted(TOP_GROUPS))
@pytest.mark.parametrize("engine", ["npugraph_ex", "device_graph"])
def test_groups_are_for_the_modes_of_torchair(engine, group):
    text = refusal({**engine_config(engine), group: {}})
    assert_names(text, repr(group), repr(engine), *TORCHAIR_MODES)


@pytest.mark.parametrize("group", sorted(TOP_GROUPS))
def test_a_group_is_a_dict_of_known_names(group):
    assert_names(refusal({group: 5}), repr(group), "5", "dict")
    assert_names(refusal({group: {"no_such_leaf": 1}}), repr(group), "'no_such_leaf'")
    assert read_options({group: {}}) == read_options({})


def test_an_unknown_leaf_names_the_nearest():
    text = refusal({"compiler": "ge", "ge_config": {"oo_levl": "O3"}})
    assert_names(text, "'oo_levl'", "'oo_level'")
    inner = {"debug": {"graph_dump": {"tipe": "py"}}}
    assert_names(refusal(inner), "debug.graph_dump", "'tipe'", "'type'")
    assert_names(refusal({"debug": {"graph_dump": "py"}}), "debug.graph_dump", "dict")


def as_group(path, value):
    config = value
    for name in reversed(path.split(".")):
        config = {name: config}
    return config


@pytest.mark.parametrize("path", sorted(p for p, leaf in LEAVES.items() if leaf.refused))
@pytest.mark.parametrize("mode", TORCHAIR_MODES)
def test_leaves_that_do_nothing_or_harm_are_refused(mode, path):
    text = refusal({"mode": mode, **as_group(path, LEAVES[path].default)})
    assert_names(text, repr(path), LEAVES[path].refused)


LEGAL_LEAVES = {
    "debug.graph_dump.type": "py",
    "debug.graph_dump.path": "dumps",
    "debug.data_dump.type": "npy",
    "debug.data_dump.path": "dumps",
    "debug.data_dump.filter": lambda node: node,
    "debug.fx_summary.type": "csv",
    "aoe_config.aoe_mode": "2",
    "aoe_config.aoe_config_file": __file__,
    "fusion_config.fusion_switch_file": __file__,
    "experimental_config.static_model_ops_lower_limit": -1,
    "experimental_config.aclgraph._aclnn_static_shape_kernel_build_dir": "kernels",
    "ge_config.oo_constant_folding": True,
    "ge_config.oo_dead_code_elimination": False,
    "ge_config.aicore_num": "24",
    "ge_config.optimization_switch": "Pass:off",
    "ge_config.multistream_parallel_mode": "cv",
}


def legal_leaf(path):
    if path in LEGAL_LEAVES:
        return LEGAL_LEAVES[path]
    return legal_value(TWINS[path]) if TWINS.get(path) in LEGAL else LEAVES[path].default


@pytest.mark.parametrize("path", sorted(p for p, leaf in LEAVES.items() if not leaf.refused))
@pytest.mark.parametrize("mode", TORCHAIR_MODES)
def test_a_leaf_is_taken_exactly_where_it_has_an_effect(mode, path, tmp_path):
    value = legal_leaf(path)
    if path == "dump_config.dump_config_path":
        (tmp_path / "dump.json").write_text("{}")
        value = str(tmp_path / "dump.json")
    config = {"mode": mode, **as_group(path, value)}
    if mode not in LEAVES[path].modes:
        assert_names(refusal(config), repr(path), repr(mode), *LEAVES[path].modes)
        return
    plan = read_options(config)
    if path in TWINS:
        inverted = OPTIONS[TWINS[path]].invert
        assert plan.options == {TWINS[path]: not value if inverted else value}
        assert not plan.nested
    else:
        assert plan.nested == {path: value}
        assert not plan.options


def test_a_leaf_has_the_modes_of_its_option():
    for path, name in TWINS.items():
        assert LEAVES[path].modes == OPTIONS[name].modes & set(TORCHAIR_MODES), path


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("debug.run_eagerly", "1"),
        ("debug.run_eagerly", 1),
        ("ge_config.export_compile_stat", 1),
        ("ge_config.export_compile_stat", "3"),
        ("ge_config.oo_level", "O2"),
        ("ge_config.oo_constant_folding", None),
        ("ge_config.aicore_num", True),
        ("dump_config.dump_step", "1,2"),
        ("dump_config.dump_layer", "a-b"),
        ("dump_config.dump_config_path", __file__),
        ("fusion_config.fusion_switch_file", "no_such_file"),
        ("experimental_config.static_model_ops_lower_limit", -2),
        ("debug.data_dump.filter", lambda: None),
        ("debug.data_dump.filter", 3),
        ("debug.graph_dump.type", None),
    ],
    ids=[
        "switch_as_text",
        "switch_as_number",
        "text_as_number",
        "text_choice",
        "level",
        "none_for_a_switch",
        "cores",
        "steps",
        "layers",
        "not_json",
        "no_file",
        "lower_limit",
        "filter_arity",
        "filter_number",
        "none_for_a_choice",
    ],
)
def test_values_of_leaves(path, value):
    assert_names(refusal({"compiler": "ge", **as_group(path, value)}), repr(path))


@pytest.mark.parametrize("value", ["0", "0|2-5|10"])
def test_steps(value):
    plan = read_options({"compiler": "ge", "dump_config": {"dump_step": value}})
    assert plan.nested == {"dump_config.dump_step": value}


def test_a_captured_graph_is_dumped_as_python():
    for kind in ("txt", "pbtxt"):
        dump = {"debug": {"graph_dump": {"type": kind}}}
        assert_names(refusal(dump), repr(kind), "'py'")
        read_options({"compiler": "ge", **dump})


# --- options together -------------------------------------------------------------------------


def test_two_spellings_that_agree():
    plan = read_options({"clone_input": False, "debug": {"aclgraph": {"clone_input": False}}})
    assert plan.options == {"clone_input": False}
    reused = {"debug": {"aclgraph": {"disable_mempool_reuse_in_same_fx": True}}}
    plan = read_options({"reuse_graph_pool_in_same_fx": False, **reused})
    assert plan.options == {"reuse_graph_pool_in_same_fx": False}


@pytest.mark.parametrize("reverse", [False, True], ids=["flat_first", "group_first"])
@pytest.mark.parametrize(
    ("flat", "path", "value"),
    [
        ("clone_input", "debug.aclgraph.clone_input", False),
        (
            "reuse_graph_pool_in_same_fx",
            "debug.aclgraph.disable_mempool_reuse_in_same_fx",
            True,
        ),
    ],
    ids=["plain", "inverted"],
)
def test_two_spellings_that_do_not(flat, path, value, reverse):
    config = {flat: True, **as_group(path, value)}
    if reverse:
        config = dict(reversed(config.items()))
    assert_names(refusal(config), repr(flat), repr(path), "True", "False")


def test_the_legacy_name_and_the_new_one():
    with pytest.warns(DeprecationWarning):
        text = refusal({"use_graph_pool": (0, 3), "use_custom_pool": (0, 4)})
    assert_names(text, "use_graph_pool", "use_custom_pool")


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(
            {"use_graph_pool": (0, 3), "reuse_graph_pool_in_same_fx": True}, id="pool_and_reuse"
        ),
        pytest.param(
            {"mode": "npugraph_ex", "force_recapture": True, "capture_limit": 1}, id="recapture"
        ),
        pytest.param({"super_kernel_optimize": True, "dump_tensor_data": True}, id="super_kernel"),
    ],
)
def test_options_that_exclude_each_other(config):
    options = [key for key in config if key != "mode"]
    assert_names(refusal(config), *options)
    for name in options:
        read_options({key: value for key, value in config.items() if key != name})


def test_recaptures_within_the_limit():
    read_options({"mode": "npugraph_ex", "force_recapture": True, "capture_limit": 2})
    read_options({"use_graph_pool": (0, 3), "reuse_graph_pool_in_same_fx": False})


def test_static_kernels_of_a_job_need_to_know_its_size(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setenv("WORLD_SIZE", "1")
    read_options({"static_kernel_compile": True})
    monkeypatch.setenv("WORLD_SIZE", "8")
    read_options({"static_kernel_compile": False})
    assert_names(refusal({"static_kernel_compile": True}), "LOCAL_WORLD_SIZE")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    read_options({"static_kernel_compile": True})


def test_what_is_unsafe_has_to_be_allowed():
    name = "unsafe_skip_npugraph_capture_validation"
    config = {"mode": "npugraph_ex", name: True}
    assert_names(refusal(config), name, "allow_unsafe=True")
    assert_names(refusal({**config, "allow_unsafe": 1}), "allow_unsafe", "1")
    assert read_options({**config, "allow_unsafe": True}).options == {name: True}
    assert read_options({**config, name: False}).options == {name: False}


# --- inductor ---------------------------------------------------------------------------------


def test_inductor_takes_its_own_modes_and_options():
    config = {"compiler": "inductor", "mode": "max-autotune", "max_autotune": True}
    plan = read_options(config)
    assert plan.inductor == {"mode": "max-autotune", "max_autotune": True}
    assert not plan.options
    assert_names(refusal({"compiler": "inductor", "mode": "npugraph_ex"}), "max-autotune")
    assert_names(refusal({"compiler": "inductor", "max_autotun": True}), "max_autotune")


def test_inductor_and_custom_decompositions():
    table = {torch.ops.aten.addmm.default: change_nothing}
    plan = read_options({"compiler": "inductor", "custom_decompositions": table})
    assert plan.options == {"custom_decompositions": table}
    assert not plan.inductor


def test_names_that_inductor_has_too():
    ours = {*OPTIONS, "allow_unsafe", "compiler"}
    assert set(torch._inductor.list_options()) & ours == set(INDUCTORS_TOO)


@pytest.mark.parametrize("name", INDUCTORS_TOO)
def test_names_that_inductor_has_too_are_inductors(name):
    plan = read_options({"compiler": "inductor", name: change_nothing})
    assert plan.inductor == {name: change_nothing}
    assert not plan.options


# --- the table --------------------------------------------------------------------------------


def test_rows_are_whole():
    for name, row in OPTIONS.items():
        assert row.modes <= set(ENGINES), name
        assert row.modes, name
        assert row.doc.endswith("."), name
        assert row.cache in ("key", "bypass"), name
        assert row.entry in ("compiler", "backend"), name
        assert row.entry == "backend" or row.torchair or not row.modes & set(TORCHAIR_MODES), name
        assert row.torchair is None or row.modes & set(TORCHAIR_MODES), name


def test_a_plan_tells_values_given_and_default():
    plan = read_options({"clone_input": False, "partition_fn": "MINCUT"})
    assert plan.value("clone_input") is False
    assert plan.value("capture_limit") == OPTIONS["capture_limit"].default
    assert plan.compiler_options == {"clone_input": False}
    changed = plan.with_option("remove_cat_ops", False)
    assert changed.options == {**plan.options, "remove_cat_ops": False}
    assert "remove_cat_ops" not in plan.options
    assert (changed.compiler, changed.mode) == (plan.compiler, plan.mode)


def test_reading_changes_nothing_that_was_given():
    inner = {"clone_input": False}
    config = {"debug": {"aclgraph": inner}, "super_kernel_optimize_options": {"split_mode": 1}}
    plan = read_options(config)
    assert inner == {"clone_input": False}
    config["super_kernel_optimize_options"]["split_mode"] = 2
    assert plan.value("super_kernel_optimize_options") == {"split_mode": 1}
