"""``XpuGraph``: the story of a compilation, from a Dynamo graph to something to call."""

from __future__ import annotations

import functools
import logging
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from torch import fx

from xpu_graph import backends, torch_compat
from xpu_graph.artifact import SerializableArtifact, SerializableGraphModule
from xpu_graph.backends.surroundings import Surroundings
from xpu_graph.cache import CacheKey, XpuGraphCache, default_cache, no_cache
from xpu_graph.config import OptLevel, Target, XpuGraphConfig, parse_tolerances
from xpu_graph.debug.bisect import is_bisecting
from xpu_graph.debug.fuel import Fuel
from xpu_graph.debug.interceptor import Interceptor
from xpu_graph.debug.logs import configure_logs
from xpu_graph.debug.report import (
    KEPT_REPORTS,
    PARTS_ARE_KEPT,
    CompileReport,
    GraphReport,
    count_calls,
    remember,
)
from xpu_graph.debug.watchers import dumps, watchers
from xpu_graph.dispatch import dispatch
from xpu_graph.errors import (
    BackendUnavailable,
    ConfigError,
    NotCacheable,
    XpuGraphError,
)
from xpu_graph.folded import FoldedArtifact
from xpu_graph.fx import shallow_copy
from xpu_graph.keeper import Keeper
from xpu_graph.passes import DEFAULT_PASSES, Pipeline, split_constant_part
from xpu_graph.passes.patterns import patterns_for
from xpu_graph.pregrad import rewritten
from xpu_graph.runtime import boxed_entry, named_errors
from xpu_graph.stage import Stage, Unit

_T = TypeVar("_T")
log = logging.getLogger(__name__)
configure_logs()

_lock = threading.Lock()
"""Held while counts and derived backends change; never while compiling."""


_TRAINING = (
    "%s needs gradients, and %s: it runs without the vendor compiler; call under torch.no_grad() "
    "or torch.inference_mode() if none are wanted"
)


