"""Targets and levels."""

import copy
import pickle

import pytest

from xpu_graph import ConfigError, OptLevel, Target, XpuGraphConfig

BUILT_IN = ["none", "cpu", "cuda", "npu", "mlu"]


def test_built_in_targets():
    assert [target.value for target in Target][: len(BUILT_IN)] == BUILT_IN
    for name in BUILT_IN:
        assert getattr(Target, name) == Target(name) == name
        assert Target(name).name == Target(name).value == name


def test_a_target_is_a_value():
    npu = Target("npu")
    assert npu == Target.npu
    assert npu != Target.cpu
    assert npu != 1
    assert len({npu, Target.npu, "npu"}) == 1
    assert copy.deepcopy(npu) == npu
    assert pickle.loads(pickle.dumps(npu)) == npu
    assert Target(npu) == npu
    with pytest.raises(AttributeError):
        npu.value = "cpu"


@pytest.mark.parametrize("given", ["nup", "NPU", "", 3, None, ["npu"]])
def test_an_unknown_target(given):
    for make in (Target, lambda name: XpuGraphConfig(target=name)):
        with pytest.raises(ConfigError) as caught:
            make(given)
        assert repr(given) in str(caught.value)
        assert "cpu, cuda, mlu, none, npu" in str(caught.value)


def test_an_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="did you mean 'npu'"):
        _ = Target.npuu
    assert not hasattr(Target, "npuu")


@pytest.mark.parametrize("given", ["level2", "2", 2, OptLevel.level2])
def test_a_level_by_any_name(given):
    assert OptLevel.parse(given) is OptLevel.level2


@pytest.mark.parametrize("given", [4, -1, True, 1.0, None, "lvl2", "level4", "four"])
def test_an_unknown_level(given):
    with pytest.raises(ConfigError) as caught:
        XpuGraphConfig(opt_level=given)
    assert repr(given) in str(caught.value)
    assert "level0, level1, level2, level3" in str(caught.value)


def test_levels_are_ordered():
    assert OptLevel.level0 < OptLevel.level1 < OptLevel.level2 < OptLevel.level3
