"""Where the fake values of a graph come from: the operators themselves, or the real values.

The operators are what AOTAutograd asks, and what the verifier asks again. A mirror of the real
values costs a tenth.
"""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils import _pytree as pytree

from tests.fuzz.case import fake_tensors
from xpu_graph.fx import tensors_in

CPU = torch.device("cpu")


class Operators:
    """Fake values by calling operators on fake values.

    Args:
        hint: what the varying size is taken for; None if nothing varies.

    Attributes:
        mode: the fake mode.
        s: the varying size, or None.
        symbol: its symbol, or None.
    """

    _static_mode = FakeTensorMode()

    def __init__(self, hint=None):
        self.hint, self.s, self.symbol = hint, None, None
        self.mode = self._static_mode
        if hint is not None:
            env, source = ShapeEnv(), ConstantSource("s")
            self.mode = FakeTensorMode(shape_env=env)
            self.symbol = env.create_symbol(hint, source=source, dynamic_dim=DimDynamic.DYNAMIC)
            self.s = env.create_symintnode(self.symbol, hint=hint, source=source)

    def inputs(self, specs, storages, reals):
        """Fake values of inputs."""
        return fake_tensors(specs, storages, self.mode, self.s)

    def fake(self, target, arguments, real, known, allow_guards):
        """The fake value of a call.

        Args:
            target: the operator.
            arguments: its arguments and keyword arguments, fake.
            real: what it gave on real ones.
            known: the fake values of the real arguments, by id.
            allow_guards: whether it may ask about the varying size.
        """
        env = self.mode.shape_env
        strict = env is not None and not allow_guards
        with self.mode, env.error_on_new_guards() if strict else nullcontext():
            return target(*arguments[0], **arguments[1])

    def lies(self, fake, real, arguments, reals):
        """Whether a fake value differs from the real one in what a reader of it could see."""
        return any(
            describe(left) != describe(right)
            or _sharing(left, tensors_in(arguments)) != _sharing(right, tensors_in(reals))
            for left, right in zip(tensors_in(fake), tensors_in(real), strict=True)
        )


class Mirror(Operators):
    """Fake values that mirror the real ones: their geometry, and who shares memory with whom."""

    def __init__(self):
        super().__init__()
        self._storages = {}

    def inputs(self, specs, storages, reals):
        return [self._mirrored(real) for real in reals]

    def fake(self, target, arguments, real, known, allow_guards):
        if any(tensor.is_conj() or tensor.is_neg() for tensor in tensors_in(real)):
            return super().fake(target, arguments, real, known, allow_guards)
        if id(real) in known:
            return known[id(real)]
        return pytree.tree_map_only(torch.Tensor, self._mirrored, real)

    def lies(self, fake, real, arguments, reals):
        return False

    def _mirrored(self, real):
        storage = real.untyped_storage()
        if storage._cdata not in self._storages:
            # the real one is kept, too: the number of a freed storage is given to the next one
            meta = torch.UntypedStorage(storage.nbytes(), device="meta")
            self._storages[storage._cdata] = (meta, storage)
        meta = torch.empty(0, dtype=real.dtype, device="meta").set_(
            self._storages[storage._cdata][0],
            real.storage_offset(),
            tuple(real.shape),
            real.stride(),
        )
        return FakeTensor(self.mode, meta, CPU)


def number(size):
    """A size as a number, without asking torch for a guard."""
    return size if isinstance(size, int) else size.node.hint


def describe(tensor):
    """Dtype, shape, stride, offset and lazy bits of a tensor."""
    return (
        tensor.dtype,
        tuple(map(number, tensor.shape)),
        tuple(map(number, tensor.stride())),
        number(tensor.storage_offset()),
        tensor.is_conj(),
        tensor.is_neg(),
    )


def _sharing(tensor, others):
    storage = tensor.untyped_storage()._cdata
    return [storage == other.untyped_storage()._cdata for other in others]
