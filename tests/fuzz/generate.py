"""A random graph from a seed."""

from __future__ import annotations

import contextlib
import logging
import random

import torch

from tests.fuzz.builder import DTYPES, Builder, Unfit
from tests.fuzz.case import (
    Case,
    SizeInput,
    Storage,
    TensorInput,
    aten,
    extent,
    graph_module,
)
from tests.fuzz.recipes import RECIPES
from tests.fuzz.worlds import Mirror, Operators

THEMES = {
    "views": 5,
    "copies": 3,
    "arithmetic": 7,
    "pointwise": 2.5,
    "joins": 4,
    "scatters": 2,
    "reductions": 3,
    "noops": 3,
    "constants": 3,
    "randomness": 1,
    "writes": 2,
    "checks": 1,
    "repeats": 3,
}
"""How often a theme is drawn; every graph stresses a few of them."""

INPUT_FILLS = ("numbers", "mixed", "mixed", "special", "small", "zeros", "ones")
MAX_ATTEMPTS = 200


def generate(seed, themes=()):
    """The case of a seed: the same in every process.

    Args:
        seed: any number.
        themes: what the graph is made of; () for everything.
    """
    rng = random.Random(seed)
    hint = rng.choice((3, 4, 5, 6)) if rng.random() < 0.15 else None
    asks_operators = hint is not None or rng.random() < 0.2
    builder = Builder(rng, Operators(hint) if asks_operators else Mirror())
    inputs = _inputs(rng, hint)
    with torch.no_grad(), _quiet():
        torch.default_generator.manual_seed(seed)
        case = Case(None, inputs, builder.storages, builder.constants, hint, seed=seed)
        builder.storages += _storages(rng, inputs)
        _placeholders(builder, case)
        _calls(builder, themes or _themes(rng))
        _epilogue(builder)
        _outputs(builder)
    case.gm = graph_module(builder.graph, case.real_constants())
    case.sizes = _sizes(builder)
    case.about = f"seed {seed}"
    case.lies = builder.lies
    case.has_operators_values = asks_operators
    return case


