"""The tests that every backend has to pass, as a class that its test file inherits.

    class TestToy(BackendConformance):
        target = "toy"

pytest collects the methods. Where ``why_not()`` gives a reason, those that compile check that the
reason reaches the user and leave it at that.
"""

from __future__ import annotations

import functools
import inspect
import pathlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, ClassVar, TypeVar

import torch
from torch import fx

from xpu_graph import backends
from xpu_graph.artifact import SerializableArtifact
from xpu_graph.compiler import XpuGraph
from xpu_graph.config import Target, XpuGraphConfig
from xpu_graph.conformance_programs import (
    has_constant,
    in_new_process,
    only_writes,
    program,
    returns_no_tensors_too,
    shares_memory,
    writes_to_input,
)
from xpu_graph.dispatch import dispatch
from xpu_graph.errors import BackendError, BackendUnavailable, ConfigError, NotCacheable
from xpu_graph.runtime import boxed_entry
from xpu_graph.stage import Unit
from xpu_graph.testing import assert_same, check_against_eager

_Test = TypeVar("_Test", bound=Callable[..., None])
_Error = TypeVar("_Error", bound=Exception)


def raised(kind: type[_Error], call: Callable[[], Any]) -> _Error:
    """The error of this kind that a call ends in; Dynamo's wrapping is taken off."""
    try:
        call()
    except Exception as error:  # of any kind: the wrong ones are shown
        inner = getattr(error, "inner_exception", error)
        assert isinstance(inner, kind), f"not {kind.__name__} but {inner!r}"
        return inner
    raise AssertionError(f"no {kind.__name__} was raised")


def compiles(test: _Test) -> _Test:
    """A test of what the backend makes: run it where the backend can be used."""

    @functools.wraps(test)
    def run(self: BackendConformance, *args: Any, **kwargs: Any) -> None:
        if self.backend().why_not() is None:
            test(self, *args, **kwargs)
        else:
            self.check_unavailable()

    return run  # type: ignore[return-value]


