"""The family of errors, and the sentence for an unknown name."""

import pytest

from xpu_graph import errors
from xpu_graph.errors import unknown_name


def test_every_error_belongs_to_the_family():
    kinds = [
        kind
        for kind in vars(errors).values()
        if getattr(kind, "__module__", "") == errors.__name__ and isinstance(kind, type)
    ]
    assert len(kinds) >= 7
    assert all(issubclass(kind, errors.XpuGraphError) for kind in kinds)


def test_kinds_that_are_also_others():
    assert issubclass(errors.ConfigError, ValueError)
    assert issubclass(errors.BackendUnavailable, errors.BackendError)
    assert issubclass(errors.NotCacheable, errors.CacheError)


def test_the_message_names_value_place_nearest_and_legal_names():
    message = unknown_name("target", "npuu", ["cpu", "npu", "cuda"], "XpuGraphConfig")
    assert "'npuu'" in message
    assert "XpuGraphConfig" in message
    assert "did you mean 'npu'?" in message
    assert "Legal: cpu, cuda, npu" in message


@pytest.mark.parametrize("given", ["NPU", "Npu", "npu ", 1.5, None, ["npu"]])
def test_any_value_gets_a_message(given):
    message = unknown_name("target", given, ["cpu", "npu"])
    assert repr(given) in message
    assert "Legal: cpu, npu" in message


def test_case_does_not_hide_the_nearest_name():
    assert "did you mean 'npu'?" in unknown_name("target", "NPU", ["cpu", "npu"])
    assert "did you mean 'MINCUT'?" in unknown_name("partitioner", "mincut", ["DEFAULT", "MINCUT"])


def test_a_far_name_gets_no_guess():
    for given in ("zzzz", "gpu"):
        assert "did you mean" not in unknown_name("target", given, ["cpu", "npu"])


def test_what_is_legal_may_be_said_in_words():
    names = [f"name_{i:02d}" for i in range(100)]
    message = unknown_name("option", "name_99x", names, legal="name_00 to name_99")
    assert "did you mean 'name_99'?" in message
    assert message.endswith("Legal: name_00 to name_99")
    assert "name_50" not in message
    assert "name_50" in unknown_name("option", "name_99x", names)


def test_no_legal_name_at_all():
    assert "(none)" in unknown_name("option", "x", [])
