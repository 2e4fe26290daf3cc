"""Add calls to a graph: on fake values for the graph, on real ones to see that they can be run."""

from __future__ import annotations

import operator
from collections import Counter
from contextlib import suppress

import torch
from torch import fx

from tests.fuzz.case import Storage, TensorInput, aten, extent
from tests.fuzz.worlds import number
from xpu_graph.fx import tensors_in

LARGEST = 400
"""No tensor of a graph has more elements."""

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.uint8, torch.int8, torch.int16)
DTYPES = (*FLOATS, *INTEGERS, torch.bool, torch.complex64)

WRITES = (
    aten.zero_.default,
    aten.neg_.default,
    aten.logical_not_.default,
    aten.bitwise_not_.default,
    aten.exp_.default,
)
"""Operators that write to their only operand."""


class Unfit(Exception):
    """An operator does not take these operands."""


class Builder:
    """A graph in the making.

    Attributes:
        rng: decides everything.
        graph: the graph.
        world: makes the fake values.
        size_node: the placeholder of the varying size, or None.
        tensors: the nodes whose value is a tensor, in order.
        calls: how many calls the graph has.
        unrest: how likely an operand is written to before it is read.
        guards: how likely a call may ask about the varying size.
        lies: operators left out because their fake value was not like the real one.
    """

    def __init__(self, rng, world):
        self.rng = rng
        self.graph = fx.Graph()
        self.world = world
        self.size_node = None
        self.tensors = []
        self.real = {}
        self.storages = []
        self.constants = {}
        self.calls = 0
        self.unrest = 0.0
        self.guards = 0.2
        self.lies = Counter()

    # --- making nodes ---------------------------------------------------------------------------

    def add(self, node, fake, real):
        node.meta["val"] = fake
        self.real[node] = real
        if isinstance(fake, torch.Tensor):
            self.tensors.append(node)
        return node

    def call(self, target, *args, **kwargs):
        """Append a call; raises ``Unfit`` if it cannot be run, on fake or on real values."""
        if self.unrest and self.chance(self.unrest):
            self._write_to_one(args)
        reals = fx.map_arg((args, kwargs), self.real.__getitem__)
        try:
            real = target(*reals[0], **reals[1])
        except Exception as error:  # operators refuse operands with errors of many kinds
            raise Unfit(str(error)) from error
        if any(tensor.numel() > LARGEST for tensor in tensors_in(real)):
            raise Unfit("too large")
        fake = self._fake(target, args, kwargs, real)
        node = self.graph.call_function(target, args, kwargs)
        node.meta["stack_trace"] = f"call {self.calls}"
        self.calls += 1
        return self.add(node, fake, real)

    def _write_to_one(self, args):
        read = []
        fx.map_arg(args, read.append)
        unrest, self.unrest = self.unrest, 0.0
        with suppress(Unfit):  # it need not be one that can be written to
            if read:
                self.call(self.choose(*WRITES), self.choose(*read))
        self.unrest = unrest

    def _fake(self, target, args, kwargs, real):
        read = []
        fx.map_arg((args, kwargs), read.append)
        known = {id(self.real[node]): node.meta["val"] for node in read}
        try:
            fakes = fx.map_arg((args, kwargs), lambda node: node.meta["val"])
            fake = self.world.fake(
                target, fakes, real, known, allow_guards=self.chance(self.guards)
            )
        except Exception as error:  # as above
            raise Unfit(str(error)) from error
        theirs = [self.real[node] for node in read]
        if self.world.lies(fake, real, fakes, theirs):
            self.lies[str(target)] += 1
            raise Unfit("its fake value is not like the real one")
        return fake

    def constant(self, tensor):
        """A tensor that the module owns."""
        name = f"_tensor_constant{len(self.constants)}"
        spec = TensorInput(len(self.storages), tuple(tensor.shape), tensor.stride())
        length = extent(spec.size, spec.stride)
        flat = tensor.as_strided((length,), (1,)).tolist()
        self.storages.append(Storage(tensor.dtype, length, data=flat))
        self.constants[name] = spec
        (fake,) = self.world.inputs([spec], self.storages, [tensor])
        return self.add(self.graph.get_attr(name), fake, tensor)

    # --- choosing -------------------------------------------------------------------------------

    def pick(self, fits=lambda value: True):
        """A tensor node, a recent one rather than an old one.

        Args:
            fits: what its fake value must satisfy.
        """
        fitting = [node for node in self.tensors if fits(node.meta["val"])]
        if not fitting:
            raise Unfit("no operand")
        if self.rng.random() < 0.25:
            return self.rng.choice(fitting)
        return fitting[-1 - min(int(self.rng.expovariate(0.4)), len(fitting) - 1)]

    def like(self, node):
        """Another tensor node of the same shape, or the same again if there is none."""
        shape = self.described_shape(node)
        return self.pick(lambda value: self.shape_at_hint(value) == shape)

    def described_shape(self, node):
        return self.shape_at_hint(node.meta["val"])

    def shape_at_hint(self, value):
        return tuple(number(size) for size in value.shape)

    def chance(self, probability):
        return self.rng.random() < probability

    def choose(self, *choices):
        return self.rng.choice(choices)

    def dim(self, node):
        """A dimension of a tensor, counted from either end."""
        rank = node.meta["val"].dim()
        if rank == 0:
            raise Unfit("no dimension")
        return self.rng.randrange(-rank, rank)

    # --- sizes ----------------------------------------------------------------------------------

    def size(self, node, dim):
        """A size of a tensor as a call takes it: a number, or a node where it varies."""
        return self.size_argument(node.meta["val"].shape[dim], node, dim)

    def sizes(self, node):
        return [self.size(node, dim) for dim in range(node.meta["val"].dim())]

    def size_argument(self, size, node=None, dim=None):
        if isinstance(size, int):
            return size
        wanted = size.node.expr
        for known in self.graph.nodes:
            value = known.meta.get("val")
            if isinstance(value, torch.SymInt) and value.node.expr == wanted:
                return known
        if node is None:
            raise Unfit("no node has this size")
        return self.call(aten.sym_size.int, node, dim)

    def product(self, sizes):
        """The product of sizes, as a call takes it."""
        result = 1
        for size in sizes:
            if isinstance(size, int) and isinstance(result, int):
                result *= size
            elif isinstance(size, int) and size == 1:
                continue
            elif isinstance(result, int) and result == 1:
                result = size
            else:
                result = self.call(operator.mul, result, size)
        return result


__all__ = ["DTYPES", "FLOATS", "INTEGERS", "Builder", "Unfit", "number"]
