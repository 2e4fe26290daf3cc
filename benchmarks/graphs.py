"""ATen graphs of any number of nodes, of three kinds, for the benchmarks.

Small blocks are traced through ``torch.compile`` and AOTAutograd; a graph is many copies of them
joined by hand, for tracing 20,000 nodes would take longer than what is measured. The fake values of
the whole are then computed node by node, so every copy has memory of its own.

- transformer: deep. Layers of hand-written RMS norm, layer norm and tanh GELU, attention out of
  views and transposes, masks out of ``full``, ``arange`` and ``where``, casts, redundant copies.
- recommender: wide. Embeddings of slices of one input, parts of two equal splits, one ``cat`` of
  all features, whose width grows with the graph, pooling, interactions, dense towers.
- training: layers with dropout forward, a loss, then the layers backward, as ``torch.func.grad``
  gives them.

Tensors are tiny: the passes see metadata only.
"""

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn import functional
from torch.utils import _pytree as pytree

from xpu_graph import Stage, XpuGraphConfig
from xpu_graph.artifact import SerializableGraphModule
from xpu_graph.dispatch import dispatch
from xpu_graph.fakes import run_fake
from xpu_graph.fx import inherit_provenance, placeholders, shallow_copy
from xpu_graph.runtime import boxed_entry
from xpu_graph.stage import Unit

aten = torch.ops.aten

BATCH, LENGTH, HIDDEN, HEADS = 2, 4, 8, 2
HEAD = HIDDEN // HEADS
ROWS = 10
"""Rows of an embedding table."""
GROUP = 16
"""Features that meet in one interaction of the recommender, and that one tower reads."""


@dataclass
class Block:
    """A traced function, to be copied into larger graphs.

    Attributes:
        graphs: one for inference; two, forward and backward, for training.
        order: for every input of the first graph, the position of the argument it is.
        arguments: what the function was traced with.
    """

    graphs: list[fx.Graph]
    order: list[int]
    arguments: Sequence[torch.Tensor]


