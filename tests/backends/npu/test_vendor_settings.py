"""What a plan says to the vendor and to the cache key."""

from types import SimpleNamespace

import pytest

from xpu_graph.backends.npu.option_checks import read_options
from xpu_graph.backends.npu.option_table import OPTIONS
from xpu_graph.backends.npu.vendor_settings import (
    apply,
    identity,
    npugraph_ex_options,
    torchair_settings,
)
from xpu_graph.errors import BackendError, NotCacheable


class IdentifiedPass:
    def __init__(self, uuid):
        self._uuid = uuid

    def __call__(self, graph_module, example_inputs, config):
        raise NotImplementedError

    def uuid(self):
        return self._uuid


def factors(**config):
    return dict(identity(read_options(config)))


# --- for the vendor ---------------------------------------------------------------------------


def test_npugraph_ex_gets_what_was_given_by_its_own_names():
    plan = read_options(
        {
            "compiler": "npugraph_ex",
            "clone_input": False,
            "inplace_pass": True,
            "force_recapture": True,
            "use_graph_pool": None,
            "keep_inference_input_mutations": False,
        }
    )
    expected = {"clone_input": False, "inplace_pass": True, "force_recapture": True}
    assert npugraph_ex_options(plan) == expected
    assert npugraph_ex_options(read_options({"mode": "npugraph_ex"})) == {}


def test_torchair_gets_paths_and_opposites():
    plan = read_options(
        {
            "clone_output": True,
            "inplace_pass": False,
            "use_graph_pool": (0, 3),
            "keep_inference_input_mutations": False,
            "_vllm_aclnn_static_kernel_sym_range": None,
            "debug": {"graph_dump": {"type": "py"}, "run_eagerly": True},
        }
    )
    assert torchair_settings(plan) == [
        ("mode", "reduce-overhead"),
        ("debug.aclgraph.enable_output_clone", True),
        ("debug.aclgraph.disable_reinplace_inplaceable_ops_pass", True),
        ("aclgraph_config.use_custom_pool", (0, 3)),
        ("debug.run_eagerly", True),
        ("debug.graph_dump.type", "py"),
    ]


def test_settings_are_applied_by_path():
    config = SimpleNamespace(mode="", debug=SimpleNamespace(graph_dump=SimpleNamespace(type=None)))
    apply(config, [("mode", "reduce-overhead"), ("debug.graph_dump.type", "py")])
    assert config.mode == "reduce-overhead"
    assert config.debug.graph_dump.type == "py"


@pytest.mark.parametrize("path", ["moed", "debug.graph_dmp.type", "debug.tipe"])
def test_a_vendor_without_the_option(path):
    config = SimpleNamespace(mode="", debug=SimpleNamespace(type=None))
    with pytest.raises(BackendError, match=path):
        apply(config, [(path, "py")])


def test_a_vendor_that_refuses_a_value():
    class Strict:
        mode = property(lambda self: "", lambda self, value: int(value))

    with pytest.raises(BackendError, match="mode='py'") as caught:
        apply(Strict(), [("mode", "py")])
    assert isinstance(caught.value.__cause__, ValueError)


# --- for the cache ----------------------------------------------------------------------------


def test_a_default_that_is_given_changes_nothing():
    assert factors() == factors(clone_input=True, debug={"run_eagerly": False})
    assert factors() == factors(compiler="ge", mode="reduce-overhead")
    assert factors(compiler="ge") == factors(compiler="ge", ge_config={"oo_level": "O3"})


def test_every_option_of_the_mode_is_named():
    for engine in ("max-autotune", "reduce-overhead", "npugraph_ex"):
        wanted = {name for name, row in OPTIONS.items() if engine in row.modes}
        assert set(factors(mode=engine)) == wanted | {"compiler", "mode"}


def test_what_differs_has_another_identity():
    plans = [
        {},
        {"compiler": "ge"},
        {"mode": "npugraph_ex"},
        {"compiler": "device_graph"},
        {"clone_input": False},
        {"capture_limit": 2},
        {"debug": {"aclgraph": {"remove_cat_ops": False}}},
        {"compiler": "ge", "ge_config": {"oo_level": "O1"}},
        {"compiler": "ge", "dim_gears": {"x": {0: [2, 4]}}},
        {"compiler": "ge", "dim_gears": {"x": {0: [2, 8]}}},
        {"partition_fn": "MINCUT"},
        {"post_grad_custom_pre_pass": IdentifiedPass("1")},
        {"post_grad_custom_pre_pass": IdentifiedPass("2")},
        {"post_grad_custom_post_pass": IdentifiedPass("2")},
    ]
    assert len({identity(read_options(config)) for config in plans}) == len(plans)


def test_the_spelling_makes_no_difference():
    assert factors(clone_output=True) == factors(debug={"aclgraph": {"enable_output_clone": True}})
    assert factors(mode="npugraph_ex") == factors(compiler="npugraph_ex")


@pytest.mark.parametrize(
    "config",
    [
        pytest.param({"use_graph_pool": (0, 3)}, id="use_graph_pool"),
        pytest.param({"dump_tensor_data": True}, id="dump_tensor_data"),
        pytest.param({"mode": "npugraph_ex", "deadlock_check": True}, id="deadlock_check"),
        pytest.param({"compiler": "ge", "aoe_config": {"aoe_mode": "2"}}, id="aoe_mode"),
        pytest.param(
            {"compiler": "ge", "experimental_config": {"enable_ref_data": True}},
            id="enable_ref_data",
        ),
        pytest.param({"debug": {"data_dump": {"type": "npy"}}}, id="data_dump"),
        pytest.param({"debug": {"graph_dump": {"type": "py"}}}, id="graph_dump"),
    ],
)
def test_what_holds_for_one_process_is_not_kept(config, request):
    with pytest.raises(NotCacheable, match=request.node.callspec.id):
        identity(read_options(config))


def test_the_same_options_off_are_kept(tmp_path):
    assert factors() == factors(dump_tensor_data=False, use_graph_pool=None)
    factors(data_dump_dir=tmp_path, data_dump_stage="original")


def test_a_pass_without_identity_is_not_kept():
    for given in (IdentifiedPass(None), IdentifiedPass(object())):
        with pytest.raises(NotCacheable, match="post_grad_custom_pre_pass"):
            factors(post_grad_custom_pre_pass=given)
