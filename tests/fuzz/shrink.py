"""Make a failing case small while it fails in the same way."""

from __future__ import annotations

from dataclasses import replace

import torch

from tests.fuzz import oracle
from tests.fuzz.builder import Unfit
from tests.fuzz.case import Storage, TensorInput, extent
from tests.fuzz.check import check
from tests.fuzz.rebuild import Edit, Fresh, rebuild
from xpu_graph import effects

MAX_TRIES = 1500


class Shrinker:
    """A failing case that gets smaller.

    Args:
        case: the case.
        failure: what ``check`` found.

    Attributes:
        case: the smallest case so far.
        failure: its failure.
    """

    def __init__(self, case, failure):
        self.case, self.failure = case, failure
        self._left = MAX_TRIES

    def shrink(self):
        """Try everything until nothing helps; returns whether the case could be rebuilt at all."""
        if not self._try(Edit()):
            return False
        self._fewer_passes()
        if self.case.hint is not None:
            self._try(Edit(size=self.failure.size or self.case.hint))
        self._accept(self.case, replace(self.failure.trial, as_code=False))
        steps = (self._outputs, self._dead, self._calls, self._inputs, self._layouts, self._numbers)
        while any(step() for step in steps):
            pass
        self._fewer_passes()
        return True

    # --- steps: each returns whether something became smaller ------------------------------------

    def _fewer_passes(self):
        for pass_ in self.failure.trial.passes:
            rest = tuple(other for other in self.failure.trial.passes if other is not pass_)
            if rest:
                trial = replace(self.failure.trial, passes=rest)
                self._accept(self.case, trial)

    def _outputs(self):
        outputs = list(self.case.gm.graph.output_node().args[0])
        for position in reversed(range(len(outputs))):
            rest = outputs[:position] + outputs[position + 1 :]
            if self._try(Edit(outputs=rest)):
                self._outputs()
                return True
        return False

    def _dead(self):
        """All at once what nobody reads, then one by one what has an effect."""
        nodes = list(self.case.gm.graph.nodes)
        dead = set()
        for node in reversed(nodes):
            unread = node.op in ("call_function", "get_attr") and dead.issuperset(node.users)
            if unread and effects.is_removable(node):
                dead.add(node)
        smaller = bool(dead) and self._try(Edit(dropped=dead))
        return smaller or self._any(
            Edit(dropped={node})
            for node in reversed(list(self.case.gm.graph.nodes))
            if node.op in ("call_function", "get_attr") and not node.users
        )

    def _calls(self):
        return self._any(
            edit
            for node in reversed(list(self.case.gm.graph.nodes))
            if node.op in ("call_function", "get_attr")
            for edit in self._without(node)
        )

    def _without(self, node):
        """Edits that do without a call: an argument like it, or a fresh input."""
        value = node.meta["val"]
        if not isinstance(value, torch.Tensor):
            return
        for argument in node.all_input_nodes:
            other = argument.meta["val"]
            if isinstance(other, torch.Tensor) and _alike(value, other):
                yield Edit(replaced={node: argument})
        if not any(isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride())):
            fresh = self._fresh(node)
            if fresh is not None:
                yield Edit(replaced={node: fresh})

    def _fresh(self, node):
        """An input with the numbers that a call gave."""
        seen = {}

        def watch(at, value):
            if at.name == node.name and isinstance(value, torch.Tensor):
                seen[at.name] = value.resolve_conj().resolve_neg().detach().clone()

        case, size = self.case, self.case.sizes[0]
        constants = case.real_constants(size)
        oracle.observe(
            lambda inputs: oracle.execute(case.gm, inputs, constants, watch=watch),
            case.real_inputs(size),
            constants,
            case.seed,
        )
        real = seen.get(node.name)
        return None if real is None else _stand_in(real)

    def _inputs(self):
        """Placeholders that nobody reads."""
        unused = [n for n in self.case.gm.graph.find_nodes(op="placeholder") if not n.users]
        return bool(unused) and (
            self._try(Edit(dropped=set(unused))) or self._any(Edit(dropped={n}) for n in unused)
        )

    def _layouts(self):
        """Inputs in memory of their own, one element after the other."""
        case = self.case
        nodes = case.gm.graph.find_nodes(op="placeholder")
        reals = case.real_inputs(case.sizes[0])
        return self._any(
            Edit(replaced={node: _stand_in(real.contiguous())})
            for node, spec, real in zip(nodes, case.inputs, reals, strict=True)
            if isinstance(spec, TensorInput) and all(isinstance(size, int) for size in spec.size)
            if real.stride() != real.contiguous().stride() or spec.offset
        )

    def _numbers(self):
        """Memory full of ones or zeros, or of short numbers."""
        return self._any(
            Edit(storages={number: simpler})
            for number, storage in enumerate(self.case.storages)
            for simpler in _simpler(storage)
        )

    # --- inside -----------------------------------------------------------------------------------

    def _any(self, edits):
        """Try edits until one holds."""
        return any(self._try(edit) for edit in edits)

    def _try(self, edit):
        if self._left <= 0:
            return False
        self._left -= 1
        try:
            case = rebuild(self.case, edit)
        except Unfit:
            return False
        return self._accept(case, self.failure.trial)

    def _accept(self, case, trial):
        size = self.failure.size
        if case.hint is not None and size is not None:
            case.sizes = (size,)
        failure = check(case, [trial]).failure
        if failure is None or failure.kind != self.failure.kind:
            return False
        self.case, self.failure = case, failure
        return True


def _alike(left, right):
    return left.dtype == right.dtype and tuple(map(str, left.shape)) == tuple(map(str, right.shape))


def _stand_in(real):
    """An input like a tensor, in memory of its own."""
    size, stride = tuple(real.shape), real.stride()
    length = extent(size, stride)
    data = real.as_strided((length,), (1,)).tolist()
    return Fresh(TensorInput(0, size, stride), Storage(real.dtype, length, data=data))


def _simpler(storage):
    """Simpler fills of a storage, simplest first; none for the simplest."""
    if storage.fill == "ones" and storage.data is None:
        return
    yield Storage(storage.dtype, storage.length, "ones")
    if storage.fill != "zeros" or storage.data is not None:
        yield Storage(storage.dtype, storage.length, "zeros")