def trace(function: Callable[..., Any], *arguments: torch.Tensor, grad: bool = False) -> Block:
    """Trace a function of tensors the way ``torch.compile`` does, before any pass.

    Args:
        function: reads every argument.
        arguments: what to trace it with; those that require gradients get them.
        grad: whether to trace the backward, too.
    """
    block = Block([], [], arguments)

    def compile_unit(unit: Unit) -> Callable[[list[Any]], Any]:
        block.graphs.append(shallow_copy(unit.gm).graph)
        return boxed_entry(SerializableGraphModule(shallow_copy(unit.gm)))

    def backend(gm: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        for value in inputs:
            block.order.append(next(i for i, a in enumerate(arguments) if a is value))
        return dispatch(gm, inputs, XpuGraphConfig(), compile_unit)

    torch.compiler.reset()
    with torch.set_grad_enabled(grad):
        result = torch.compile(function, backend=backend, dynamic=False)(*arguments)
        if grad:
            result.sum().backward()
    assert len(block.order) == len(arguments), "the function does not read every argument"
    return block


class Builder:
    """A graph under construction."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self._mode = FakeTensorMode(shape_env=ShapeEnv())
        self._inputs: list[torch.Tensor] = []
        self._last_input: fx.Node | None = None
        self._source: fx.Node | None = None

    def input(self, like: torch.Tensor) -> fx.Node:
        """A new input of the geometry of a tensor."""
        with self.graph.inserting_after(self._last_input):
            node = self.graph.placeholder(f"arg{len(self._inputs)}")
        self._last_input = node
        with self._mode:
            fake = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)
        self._inputs.append(fake)
        return node

    def call(self, target: Any, *arguments: Any) -> fx.Node:
        """A call made by hand; it says that it comes from where the last copied block does."""
        node = self.graph.call_function(target, arguments)
        if self._source is not None:
            inherit_provenance(node, self._source)
        return node

    def copy(self, graph: fx.Graph, inputs: Sequence[fx.Node]) -> list[fx.Node]:
        """Copy a graph, and return what it returns."""
        copies = dict(zip(placeholders(graph), inputs, strict=True))
        for node in graph.nodes:
            if node.op == "call_function":
                copies[node] = self.graph.node_copy(node, copies.__getitem__)
                self._source = node
        returned = pytree.tree_leaves(graph.output_node().args[0])
        return [copies[node] for node in returned if isinstance(node, fx.Node)]

    def inputs_for(self, block: Block, given: Sequence[fx.Node]) -> list[fx.Node]:
        """The inputs of a copy of a block: its first arguments are given, the rest are new."""
        fresh = [self.input(tensor) for tensor in block.arguments[len(given) :]]
        everything = [*given, *fresh]
        return [everything[position] for position in block.order]

    def apply(self, block: Block, *given: fx.Node) -> fx.Node:
        """Copy an inference block, and return its one result."""
        (result,) = self.copy(block.graphs[0], self.inputs_for(block, given))
        return result

    def finish(self, outputs: Sequence[fx.Node], stage: Stage = Stage.inference) -> Unit:
        """End the graph and give every node its fake value."""
        self.graph.output(tuple(outputs))
        gm = fx.GraphModule(torch.nn.Module(), self.graph)
        for node, value in zip(placeholders(self.graph), self._inputs, strict=True):
            node.meta["val"] = value
        for node in self.graph.nodes:
            if node.op == "call_function":
                node.meta["val"] = run_fake(node, self._mode)
        return Unit(stage, gm, list(self._inputs))


def _rms_norm(x, weight):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


def _layer_norm(x, weight, bias):
    mean = x.mean(-1, keepdim=True)
    centred = x - mean
    return centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * weight + bias


def _gelu(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x.pow(3.0))))


def _heads(x, weight, bias):
    projected = functional.linear(x, weight, bias).view(BATCH, LENGTH, HEADS, HEAD)
    return projected.transpose(1, 2)


def _attend(x, mask, weights, biases):
    query, key, value = (_heads(x, w, b) for w, b in zip(weights[:3], biases[:3], strict=True))
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(HEAD)
    probabilities = torch.softmax((scores + mask).float(), dim=-1).to(x.dtype)
    mixed = torch.matmul(probabilities, value).transpose(1, 2).contiguous()
    return functional.linear(mixed.view(BATCH, LENGTH, HIDDEN), weights[3], biases[3])


def _causal_mask(x):
    positions = torch.arange(LENGTH)
    allowed = positions[None, :] <= positions[:, None]
    lowest = torch.full((), torch.finfo(x.dtype).min, dtype=x.dtype)
    mask = torch.where(allowed, torch.zeros((), dtype=x.dtype), lowest)
    return mask[None, None, :, :].expand(BATCH, 1, LENGTH, LENGTH)


def _inference_layer(x, rms, scale, shift, w1, b1, w2, b2, *attention):
    mask = _causal_mask(x)
    normed = _rms_norm(x, rms)
    x = x + _attend(normed.clone(), mask * 1.0, attention[:4], attention[4:]).clone()
    flat = _layer_norm(x, scale, shift).reshape(-1, HIDDEN)
    inner = _gelu(functional.linear(flat.contiguous(), w1, b1)).view(BATCH, LENGTH, -1)
    inner = functional.dropout(inner, 0.1, training=False)
    outer = functional.linear(inner.reshape(BATCH * LENGTH, -1), w2, b2)
    return x + outer.view(BATCH, LENGTH, HIDDEN) / 1


def _training_layer(x, rms, scale, shift, w1, b1, w2, b2, *attention):
    mask = _causal_mask(x)
    x = x + functional.dropout(_attend(_rms_norm(x, rms), mask, attention[:4], attention[4:]), 0.1)
    inner = _gelu(functional.linear(_layer_norm(x, scale, shift), w1, b1))
    return x + functional.dropout(functional.linear(inner, w2, b2), 0.1)


def _layer_arguments(dtype: torch.dtype, grad: bool = False) -> list[torch.Tensor]:
    """The input of a layer and its parameters."""
    vector, wide = (HIDDEN,), (4 * HIDDEN,)
    shapes = [vector, vector, vector, (*wide, HIDDEN), wide, (HIDDEN, *wide), vector]
    shapes = [(BATCH, LENGTH, HIDDEN), *shapes, *[(HIDDEN, HIDDEN)] * 4, *[vector] * 4]
    return [torch.ones(shape, dtype=dtype, requires_grad=grad) for shape in shapes]


def transformer(nodes: int) -> Unit:
    """A deep graph of about this many nodes."""
    layer = trace(_inference_layer, *_layer_arguments(torch.bfloat16))
    builder = Builder()
    x = builder.input(layer.arguments[0])
    while len(builder.graph.nodes) < nodes - 1:
        x = builder.apply(layer, x)
    return builder.finish([x])


def training(nodes: int) -> Unit:
    """Layers forward, a loss, and the layers backward; about this many nodes in all."""
    layer = trace(_training_layer, *_layer_arguments(torch.float32, grad=True), grad=True)
    target = torch.ones(BATCH, LENGTH, HIDDEN)
    loss = trace(functional.mse_loss, target.clone().requires_grad_(), target, grad=True)
    calls = [node for graph in layer.graphs for node in graph.nodes if node.op == "call_function"]
    a_layer = len(calls) + len(layer.arguments) - 1
    builder = Builder()
    x = builder.input(target)
    outputs, saved = [], []
    for block in [*[layer] * max(1, round(nodes / a_layer)), loss]:
        forward = block.graphs[0]
        x, *kept = builder.copy(forward, builder.inputs_for(block, [x]))
        saved.append((block, kept))
    outputs = [x]
    gradient = builder.call(aten.full.default, [], 1.0)
    for block, kept in reversed(saved):
        given = builder.copy(block.graphs[1], [*kept, gradient])
        by_argument = dict(zip(_differentiated(block), given, strict=True))
        gradient = by_argument.pop(0)
        outputs += by_argument.values()
    return builder.finish([*outputs, gradient], Stage.joint)


def _differentiated(block: Block) -> list[int]:
    """The arguments that the results of a backward graph are the gradients of, in order."""
    return [position for position in block.order if block.arguments[position].requires_grad]


def _feature(ids, dense, table):
    vectors = functional.embedding(ids, table)
    valid = (ids != 0).unsqueeze(-1).to(table.dtype)
    count = valid.sum(1).clamp(min=1.0)
    mean = (functional.embedding(ids, table) * valid).sum(1) / count
    bounded = torch.where(torch.full_like(mean, 1.0) > mean, mean, torch.zeros_like(mean))
    pooled = torch.stack([vectors.sum(1), bounded, mean * 1.0], 0).sum(0)
    both = torch.cat([pooled, (dense + 0.0).expand(BATCH, HIDDEN)], 1)
    return torch.cat([both[:, :HIDDEN], both[:, HIDDEN:]], 1)[:, :HIDDEN].clone()


def _interaction(stacked):
    vectors = stacked.view(BATCH, GROUP, HIDDEN)
    products = torch.matmul(vectors, vectors.transpose(1, 2))
    again = torch.matmul(vectors, vectors.transpose(1, 2)).reshape(BATCH, GROUP * GROUP)
    return torch.cat([products.reshape(BATCH, -1)[:, 1:], again[:, :1]], 1)


def _tower(x, w1, b1, w2, b2):
    inner = torch.relu(functional.linear(x, w1, b1))
    return torch.sigmoid(functional.linear(inner.contiguous(), w2, b2)).squeeze(-1).unsqueeze(-1)


def recommender(nodes: int) -> Unit:
    """A wide graph of about this many nodes."""
    ids, dense = torch.ones(BATCH, LENGTH, dtype=torch.int64), torch.ones(BATCH, 1)
    feature = trace(_feature, ids, dense, torch.ones(ROWS, HIDDEN))
    interaction = trace(_interaction, torch.ones(BATCH, GROUP * HIDDEN))
    wide = GROUP * HIDDEN + GROUP * GROUP
    shapes = [(HIDDEN, wide), (HIDDEN,), (1, HIDDEN), (1,)]
    tower = trace(_tower, torch.ones(BATCH, wide), *[torch.ones(shape) for shape in shapes])
    sizes = [len(block.graphs[0].nodes) for block in (feature, interaction, tower)]
    a_group = GROUP * sizes[0] + sizes[1] + sizes[2]
    groups = max(1, round(nodes / a_group))
    features = groups * GROUP

    builder = Builder()
    all_ids = builder.input(torch.ones(BATCH, features * LENGTH, dtype=torch.int64))
    all_dense = builder.input(torch.ones(BATCH, features))
    vectors = []
    parts: fx.Node | None = None
    for number in range(features):
        start = number * LENGTH
        some = builder.call(aten.slice.Tensor, all_ids, 1, start, start + LENGTH)
        if number in (0, features // 2):  # the second is the first again
            parts = builder.call(aten.split_with_sizes.default, all_dense, [1] * features, 1)
        column = builder.call(operator.getitem, parts, number)
        vectors.append(builder.apply(feature, some, column))
    everything = builder.call(aten.cat.default, vectors, 1)
    scores = []
    for number in range(groups):
        start = number * GROUP * HIDDEN
        group = builder.call(aten.slice.Tensor, everything, 1, start, start + GROUP * HIDDEN)
        crossed = builder.apply(interaction, group)
        joined = builder.call(aten.cat.default, [group, crossed], 1)
        scores.append(builder.apply(tower, joined))
    return builder.finish([builder.call(aten.cat.default, scores, 1)])


KINDS: dict[str, Callable[[int], Unit]] = {
    "transformer": transformer,
    "recommender": recommender,
    "training": training,
}
"""Kind -> makes a unit of about this many nodes."""
