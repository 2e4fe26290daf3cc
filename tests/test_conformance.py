"""The conformance suite finds what is wrong with a backend."""

import pathlib
import sys

import pytest
import torch

from xpu_graph import BackendUnavailable, SerializableArtifact, XpuGraphError
from xpu_graph.artifact import KINDS
from xpu_graph.conformance import BackendConformance, raised

EXAMPLE = pathlib.Path(__file__).resolve().parent / "example_backend"
METHODS = [name for name in dir(BackendConformance) if name.startswith("test_")]
SLOW = {"test_second_process_compiles_nothing"}


class Toy(BackendConformance):
    target = "toy"
    options = {"keep_slots": True}
    foreign_device = "meta"
    bitwise = True


COMPILING = {
    "test_aliased_outputs",
    "test_artifact_round_trip",
    "test_constants",
    "test_dynamic_serves_many_sizes",
    "test_empty_tensors",
    "test_input_mutation",
    "test_no_inputs",
    "test_no_tensor_outputs",
    "test_outputs_that_are_no_tensors",
    "test_repeated_inputs",
    "test_static",
}
QUICK = {*METHODS} - COMPILING | {"test_static", "test_artifact_round_trip"}


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    import toy_backend

    yield toy_backend
    sys.modules.pop("toy_backend", None)
    KINDS.pop("toy", None)


def failing(suite=Toy, names=None):
    """Which tests of the suite fail."""
    found = set()
    for name in sorted((names or {*METHODS}) - SLOW):
        torch.compiler.reset()
        try:
            getattr(suite(), name)()
        except Exception:
            found.add(name)
    return found


def replace_run(monkeypatch, toy, change):
    run = toy.ToyProgram.boxed
    monkeypatch.setattr(toy.ToyProgram, "boxed", lambda self, args: change(run, self, args))


def test_a_good_backend_passes(toy):
    assert failing() == set()


def test_wrong_numbers(toy, monkeypatch):
    def off_by_a_bit(run, self, args):
        return [
            torch.nextafter(out, out + 1) if isinstance(out, torch.Tensor) else out
            for out in run(self, args)
        ]

    replace_run(monkeypatch, toy, off_by_a_bit)
    # One graph only writes, one has no element, and AOTAutograd makes aliases of inputs itself.
    assert failing() >= COMPILING - {"test_no_tensor_outputs", "test_empty_tensors"}


def test_a_lost_write(toy, monkeypatch):
    def on_copies(run, self, args):
        return run(self, [x.clone() if isinstance(x, torch.Tensor) else x for x in args])

    replace_run(monkeypatch, toy, on_copies)
    assert failing() == {"test_input_mutation", "test_no_tensor_outputs"}


def test_a_lost_alias(toy, monkeypatch):
    def copies(run, self, args):
        return [x.clone() if isinstance(x, torch.Tensor) else x for x in run(self, args)]

    replace_run(monkeypatch, toy, copies)
    assert "test_aliased_outputs" in failing()


def test_a_stored_form_that_forgets(toy, monkeypatch):
    class Forgetful(toy.ToyProgram):
        kind = "forgetful toy"

        @classmethod
        def from_members(cls, members):
            program = super().from_members(members)
            program._steps = program._steps[:-1]
            return program

    monkeypatch.setattr(toy, "ToyProgram", Forgetful)
    assert failing() == {"test_artifact_round_trip"}
    KINDS.pop("forgetful toy")


def test_options_that_are_not_checked(toy, monkeypatch):
    monkeypatch.setattr(toy, "check_options", lambda config: None)
    assert failing(names=QUICK) == {"test_options"}


@pytest.mark.parametrize("value", [3, ""])
def test_a_fingerprint_that_is_no_text(toy, monkeypatch, value):
    monkeypatch.setattr(toy, "fingerprint", lambda config: value)
    assert "test_fingerprint" in failing(names=QUICK)


def test_a_fingerprint_that_changes(toy, monkeypatch):
    numbers = iter(range(100))
    monkeypatch.setattr(toy, "fingerprint", lambda config: f"toy {next(numbers)}")
    assert failing(names=QUICK) == {"test_fingerprint"}


def test_a_device_that_is_not_refused(toy, monkeypatch):
    monkeypatch.setattr(toy, "check_devices", lambda *args: None)
    assert failing(names=QUICK) == {"test_foreign_device"}


def test_a_wrong_signature(toy, monkeypatch):
    compile_graph = toy.toy_compile
    monkeypatch.setattr(toy, "toy_compile", lambda gm, **config: compile_graph(gm, [], **config))
    assert failing(names=QUICK) >= {"test_static", "test_surface"}


def test_a_reason_of_two_lines(toy, monkeypatch):
    monkeypatch.setattr(toy, "why_not", lambda: "one\ntwo")
    assert failing(names=QUICK) == {"test_why_not_is_a_sentence"}


def test_a_backend_that_is_unavailable_conforms_by_saying_so(toy, monkeypatch):
    monkeypatch.setattr(toy, "why_not", lambda: "the SDK is missing")
    assert failing(names=QUICK) == set()
    monkeypatch.setattr(toy, "fingerprint", lambda config: "toy")
    Toy().check_unavailable()


def test_what_is_said_to_be_storable_or_not(toy, monkeypatch):
    class NotStorable(Toy):
        storable = False

    assert failing(NotStorable, QUICK) == {"test_artifact_round_trip"}
    compile_graph = toy.toy_compile
    monkeypatch.setattr(
        toy,
        "toy_compile",
        lambda gm, fake_inputs, **config: compile_graph(gm, fake_inputs, **config).__call__,
    )
    assert failing(NotStorable, QUICK) == set()
    assert failing(Toy, QUICK) == {"test_artifact_round_trip"}


def test_raised_wants_the_right_kind():
    def call():
        raise BackendUnavailable("reason")

    assert str(raised(XpuGraphError, call)) == "reason"
    with pytest.raises(AssertionError, match="not SystemError"):
        raised(SystemError, call)
    with pytest.raises(AssertionError, match="no ValueError"):
        raised(ValueError, lambda: None)


def test_wrapping_again_gives_the_same(toy):
    (made,) = Toy().check(lambda x, y: x + y, Toy().inputs)
    assert isinstance(made, SerializableArtifact)
    assert toy.ToyProgram(made) is made
    assert made._keep_slots