class BackendConformance:
    """What every backend has to do.

    Attributes:
        target: name of the target.
        options: ``vendor_compiler_config`` of all the tests.
        device: where the inputs are.
        foreign_device: a device whose inputs the backend must refuse; None if it takes any.
        unknown_option: a key that ``check_options`` must refuse; None if it knows no options yet.
        storable: whether what it makes can be kept.
        bitwise: whether results are eager's to the last bit, else near to them.
    """

    target: ClassVar[str]
    options: ClassVar[dict[str, Any]] = {}
    device: ClassVar[str] = "cpu"
    foreign_device: ClassVar[str | None] = None
    unknown_option: ClassVar[str | None] = "no_such_option"
    storable: ClassVar[bool] = True
    bitwise: ClassVar[bool] = False

    # --- what the tests share ---------------------------------------------------------------------

    def backend(self) -> ModuleType:
        """The backend's module."""
        return backends.load_backend(Target(self.target))

    def compile_unit(self, unit: Unit) -> SerializableArtifact:
        """What the backend makes of one graph."""
        how = {"is_inference": True, "is_backward": False, **self.options}
        return backends.vendor_compiler(unit.gm, unit.fake_inputs, Target(self.target), **how)

    def check(
        self,
        function: Callable[..., Any],
        make_inputs: Callable[[], Sequence[Any]],
        through: Callable[[SerializableArtifact], SerializableArtifact] = lambda artifact: artifact,
        **how: Any,
    ) -> list[SerializableArtifact]:
        """Compare a function with eager through this backend alone, without passes and cache.

        Args:
            function: what to compile.
            make_inputs: gives fresh, equal inputs.
            through: what to do with an artifact before it runs.
            how: as for ``testing.check_against_eager``.

        Returns:
            The artifacts that were made.
        """
        made = []

        def keep(unit: Unit) -> Callable[[list[Any]], Any]:
            made.append(through(self.compile_unit(unit)))
            return boxed_entry(made[-1])

        def backend(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            return dispatch(gm, inputs, XpuGraphConfig(), keep)

        how.setdefault("bitwise", self.bitwise)
        check_against_eager(function, make_inputs, backend, **how)
        assert all(isinstance(artifact, SerializableArtifact) for artifact in made)
        return made

    def inputs(self, *shape: int) -> list[torch.Tensor]:
        """Two tensors on the backend's device; the same ones every time."""
        generator = torch.Generator().manual_seed(0)
        shape = shape or (4, 8)
        return [torch.randn(*shape, generator=generator).to(self.device) for _ in range(2)]

    def xpu_graph(self, **fields: Any) -> XpuGraph:
        """The target with its vendor compiler, as a user makes it; no cache unless asked for."""
        fields = {"vendor_compiler_config": self.options, "enable_cache": False, **fields}
        return XpuGraph(XpuGraphConfig(target=Target(self.target), **fields))

    def check_unavailable(self) -> None:
        """The reason reaches the user, and ``fallback="eager"`` runs the program."""
        compiled = torch.compile(program, backend=self.xpu_graph())
        error = raised(BackendUnavailable, lambda: compiled(*self.inputs()))
        assert str(error) == self.backend().why_not()
        check_against_eager(program, self.inputs, self.xpu_graph(fallback="eager"))

    # --- the four functions -----------------------------------------------------------------------

    def test_surface(self) -> None:
        """The functions take what they are called with."""
        module = self.backend()
        inspect.signature(module.why_not).bind()
        inspect.signature(module.check_options).bind({})
        inspect.signature(module.fingerprint).bind({})
        signature = inspect.signature(getattr(module, f"{self.target}_compile"))
        signature.bind(None, [], is_inference=True, is_backward=False, **self.options)

    def test_why_not_is_a_sentence(self) -> None:
        """``why_not`` says nothing, or what is missing in one line."""
        reason = self.backend().why_not()
        assert reason is None or len(reason.strip().splitlines()) == 1
        assert reason == self.backend().why_not()

    def test_options(self) -> None:
        """The default and the tested options are legal; an unknown one is refused by name.

        Making an ``XpuGraph`` is enough to learn of it.
        """
        module = self.backend()
        module.check_options({})
        module.check_options(dict(self.options))
        if self.unknown_option is None:
            return
        wrong = {**self.options, self.unknown_option: 1}
        for call in (
            lambda: module.check_options(wrong),
            lambda: self.xpu_graph(vendor_compiler_config=wrong),
        ):
            assert self.unknown_option in str(raised(ConfigError, call))

    def test_fingerprint(self) -> None:
        """``fingerprint`` gives the same text twice, or nothing, or a reason."""
        module = self.backend()
        try:
            first = module.fingerprint(dict(self.options))
        except NotCacheable as reason:
            assert str(reason)
            return
        assert first is None or (isinstance(first, str) and first)
        assert first == module.fingerprint(dict(self.options))

    # --- what it compiles -------------------------------------------------------------------------

    @compiles
    def test_static(self) -> None:
        """A graph of fixed shapes."""
        assert len(self.check(program, self.inputs, dynamic=False)) == 1

    @compiles
    def test_dynamic_serves_many_sizes(self) -> None:
        """One artifact for all sizes."""
        sizes = iter([(3, 8), (3, 8), (5, 8), (5, 8), (7, 8), (7, 8)])
        made = self.check(program, lambda: self.inputs(*next(sizes)), calls=3, dynamic=True)
        assert len(made) == 1

    @compiles
    def test_input_mutation(self) -> None:
        """An input that the graph writes to."""
        self.check(writes_to_input, self.inputs)

    @compiles
    def test_aliased_outputs(self) -> None:
        """Outputs that share memory with an input and with each other."""
        self.check(shares_memory, self.inputs)

    @compiles
    def test_no_tensor_outputs(self) -> None:
        """A graph that is run for what it writes."""
        self.check(only_writes, self.inputs)

    @compiles
    def test_outputs_that_are_no_tensors(self) -> None:
        """None and numbers beside a tensor; the number of a dynamic size is one too."""
        self.check(returns_no_tensors_too, self.inputs, dynamic=True)

    @compiles
    def test_constants(self) -> None:
        """A tensor that belongs to the graph."""
        self.check(has_constant, self.inputs)

    @compiles
    def test_repeated_inputs(self) -> None:
        """One tensor for two parameters."""
        self.check(program, lambda: [self.inputs()[0]] * 2)

    @compiles
    def test_empty_tensors(self) -> None:
        """A size of 0."""
        self.check(program, lambda: self.inputs(0, 8))

    @compiles
    def test_no_inputs(self) -> None:
        """A graph that takes nothing."""
        self.check(lambda: torch.full((4, 8), 2.0, device=self.device), list)

    @compiles
    def test_foreign_device(self) -> None:
        """An input on another device is refused by name."""
        if self.foreign_device is None:
            return
        there = [value.to(self.foreign_device) for value in self.inputs()]
        compiled = torch.compile(program, backend=self.xpu_graph())
        message = str(raised(BackendError, lambda: compiled(*there)))
        assert "input" in message
        assert self.foreign_device in message

    # --- what is kept -----------------------------------------------------------------------------

    @compiles
    def test_artifact_round_trip(self) -> None:
        """The stored form gives the same numbers; without one, there is a reason."""

        def through_bytes(artifact: SerializableArtifact) -> SerializableArtifact:
            return SerializableArtifact.rebuild_from_bytes(artifact.convert_to_bytes())

        if self.storable:
            (made,) = self.check(program, self.inputs, through_bytes)
            assert made.kind
            return
        (made,) = self.check(program, self.inputs)
        assert str(raised(NotCacheable, made.convert_to_bytes))

    @compiles
    def test_second_process_compiles_nothing(self, tmp_path: pathlib.Path) -> None:
        """The artifact of one process is found, and used, by the next."""
        if not self.storable:
            return
        job = {
            "target": self.target,
            "options": self.options,
            "directory": str(tmp_path / "cache"),
            "inputs": [value.tolist() for value in self.inputs()],
            "device": self.device,
        }
        first, second = in_new_process(job), in_new_process(job)
        assert first["cache"] == "miss", first
        assert "vendor" in first["steps"], first
        assert second["cache"] == "hit", second
        assert "vendor" not in second["steps"], second
        assert "passes" not in second["steps"], second
        assert first["result"] == second["result"]
        want = program(*self.inputs()).cpu()
        assert_same(torch.tensor(second["result"]), want, bitwise=self.bitwise)