@contextlib.contextmanager
def _quiet():
    """Without what torch logs about operands that an operator does not take."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


# --- inputs -------------------------------------------------------------------------------------


def _inputs(rng, hint):
    """How the inputs lie in memory; storages are numbered by first use."""
    dims = [rng.choice((1, 2, 3, 4, 2, 3)) for _ in range(2)]
    dims.append(rng.choice((1, 1, 0, 5)))
    common = [rng.choice(dims) for _ in range(rng.choice((1, 2, 2, 3, 4)))]
    if hint is not None:
        common[rng.randrange(len(common))] = rng.choice(("s", "s", "s", "2*s", "s+1"))
    inputs = [SizeInput()] if hint is not None else []
    for storage in range(rng.choice((1, 2, 2, 3))):
        sizes = list(common)
        if rng.random() < 0.3:
            sizes = [rng.choice((1, size)) for size in sizes]
        if rng.random() < 0.15:
            sizes = [rng.choice(dims) for _ in range(rng.choice((0, 1, 2, 3)))]
        inputs.append(_laid_out(rng, storage, sizes))
        static = all(isinstance(size, int) for size in sizes)
        while static and rng.random() < 0.12:
            inputs.append(_another_view(rng, inputs[-1]))
    return inputs


def _laid_out(rng, storage, sizes):
    """A tensor with dimensions in another order, with gaps, or with expanded dimensions."""
    rank = len(sizes)
    order = list(range(rank))
    steps, pads = [1] * rank, [0] * rank
    kind = rng.choice(("plain", "plain", "plain", "permuted", "last", "gaps", "expanded", "step"))
    if kind == "permuted":
        rng.shuffle(order)
    elif kind == "last" and rank > 2:
        order = [0, *range(2, rank), 1]
    elif kind == "gaps":
        pads = [rng.choice((0, 1, 2)) for _ in range(rank)]
    elif kind == "expanded":
        steps = [rng.choice((0, 1)) for _ in range(rank)]
    elif kind == "step":
        steps = [rng.choice((1, 2)) for _ in range(rank)]
    stride = [0] * rank
    span = 1
    for dim in reversed(order):
        stride[dim] = _times(steps[dim], span)
        if steps[dim]:
            size = sizes[dim]
            padded = size + pads[dim] if isinstance(size, int) else f"({size}+{pads[dim]})"
            span = _times(_times(steps[dim], padded or 1), span)
    offset = rng.choice((0, 0, 0, 1)) if all(isinstance(size, int) for size in sizes) else 0
    return TensorInput(storage, tuple(sizes), tuple(stride), offset)


def _times(left, right):
    if isinstance(left, int) and isinstance(right, int):
        return left * right
    if 0 in (left, right):
        return 0
    return right if left == 1 else left if right == 1 else f"{left}*{right}"


def _another_view(rng, spec):
    """A second input in the memory of one: the same again, transposed, or a part."""
    size, stride, offset = list(spec.size), list(spec.stride), spec.offset
    kind = rng.choice(("same", "transposed", "row", "part"))
    if kind == "transposed":
        size.reverse()
        stride.reverse()
    elif kind == "row" and size and size[0]:
        row = rng.randrange(size[0])
        offset += row * stride[0]
        del size[0], stride[0]
    elif kind == "part" and size and size[0] > 1:
        offset += stride[0]
        size[0] -= 1
    return TensorInput(spec.storage, tuple(size), tuple(stride), offset)


def _storages(rng, inputs):
    lengths = {}
    for spec in inputs:
        if isinstance(spec, TensorInput):
            needed = extent(spec.size, spec.stride)
            if isinstance(needed, int):
                needed = max(needed + spec.offset, lengths.get(spec.storage, 0))
            lengths[spec.storage] = needed
    main = rng.choice((torch.float32, torch.float32, torch.float32, *DTYPES))
    storages = []
    for length in lengths.values():
        dtype = main if rng.random() < 0.8 else rng.choice(DTYPES)
        storages.append(Storage(dtype, length, rng.choice(INPUT_FILLS), rng.randrange(1 << 30)))
    return storages


def _placeholders(builder, case):
    reals = case.real_inputs(case.hint)
    fakes = builder.world.inputs(case.inputs, builder.storages, reals)
    for position, (fake, real) in enumerate(zip(fakes, reals, strict=True)):
        if isinstance(case.inputs[position], SizeInput):
            builder.size_node = builder.add(builder.graph.placeholder("s"), fake, real)
        else:
            builder.add(builder.graph.placeholder(f"x{position}"), fake, real)


# --- calls --------------------------------------------------------------------------------------


def _themes(rng):
    """All themes, or a few: these then meet more often."""
    return (
        list(THEMES)
        if rng.random() < 0.5
        else [*rng.sample(list(THEMES), 3), "pointwise", "repeats"]
    )


def _calls(builder, themes):
    rng = builder.rng
    builder.unrest = rng.choice((0, 0, 0, 0.05, 0.1, 0.3))
    wanted = rng.randrange(5, 26 if builder.world.hint is None else 16)
    weights = [THEMES[theme] * rng.choice((0.1, 0.5, 1, 5)) for theme in themes]
    for _ in range(MAX_ATTEMPTS):
        if builder.calls >= wanted:
            break
        (theme,) = rng.choices(themes, weights)
        shares, recipes = zip(*RECIPES[theme], strict=True)
        try:
            rng.choices(recipes, shares)[0](builder)
        except Unfit:
            continue  # what was appended before stays, as dead code


def _epilogue(builder):
    """Inputs that are written to at the end, as AOTAutograd writes them."""
    rng = builder.rng
    builder.unrest = 0.0
    if rng.random() > 0.3:
        return
    inputs = [node for node in builder.tensors if node.op == "placeholder"]
    for node in rng.sample(inputs, min(len(inputs), rng.choice((1, 1, 2)))):
        value = node.meta["val"]
        shape, dtype = builder.described_shape(node), value.dtype
        try:
            source = builder.pick(
                lambda v, shape=shape, dtype=dtype: (
                    builder.shape_at_hint(v) == shape and v.dtype == dtype
                )
            )
            builder.call(aten.copy_.default, node, source)
        except Unfit:
            continue


# --- outputs ------------------------------------------------------------------------------------


def _outputs(builder):
    rng = builder.rng
    unused = [node for node in builder.tensors if not node.users and node.op == "call_function"]
    outputs = [node for node in unused if rng.random() < 0.75][-8:]
    if not outputs or rng.random() < 0.3:
        outputs.append(builder.pick())
    if rng.random() < 0.1:
        outputs.append(rng.choice(outputs))
    if rng.random() < 0.08:
        outputs.append(builder.pick(lambda value: True))
        outputs.append(rng.choice([n for n in builder.tensors if n.op == "placeholder"]))
    sizes = [n for n in builder.graph.nodes if isinstance(n.meta.get("val"), torch.SymInt)]
    if sizes and rng.random() < 0.3:
        outputs.append(rng.choice(sizes))
    if rng.random() < 0.12:
        outputs.insert(rng.randrange(len(outputs) + 1), None)
    builder.graph.output(tuple(outputs))


def _sizes(builder):
    """The values of the varying size for which the graph was made, the hint first."""
    world = builder.world
    if world.hint is None:
        return (None,)
    env, symbol = world.mode.shape_env, world.symbol
    others = [size for size in (2, 3, 4, 7, 9) if size != world.hint]
    builder.rng.shuffle(others)
    fitting = [
        size
        for size in others
        if all(bool(guard.expr.xreplace({symbol: size})) for guard in env.guards)
    ]
    return (world.hint, *fitting[:2])
