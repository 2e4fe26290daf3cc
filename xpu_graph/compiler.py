"""``XpuGraph``: the story of a compilation, from a Dynamo graph to something to call."""

from __future__ import annotations

import contextlib
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
from xpu_graph.cache import CacheKey, XpuGraphCache, default_cache, no_cache
from xpu_graph.config import XpuGraphConfig, parse_tolerances
from xpu_graph.debug.fuel import Fuel
from xpu_graph.debug.interceptor import Interceptor
from xpu_graph.debug.logs import configure_logs
from xpu_graph.debug.report import (
    KEPT_REPORTS,
    CompileReport,
    GraphReport,
    count_calls,
    remember,
)
from xpu_graph.debug.watchers import dumps, watchers
from xpu_graph.dispatch import dispatch
from xpu_graph.errors import (
    BackendError,
    BackendUnavailable,
    CacheError,
    ConfigError,
    NotCacheable,
    XpuGraphError,
)
from xpu_graph.folded import FoldedArtifact
from xpu_graph.fx import shallow_copy
from xpu_graph.passes import DEFAULT_PASSES, Pipeline, split_constant_part
from xpu_graph.runtime import boxed_entry, named_errors
from xpu_graph.stage import Stage, Unit

_T = TypeVar("_T")
log = logging.getLogger(__name__)
configure_logs()

_lock = threading.Lock()
"""Held while counts and derived backends change; never while compiling."""

_TRAINING = (
    "it needs gradients, so it runs as AOTAutograd made it, without passes and vendor compiler; "
    "call under torch.no_grad() or torch.inference_mode() if none are wanted"
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
            compiler, ``"training graph"`` as AOTAutograd made them.

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
            backends.check_options(self.config.target, self.config.vendor_compiler_config)
        if not isinstance(cache, (XpuGraphCache, type(None))):
            raise ConfigError(f"XpuGraph takes an XpuGraphCache, not {cache!r}")
        if not self.config.enable_cache:
            cache = no_cache()
        self.cache = cache if cache is not None else default_cache()
        self.reports: deque[CompileReport] = deque(maxlen=KEPT_REPORTS)
        self.counts: Counter[str] = Counter()
        self._pipeline = Pipeline(DEFAULT_PASSES, self.config)
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
        compiled = dispatch(
            gm, example_inputs, self.config, lambda unit: self._compile(unit, report)
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
                    "vendor_compiler_config is None; give {} for the target's default"
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

    def _find_or_make(self, unit: Unit, told: GraphReport) -> SerializableArtifact:
        if not self.config.enable_cache:
            return self._make(unit, told)
        known: list[str] = []

        def make_key() -> CacheKey | str:
            known.extend(torch_compat.shape_facts(unit.fake_inputs))
            return self._key(unit)

        key = self._ask_cache("key", told, make_key)
        if key is None:
            return self._make(unit, told)
        told.key = str(key)
        found = self._load(key, unit, told)
        if found is not None:
            return found
        with contextlib.ExitStack() as stack:
            turn = contextlib.ExitStack()
            stack.callback(self._ask_cache, "writer", told, turn.close)
            may_store = self._ask_cache(
                "writer",
                told,
                lambda: turn.enter_context(self.cache.writer(key, self.config.cache_wait_s)),
            )
            found = self._load(key, unit, told)  # another process may have stored it meanwhile
            if found is not None:
                return found
            if told.cache == "off":
                told.cache = "miss"
            inputs = list(unit.fake_inputs)  # the split changes the unit's own
            artifact = self._make(unit, told)
            if may_store:
                return self._store(key, artifact, inputs, known, told)
            if may_store is not None:
                told.notes.append("another process compiles this graph; nothing was stored")
            return artifact

    def _make(self, unit: Unit, told: GraphReport) -> SerializableArtifact:
        if unit.stage != Stage.inference:
            told.notes.append(_TRAINING)
            self._warn_once("training graph", "%s: %s", unit.name, _TRAINING)
            return SerializableGraphModule(unit.gm)
        with told.timed("passes"):
            self._pipeline.run(unit, watchers(self.config, told, self._fuel))
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

    # --- the cache ----------------------------------------------------------------------------

    def _ask_cache(self, step: str, told: GraphReport, operation: Callable[[], _T]) -> _T | None:
        """Do a step of the cache; one that fails costs a warning and the keeping, not the model."""
        try:
            with told.timed(step), torch_compat.no_dispatch_modes():
                return operation()
        except (NotCacheable, BackendUnavailable) as reason:
            told.cache = f"not cacheable: {reason}"
        except Exception as error:  # a store, an artifact or a backend of someone else
            reason = str(error) if isinstance(error, XpuGraphError) else repr(error)
            told.cache = f"not cacheable: {reason}"
            self._warn_once(
                "cache failure",
                "%s is not kept, the cache's %s failed: %s",
                told.name,
                step,
                reason,
            )
        return None

    def _key(self, unit: Unit) -> CacheKey | str:
        if unit.stage != Stage.inference:
            raise NotCacheable("training graphs are not kept yet")
        if self._fuel is not None:
            raise NotCacheable("fuel is limited")
        identities = {"passes": self._pipeline.identity(unit)}
        target, options = self.config.target, self.config.vendor_compiler_config
        if options is not None:
            try:
                identities["vendor"] = backends.fingerprint(target, options)
            except XpuGraphError:
                raise
            except Exception as error:  # it is another package's code
                raise BackendError(
                    f"the backend of {target!r} failed to give its fingerprint: {error!r}"
                ) from error
        return self.cache.cache_key(
            unit.gm,
            unit.fake_inputs,
            self.config,
            unit.stage,
            frozen=unit.frozen,
            identities=identities,
        )

    def _load(
        self, key: CacheKey | str, unit: Unit, told: GraphReport
    ) -> SerializableArtifact | None:
        def fits(facts: Mapping[str, Any]) -> bool:
            guards = facts.get("guards")
            return guards is None or torch_compat.evaluate_shape_guards(guards, unit.fake_inputs)

        def load() -> SerializableArtifact | None:
            found = self.cache.load_artifact(key, fits)
            if not isinstance(found, (SerializableArtifact, type(None))):
                raise CacheError(f"{type(self.cache).__name__} gave {found!r} for an artifact")
            return found

        if dumps(self.config):
            told.notes.append("the cache was not read, since a hit has no graphs to dump")
            return None
        found = self._ask_cache("load", told, load)
        if found is not None:
            told.cache = "hit"
        log.debug("%s: cache %s for %s", unit.name, "hit" if found else "miss", key)
        return found

    def _store(
        self,
        key: CacheKey | str,
        artifact: SerializableArtifact,
        inputs: list[Any],
        known: list[str],
        told: GraphReport,
    ) -> SerializableArtifact:
        """Keep an artifact, with the guards that compiling added; gives the one to use."""

        def store() -> SerializableArtifact:
            guards = torch_compat.shape_guards(inputs, known)
            return self.cache.save_artifact(key, artifact, guards=guards)

        kept = self._ask_cache("store", told, store)
        return kept if isinstance(kept, SerializableArtifact) else artifact
