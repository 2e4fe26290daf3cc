"""The artifact of a graph that was split: a part that runs once, and the rest.

    fold(frozen inputs) -> constants        main(kept inputs, constants) -> outputs

The parameters are still inputs of every call. Before the constants are used again, each frozen
input is compared with the one they were made from: the object, its version counter, its storage and
its address. If one differs, fold runs again; nothing is compiled again.

Some of torch's own writers leave the version counter as it is. Fused optimisers announce themselves
through a hook; small buffers (batch norm's statistics) are compared by content. What is left is
not seen: writes through ``p.data`` in place or through numpy, collectives that write into a
parameter, larger buffers written by such operators. ``XpuGraph.refold()`` is for those.

Only weak references are kept, so an artifact keeps no model alive. ``torch.utils.swap_tensors``
refuses tensors that have any: call ``refold()`` first, which drops them.
"""

from __future__ import annotations

import functools
import json
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim.optimizer import register_optimizer_step_post_hook
from typing_extensions import override

from xpu_graph.artifact import SerializableArtifact, nest, unnest
from xpu_graph.errors import CacheError
from xpu_graph.torch_compat import storage_has_expired

SMALL_BUFFER_BYTES = 64 * 1024
"""Buffers up to this size are compared by content at each call."""

_fused_steps = 0
"""How many steps fused optimisers have made in this process, as far as anyone watched."""


@functools.cache
def _watch_optimizers() -> None:
    """Count the steps of fused optimisers, which write parameters without a new version."""

    def after_step(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        global _fused_steps  # noqa: PLW0603
        if any(group.get("fused") for group in optimizer.param_groups):
            _fused_steps += 1

    register_optimizer_step_post_hook(after_step)


class _Constants:
    """Constants, and the state of the tensors they were made from."""

    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        # Taken before the fold runs: a write that happens meanwhile then shows as a difference.
        self._seen = [(weakref.ref(t), t._version, t.data_ptr()) for t in inputs]
        self._steps = _fused_steps
        self._contents = [
            (position, tensor.detach().clone())
            for position, tensor in enumerate(inputs)
            if not isinstance(tensor, torch.nn.Parameter)
            and tensor.numel() * tensor.element_size() <= SMALL_BUFFER_BYTES
        ]
        # An address says nothing once its storage is gone: the allocator hands it out again, and
        # ``p.data = new`` leaves the object and its version as they were.
        self._storages = [  # kept, since each keeps its id from being given to another storage
            StorageWeakRef(t.untyped_storage())  # type: ignore[no-untyped-call]
            for t in inputs
        ]
        self._storage_ids = [reference.cdata for reference in self._storages]
        self.values: list[Any] = []

    def is_fresh(self, inputs: Sequence[torch.Tensor]) -> bool:
        if self._steps != _fused_steps or any(map(storage_has_expired, self._storage_ids)):
            return False
        return all(
            reference() is tensor and tensor._version == version and tensor.data_ptr() == address
            for (reference, version, address), tensor in zip(self._seen, inputs, strict=True)
        ) and all(_same_bits(inputs[position], content) for position, content in self._contents)


def _same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors of one layout hold the same bits; NaN counts as another value."""
    if left.dtype.is_complex:
        left, right = (torch.view_as_real(side.resolve_conj()) for side in (left, right))
    return torch.equal(left, right) and (
        not left.dtype.is_floating_point or torch.equal(left.signbit(), right.signbit())
    )


class FoldedArtifact(SerializableArtifact):
    """Runs ``fold`` when needed and ``main`` always.

    Args:
        fold: takes the inputs at ``frozen_inputs``, returns the constants.
        main: takes the inputs at ``kept_inputs``, then the constants.
        frozen_inputs: positions in the whole graph's inputs.
        kept_inputs: positions in the whole graph's inputs.
    """

    kind = "folded"

    def __init__(
        self,
        fold: SerializableArtifact,
        main: SerializableArtifact,
        frozen_inputs: Sequence[int],
        kept_inputs: Sequence[int],
    ) -> None:
        self._fold = fold
        self._main = main
        self._frozen_inputs = list(frozen_inputs)
        self._kept_inputs = list(kept_inputs)
        self._current: _Constants | None = None
        self._times_forgotten = 0
        self.folds = 0

    @override
    def boxed(self, args: list[Any]) -> Any:
        frozen = [args[position] for position in self._frozen_inputs]
        current = self._current
        if current is None or not current.is_fresh(frozen):
            constants = self._run_fold(frozen)
        else:
            constants = current.values
        main_args = [args[position] for position in self._kept_inputs]
        main_args += constants
        args.clear()
        return self._main.boxed(main_args)

    def refold(self) -> None:
        """Forget the constants: the next call computes them again."""
        self._times_forgotten += 1
        self._current = None

    def _run_fold(self, frozen: list[torch.Tensor]) -> list[Any]:
        _watch_optimizers()
        forgotten = self._times_forgotten
        trackable = not any(tensor.is_inference() for tensor in frozen)
        fresh = _Constants(frozen) if trackable else None
        # Aliases, because a view of a parameter keeps the parameter itself alive; and ordinary
        # tensors, because the next call may not be in inference mode.
        with torch.inference_mode(False), torch.no_grad():
            constants = list(self._fold(*[tensor.detach() for tensor in frozen]))
        self.folds += 1
        if fresh is not None:
            fresh.values = constants
        # A fold that began before ``refold()`` was called may have read what it is to forget.
        self._current = fresh if forgotten == self._times_forgotten else None
        return constants

    @override
    def members(self) -> dict[str, bytes]:
        positions = {"frozen_inputs": self._frozen_inputs, "kept_inputs": self._kept_inputs}
        return {
            "split.json": json.dumps(positions).encode(),
            **nest("fold", self._fold),
            **nest("main", self._main),
        }

    @override
    @classmethod
    def from_members(cls, members: Mapping[str, bytes]) -> FoldedArtifact:
        try:
            positions = json.loads(members["split.json"])
            frozen, kept = positions["frozen_inputs"], positions["kept_inputs"]
        except (KeyError, ValueError, TypeError) as error:
            raise CacheError(f"the stored split cannot be read: {error!r}") from error
        return cls(unnest("fold", members), unnest("main", members), frozen, kept)
