"""Functions with collectives in them: duplicated, unused, asynchronous, in place, coalesced."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol

RAW = torch.ops._c10d_functional


def group():
    return dist.group.WORLD


def all_reduce(x):
    return funcol.all_reduce(x, "sum", group()) + 1


def equal_calls(x):
    return funcol.all_reduce(x, "sum", group()) + funcol.all_reduce(x, "sum", group())


def equal_gathers(x):
    first = funcol.all_gather_tensor(x, 0, group())
    return first * 2, funcol.all_gather_tensor(x, 0, group())


def unused(x):
    funcol.all_reduce(x * 2, "sum", group())
    return x + 1


def unused_beside_used(x):
    y = funcol.broadcast(x, 0, group())
    funcol.all_gather_tensor(y, 0, group())
    return funcol.reduce_scatter_tensor(y * 1, "sum", 0, group())


def of_neutral_operations(x):
    y = funcol.all_reduce((x * 1 - 0).clone(), "sum", group())
    return funcol.all_reduce(y / 1, "sum", group()).clone() * 1


def independent(x):
    """Nothing but their order in the program says in which order these go."""
    a = funcol.all_reduce(x, "sum", group())
    b = funcol.all_reduce(x + 1, "sum", group())
    c = funcol.all_reduce(x, "sum", group())
    return b, c, a


def largest(x):
    return funcol.all_reduce(x, "max", group()) - funcol.all_reduce(x, "min", group())


def gather_last_dimension(x):
    return funcol.all_gather_tensor(x, 1, group())


def scatter_last_dimension(x):
    return funcol.reduce_scatter_tensor(x, "sum", 1, group())


def broadcast(x):
    return funcol.broadcast(x, 1, group()) - x


def all_to_all(x):
    return funcol.all_to_all_single(x, None, None, group())


def all_to_all_uneven(x):
    mine = [1, 3] if dist.get_rank() == 0 else [3, 1]
    theirs = [1, 3] if dist.get_rank() == 0 else [3, 1]
    return funcol.all_to_all_single(x, theirs, mine, group())


def coalesced(x):
    reduced = funcol.all_reduce_coalesced([x, x + 1], "sum", group())
    gathered = funcol.all_gather_into_tensor_coalesced([x, reduced[1]], group())
    scattered = funcol.reduce_scatter_tensor_coalesced(gathered, "sum", [0, 0], group())
    return [*reduced, *gathered, *scattered]


def in_place(x):
    y = x + 1
    dist.all_reduce(y)
    z = y * 2
    dist.all_reduce(y)
    return y, z


def in_place_on_the_input(x):
    before = x * 2
    dist.all_reduce(x)
    return before + x


def gather_in_place(x):
    parts = torch.empty(x.shape[0] * 2, *x.shape[1:])
    dist.all_gather_into_tensor(parts, x)
    piece = torch.empty_like(x)
    dist.reduce_scatter_tensor(piece, parts)
    return parts, piece


def waited_for_late(x):
    """The operand is free in the eyes of the graph, but the collective still reads it."""
    y = x.sin()
    gathered = RAW.all_gather_into_tensor(y, 2, group().group_name)
    z = y + 1
    return RAW.wait_tensor(gathered), z * 3


def waited_for_nothing(x):
    """What is waited for is the operand itself, so the addition must not write to it."""
    y = x.sin()
    waited = RAW.wait_tensor(y)
    return waited, y + 1


def waited_input(x):
    return RAW.wait_tensor(x).clone()


def in_a_branch(x):
    def reduced(x):
        return funcol.all_reduce(x, "sum", group())

    return torch.cond(torch.ones((), dtype=torch.bool), reduced, lambda x: x * 2, (x,))


def with_gradients(x):
    y = funcol.all_gather_tensor_autograd(x.sin(), 0, group())
    z = funcol.reduce_scatter_tensor_autograd(y * 3, "sum", 0, group())
    return funcol.all_to_all_single_autograd(z, None, None, group()).square()


PROGRAMS = [
    all_reduce,
    equal_calls,
    equal_gathers,
    unused,
    unused_beside_used,
    of_neutral_operations,
    independent,
    largest,
    gather_last_dimension,
    scatter_last_dimension,
    broadcast,
    all_to_all,
    all_to_all_uneven,
    coalesced,
    in_place,
    in_place_on_the_input,
    gather_in_place,
    waited_for_late,
    waited_for_nothing,
    waited_input,
    in_a_branch,
    with_gradients,
]


def calls(gm):
    """The collectives of a graph and of the graphs in it, with their literals, in order."""
    return [
        f"{node.target}{[a for a in node.args if not isinstance(a, (torch.fx.Node, list))]}"
        for module in gm.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function" and "c10d" in getattr(node.target, "namespace", "")
    ]