class XpuGraph:
    """A backend for ``torch.compile(backend=...)``.

    Two objects with equal configurations are equal, so that a second one does not make Dynamo
    compile again. Making one changes nothing outside it.

    Args:
        config: how to compile; a copy is kept. By default ``XpuGraphConfig()``.
        cache: where artifacts are kept. By default the local cache, or none where
            ``config.enable_cache`` is False.

    Attributes:
        config: the copy.
        cache: where artifacts are kept.
        reports: what the last compilations did, those with ``options`` included.
        counts: graphs that were not compiled as asked: ``"eager fallback"`` without their vendor
            compiler, ``"training graph"`` without one that compiles inference alone,
            ``"cache failure"`` not kept.

    Raises:
        ConfigError: a field or a vendor option is not legal.
    """

    def __init__(
        self, config: XpuGraphConfig | None = None, cache: XpuGraphCache | None = None
    ) -> None:
        if not isinstance(config, (XpuGraphConfig, type(None))):
            raise ConfigError(
                f"XpuGraph takes an XpuGraphConfig, not {config!r}; torch.compile wants a backend "
                "object: backend=XpuGraph(XpuGraphConfig(...)), or backend='xpu_graph'"
            )
        self.config = (config or XpuGraphConfig()).private_copy()
        if self.config.vendor_compiler_config is not None:
            options = self.config.vendor_compiler_config
            backends.check_options(self.config.target, options)
            backends.attach(self.config.target, options, self.config.is_training)
        if not isinstance(cache, (XpuGraphCache, type(None))):
            raise ConfigError(f"XpuGraph takes an XpuGraphCache, not {cache!r}")
        if not self.config.enable_cache:
            cache = no_cache()
        self.cache = cache if cache is not None else default_cache()
        self.reports: deque[CompileReport] = deque(maxlen=KEPT_REPORTS)
        self.counts: Counter[str] = Counter()
        patterns = functools.partial(patterns_for, self.config.target)
        self._pipeline = Pipeline(DEFAULT_PASSES, self.config, patterns)
        self._tolerances = parse_tolerances(self.config.enable_interceptor)
        self._fuel = Fuel(self.config.fuel) if self.config.fuel is not None else None
        self._frozen: weakref.WeakSet[FoldedArtifact] = weakref.WeakSet()
        self._derived: deque[XpuGraph] = deque(maxlen=16)

    def __call__(
        self,
        gm: fx.GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        """Compile a graph for Dynamo; ``mode`` and ``options`` are those of ``torch.compile``."""
        if mode is not None or options:
            return self.with_options(mode, options)(gm, example_inputs)
        report = CompileReport(self.config.target.value)
        start = time.perf_counter()
        vendor = self.config.vendor_compiler_config
        around = Surroundings()
        if vendor is not None:
            around = backends.surroundings(self.config.target, vendor)
        compiled = dispatch(
            gm,
            example_inputs,
            self.config,
            lambda unit: self._compile(unit, report),
            lambda unit: self._improve(unit, report),
            around,
            lambda graph, inputs, name: self._before_autograd(graph, inputs, name, report),
        )
        report.seconds = time.perf_counter() - start
        self.reports.append(report)
        remember(report)
        torch_compat.trace_artifact("xpu_graph_report", lambda: str(report))
        log.info("%s", report)
        return compiled

    def with_options(self, mode: str | None, options: Mapping[str, Any] | None) -> XpuGraph:
        """A backend like this one with some fields changed, as ``torch.compile`` may ask for.

        The same one each time (of the last 16), so that all graphs of a program share its fuel.
        """
        config = self.config.replaced(options or {})
        if mode is not None:
            if config.vendor_compiler_config is None:
                raise ConfigError(
                    f"mode={mode!r} is the vendor compiler's, and there is none: "
                    "vendor_compiler_config is None (give {} for the target's default), or the "
                    "environment variable VENDOR_COMPILER_MODE is 'none'"
                )
            config = config.replaced(
                {"vendor_compiler_config": {**config.vendor_compiler_config, "mode": mode}}
            )
        with _lock:
            found = next((backend for backend in self._derived if backend.config == config), None)
            if found is None:
                found = XpuGraph(config, self.cache)
                found.reports, found.counts = self.reports, self.counts
                found._frozen = self._frozen
                self._derived.append(found)
            return found

    def __eq__(self, other: object) -> bool:
        return self.config == other.config if isinstance(other, XpuGraph) else NotImplemented

    def __hash__(self) -> int:
        config = self.config
        return hash((config.target, config.opt_level, config.freeze, config.is_training))

    def __repr__(self) -> str:
        return f"XpuGraph({self.config!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> XpuGraph:
        return XpuGraph(self.config, self.cache)

    def refold(self) -> None:
        """Compute folded parameters again at the next call.

        Needed only after a change that torch cannot see: ``p.data`` written in place, or memory
        written through numpy.
        """
        for artifact in list(self._frozen):
            artifact.refold()

    # --- one graph ----------------------------------------------------------------------------

    def _compile(self, unit: Unit, report: CompileReport) -> Callable[[list[Any]], Any]:
        told = GraphReport(unit.name, unit.stage.value)
        report.graphs.append(told)
        told.notes += [f"{name} is not folded: {why}" for name, why in unit.not_frozen.items()]
        reference = shallow_copy(unit.gm) if self._tolerances is not None else None
        with named_errors(f"compiling {unit.name}", XpuGraphError):
            artifact = self._find_or_make(unit, told)
        if isinstance(artifact, FoldedArtifact):
            self._frozen.add(artifact)
        if reference is not None:
            artifact = Interceptor(artifact, reference, unit.name, self._tolerances or {})
        return boxed_entry(artifact)

    def _before_autograd(
        self, gm: fx.GraphModule, inputs: Sequence[Any], name: str, report: CompileReport
    ) -> fx.GraphModule:
        """Run the passes that serve the stage before differentiation, if there are any."""
        if not self._pipeline.serves(Stage.pregrad):
            return gm
        return rewritten(gm, inputs, name, self._run_passes, report.graphs)

    def _improve(self, unit: Unit, report: CompileReport) -> None:
        """Run the passes that serve joint graphs; what is cut from one is compiled, and kept."""
        if not self._pipeline.passes_for(unit):
            return
        told = GraphReport(unit.name, unit.stage.value, cache=PARTS_ARE_KEPT)
        report.graphs.append(told)
        self._run_passes(unit, told)

    def _run_passes(self, unit: Unit, told: GraphReport) -> None:
        """Run the passes over a graph that others will be made of."""
        if self._tolerances is not None:
            told.notes.append("not changed: the interceptor compares what is made of it")
            return
        with named_errors(f"compiling {unit.name}", XpuGraphError), told.timed("passes"):
            self._pipeline.run(unit, watchers(self.config, told, self._fuel))

    def _find_or_make(self, unit: Unit, told: GraphReport) -> SerializableArtifact:
        if not self.config.enable_cache:
            return self._make(unit, told)
        keeper = Keeper(self.cache, unit, told, self._warn_once)
        if not keeper.find_key(lambda: self._key(unit)):
            return self._make(unit, told)
        if dumps(self.config):
            told.cache = "not read, since a hit has no graphs to dump"
        elif (found := keeper.load()) is not None:
            return found
        with keeper.turn(self.config.cache_wait_s) as may_store:
            # Another process may have stored it while this one waited for its turn.
            if not dumps(self.config) and (found := keeper.load()) is not None:
                return found
            artifact = self._make(unit, told)
            return keeper.store(artifact) if may_store else artifact

    def _make(self, unit: Unit, told: GraphReport) -> SerializableArtifact:
        with told.timed("passes"):
            # What depends on frozen parameters is taken out before anything is written in place.
            hooks = watchers(self.config, told, self._fuel)
            self._pipeline.run(unit, hooks, finish=not unit.frozen)
            has_vendor = self.config.vendor_compiler_config is not None
            split = split_constant_part(unit, self.config.fold_limit_bytes, has_vendor)
        if split is None:
            return self._lower(unit, told)
        calls = count_calls(split.fold).total()
        if calls:
            told.notes.append(f"{calls} calls depend on frozen parameters alone and run once")
        fold = SerializableGraphModule(split.fold)
        main = self._lower(split.main, told)
        return FoldedArtifact(fold, main, split.frozen_inputs, split.kept_inputs)

    def _lower(self, unit: Unit, told: GraphReport) -> SerializableArtifact:
        target, options = self.config.target, self.config.vendor_compiler_config
        if options is None:
            if unit.frozen:
                with told.timed("passes"):
                    self._pipeline.finish(unit, watchers(self.config, told, self._fuel))
            return SerializableGraphModule(unit.gm)
        if unit.stage != Stage.inference:
            reason = backends.why_not_training(target, options)
            if reason is not None:
                told.notes.append(f"no vendor compiler: {reason}, and this graph needs gradients")
                self._warn_once("training graph", _TRAINING, unit.name, reason)
                return SerializableGraphModule(unit.gm)
        unit.gm.recompile()
        try:
            with told.timed("vendor"):
                return backends.vendor_compiler(
                    unit.gm,
                    unit.fake_inputs,
                    target,
                    is_inference=unit.stage == Stage.inference,
                    is_backward=unit.stage == Stage.backward,
                    **options,
                )
        except BackendUnavailable as reason:
            if self.config.fallback != "eager":
                raise
            self._warn_once("eager fallback", "fallback='eager' runs without a vendor: %s", reason)
            told.notes.append(f"no vendor compiler: {reason}")
            graph = SerializableGraphModule(unit.gm)
            return backends.CompiledCallable(graph, "the vendor compiler was not there")

    def _warn_once(self, event: str, message: str, *args: Any) -> None:
        with _lock:
            self.counts[event] += 1
            first = self.counts[event] == 1
        if first:
            log.warning(message, *args)

    def _key(self, unit: Unit) -> CacheKey | str:
        if self._fuel is not None:
            raise NotCacheable("fuel is limited")
        if is_bisecting():
            raise NotCacheable("rewrites are being bisected")
        identities = {"passes": self._pipeline.identity(unit)}
        target, options = self.config.target, self.config.vendor_compiler_config
        if options is not None:
            identities["vendor"] = backends.fingerprint(target, options)
        return self.cache.cache_key(
            unit.gm,
            unit.fake_inputs,
            self.config,
            unit.stage,
            frozen=unit.frozen,
            identities=identities,
        )


def npu_compiler(
    freeze: bool = False,
    opt_level: OptLevel | str | int = OptLevel.level1,
    constant_folding: bool = True,
    debug: bool = False,
    **kwargs: Any,
) -> XpuGraph:
    """A backend for Ascend, in one call.

    Args:
        freeze: as in ``XpuGraphConfig``.
        opt_level: as in ``XpuGraphConfig``.
        constant_folding: as in ``XpuGraphConfig``.
        debug: as in ``XpuGraphConfig``.
        kwargs: the options of the target: ``compiler``, ``mode``, ...; see ``docs/npu.md``.

    Raises:
        ConfigError: a value or an option is not legal.
    """
    return XpuGraph(
        XpuGraphConfig(
            target=Target.npu,
            freeze=freeze,
            opt_level=opt_level,  # type: ignore[arg-type]  # parsed by the configuration
            constant_folding=constant_folding,
            debug=debug,
            vendor_compiler_config=kwargs,
        )
    )
