"""The tests that every backend has to pass, as a class that its test file inherits.

    class TestToy(BackendConformance):
        target = "toy"

pytest collects the methods. Where ``why_not()`` gives a reason, those that compile check that the
reason reaches the user and leave it at that.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, ClassVar, TypeVar

import torch
from torch import fx

from xpu_graph import backends
from xpu_graph.artifact import SerializableArtifact
from xpu_graph.cache import XpuGraphLocalCache
from xpu_graph.compiler import XpuGraph
from xpu_graph.config import Target, XpuGraphConfig
from xpu_graph.dispatch import dispatch
from xpu_graph.errors import BackendError, BackendUnavailable, ConfigError, NotCacheable
from xpu_graph.runtime import boxed_entry
from xpu_graph.stage import Stage, Unit
from xpu_graph.testing import assert_same, check_against_eager

_Test = TypeVar("_Test", bound=Callable[..., None])


def compiles(test: _Test) -> _Test:
    """A test of what the backend makes: run it where the backend can be used."""

    @functools.wraps(test)
    def run(self: BackendConformance, *args: Any, **kwargs: Any) -> None:
        if self.backend().why_not() is None:
            test(self, *args, **kwargs)
        else:
            self.check_unavailable()

    return run  # type: ignore[return-value]


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """What the tests compile where any program will do."""
    return (x + y) * 2


class BackendConformance:
    """What every backend has to do.

    Attributes:
        target: name of the target.
        options: ``vendor_compiler_config`` of all the tests.
        device: where the inputs are.
        foreign_device: a device whose inputs the backend must refuse; None if it takes any.
        unknown_option: a key that ``check_options`` must refuse; None if it knows no options yet.
        storable: whether what it makes can be kept.
        bitwise: whether its results are eager's to the last bit; else to the default tolerances of
            ``torch.testing``.
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
        return backends.vendor_compiler(
            unit.gm,
            unit.fake_inputs,
            Target(self.target),
            is_inference=unit.stage == Stage.inference,
            is_backward=unit.stage == Stage.backward,
            **self.options,
        )

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
        made: list[SerializableArtifact] = []

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
        settings = {"target": self.target, "vendor_compiler_config": dict(self.options)}
        return XpuGraph(XpuGraphConfig(**{**settings, "enable_cache": False, **fields}))

    def failure(self, backend: Callable[..., Any], *inputs: Any) -> Exception:
        """The error that compiling for these inputs ends in."""
        torch.compiler.reset()
        try:
            torch.compile(program, backend=backend)(*inputs)
        except Exception as error:  # Dynamo wraps it in one of its own
            return getattr(error, "inner_exception", error)
        raise AssertionError(f"{self.target} compiled a program it should have refused")

    def check_unavailable(self) -> None:
        """The reason reaches the user, and ``fallback="eager"`` runs the program."""
        reason = self.backend().why_not()
        error = self.failure(self.xpu_graph(), *self.inputs())
        assert isinstance(error, BackendUnavailable), f"not BackendUnavailable but {error!r}"
        assert str(error) == reason
        check_against_eager(program, self.inputs, self.xpu_graph(fallback="eager"))

    # --- the four functions -----------------------------------------------------------------------

    def test_surface(self) -> None:
        """The functions take what they are called with."""
        module = self.backend()
        inspect.signature(module.why_not).bind()
        inspect.signature(module.check_options).bind({})
        inspect.signature(module.fingerprint).bind({})
        compile_graph = getattr(module, f"{self.target}_compile")
        inspect.signature(compile_graph).bind(
            None, [], is_inference=True, is_backward=False, **self.options
        )

    def test_why_not_is_a_sentence(self) -> None:
        """``why_not`` says nothing, or what is missing in one line."""
        reason = self.backend().why_not()
        assert reason is None or (isinstance(reason, str) and reason.strip())
        assert reason is None or "\n" not in reason
        assert reason == self.backend().why_not()

    def test_options(self) -> None:
        """The default and the tested options are legal; an unknown one is refused by name."""
        module = self.backend()
        module.check_options({})
        module.check_options(dict(self.options))
        if self.unknown_option is None:
            return
        try:
            module.check_options({**self.options, self.unknown_option: 1})
        except ConfigError as error:
            assert self.unknown_option in str(error)
        else:
            raise AssertionError(f"{self.target} takes the option {self.unknown_option!r}")

    def test_unknown_option_is_refused_before_tracing(self) -> None:
        """Making an ``XpuGraph`` is enough to learn of a wrong option."""
        if self.unknown_option is None:
            return
        try:
            self.xpu_graph(vendor_compiler_config={self.unknown_option: 1})
        except ConfigError as error:
            assert self.unknown_option in str(error)
        else:
            raise AssertionError(f"XpuGraph takes the option {self.unknown_option!r}")

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

        def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            x.mul_(2)
            return x + y

        self.check(function, self.inputs)

    @compiles
    def test_aliased_outputs(self) -> None:
        """Outputs that share memory with an input and with each other."""

        def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
            z = x + y
            return x.view(-1), z, z[1:], x

        self.check(function, self.inputs)

    @compiles
    def test_no_tensor_outputs(self) -> None:
        """A graph that is run for what it writes."""

        def function(x: torch.Tensor, y: torch.Tensor) -> None:
            x.add_(y)

        self.check(function, self.inputs)

    @compiles
    def test_outputs_that_are_no_tensors(self) -> None:
        """None and numbers beside a tensor; the number of a dynamic size is one too."""

        def function(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
            return None, (x + y) * 2, 3, x.shape[0] + 1

        self.check(function, self.inputs, dynamic=True)

    @compiles
    def test_constants(self) -> None:
        """A tensor that belongs to the graph."""

        def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            scale = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], device=x.device)
            return (x + y) * scale

        self.check(function, self.inputs)

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
        error = self.failure(self.xpu_graph(), *there)
        assert isinstance(error, BackendError), f"not BackendError but {error!r}"
        assert "input" in str(error)
        assert self.foreign_device in str(error)

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
        try:
            made.convert_to_bytes()
        except NotCacheable as reason:
            assert str(reason)
        else:
            raise AssertionError(f"what {self.target} makes can be stored after all")

    @compiles
    def test_second_process_compiles_nothing(self, tmp_path: pathlib.Path) -> None:
        """The artifact of one process is found, and used, by the next."""
        if not self.storable:
            return
        first, second = self.in_new_process(tmp_path), self.in_new_process(tmp_path)
        assert first["cache"] == "miss", first
        assert "vendor" in first["steps"], first
        assert second["cache"] == "hit", second
        assert "vendor" not in second["steps"], second
        assert "passes" not in second["steps"], second
        assert first["result"] == second["result"]
        want = program(*self.inputs()).cpu()
        assert_same(torch.tensor(second["result"]), want, bitwise=self.bitwise)

    def in_new_process(self, directory: pathlib.Path) -> dict[str, Any]:
        """Compile ``program`` in a new process with a local cache there; what became of it."""
        job = {
            "target": self.target,
            "options": self.options,
            "directory": str(directory / "cache"),
            "inputs": [value.tolist() for value in self.inputs()],
            "device": self.device,
        }
        done = subprocess.run(
            [sys.executable, "-m", __name__, json.dumps(job)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer


def _compile_once(job: dict[str, Any]) -> dict[str, Any]:
    backend = XpuGraph(
        XpuGraphConfig(target=job["target"], vendor_compiler_config=job["options"]),
        cache=XpuGraphLocalCache(job["directory"]),
    )
    inputs = [torch.tensor(values, device=job["device"]) for values in job["inputs"]]
    with torch.no_grad():
        result = torch.compile(program, backend=backend)(*inputs)
    (graph,) = backend.reports[-1].graphs
    return {"cache": graph.cache, "steps": sorted(graph.seconds), "result": result.tolist()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_compile_once(json.loads(sys.argv[1]))) + "\n")
