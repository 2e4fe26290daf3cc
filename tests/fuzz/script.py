"""Write a failing case as a Python program that needs this project only, not its tests."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import fx

from tests.fuzz.case import SizeInput

ORACLE = Path(__file__).with_name("oracle.py")

TEMPLATE = '''\
"""{title}

{text}

It exits with 1 while the fault is there.
"""

import operator
import sys
from functools import partial
from unittest.mock import patch

{imports}
{oracle}

aten = torch.ops.aten
nan, inf = float("nan"), float("inf")
SIZE = {size}  # of what varies
HINT = {hint}  # what it is taken for in the graph


def memory():
    return [
{memory}    ]


def fresh_inputs(s):
    storages = memory()
    return [
{inputs}    ]


def fresh_constants():
    storages = memory()
    return {{
{constants}    }}


def fakes(mode, s):
    storages = [torch.empty(length, dtype=dtype) for length, dtype in [
{lengths}    ]]
    return [
{fake_inputs}    ], {{
{constants}    }}


def build():
    graph = torch.fx.Graph()
{graph}    return graph


def prepared():
    """The graph as a unit, with fake values."""
    env = ShapeEnv()
    mode, s = FakeTensorMode(shape_env=env if HINT else None), None
    if HINT:
        source = ConstantSource("s")
        symbol = env.create_symbol(HINT, source=source, dynamic_dim=DimDynamic.DYNAMIC)
        s = env.create_symintnode(symbol, hint=HINT, source=source)
    root = torch.nn.Module()
    for name, constant in fresh_constants().items():
        root.register_buffer(name, constant, persistent=False)
    gm = torch.fx.GraphModule(root, build())
    with mode, torch.no_grad():
        inputs, constants = fakes(mode, s)
        execute(gm, inputs, constants, watch=lambda node, value: node.meta.update(val=value))
    refresh_values(gm.graph)
    for node in gm.graph.nodes:
        node.meta["stack_trace"] = node.name
    return gm, inputs


def main():
    seed = {seed}
    before, _ = prepared()
    after, inputs = prepared()
    print("before:", before.graph, sep="\\n")
    try:
        unit = Unit(Stage.inference, after, inputs, name="fuzz")
        with patch.object(reinplace, "MIN_BYTES", 1):
            run_passes([{passes}], unit, opt_level="{level}", verify="{verify}")
    except XpuGraphError as error:
        print(error)
        return 1
    print("after:", after.graph, sep="\\n")
    runs = []
    for gm in (after, before):
        constants = fresh_constants()
        how = {how} if gm is after else execute
        call = partial(how, gm, constants=constants)
        runs.append(observe(call, fresh_inputs(SIZE), constants, seed))
    found = difference(*runs, bitwise={bitwise})
    print("no difference" if found is None else found[1])
    return int(found is not None)


sys.exit(main())
'''


def script(case, failure):
    """The program.

    Args:
        case: the case; small, or the program is long.
        failure: what ``check`` found.
    """
    passes = failure.trial.passes
    imports = [
        "from torch._dynamo.source import ConstantSource",
        "from torch._subclasses.fake_tensor import FakeTensorMode",
        "from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv",
        *sorted({f"from {pass_.__module__} import {pass_.__name__}" for pass_ in passes}),
        "from xpu_graph.fakes import refresh_values",
        "from xpu_graph.passes import reinplace",
        "from xpu_graph.errors import XpuGraphError",
        "from xpu_graph.stage import Stage, Unit",
        "from xpu_graph.testing import run_passes",
    ]
    size = case.sizes[0] if failure.size is None else failure.size
    constants = {repr(name): _laid_out(spec) for name, spec in case.constants.items()}
    return TEMPLATE.format(
        title=f"{case.about}: {failure.trial}: {failure.kind}.".replace('"""', "'''"),
        text=failure.text.replace("\\", "/").replace('"""', "'''"),
        imports="\n".join(imports),
        oracle=ORACLE.read_text().split('"""\n', 1)[1].strip(),
        size=size,
        hint=case.hint,
        memory=_lines(
            f"torch.tensor({literal(storage.numbers(size))}, dtype={storage.dtype}),"
            for storage in case.storages
        ),
        inputs=_lines(_input(spec) for spec in case.inputs),
        constants=_lines(f"{name}: {laid_out}," for name, laid_out in constants.items()),
        lengths=_lines(f"({storage.length}, {storage.dtype})," for storage in case.storages),
        fake_inputs=_lines(_input(spec) for spec in case.inputs),
        graph="".join(f"    {line}\n" for line in _graph(case.gm.graph)),
        seed=case.seed,
        passes=", ".join(pass_.__name__ for pass_ in passes),
        level=failure.trial.level,
        verify=failure.trial.verify,
        how="run_code" if failure.trial.as_code else "execute",
        bitwise=failure.trial.level == "level1",
    )


def _lines(texts):
    return "".join(f"        {text}\n" for text in texts)


def _input(spec):
    return "s," if isinstance(spec, SizeInput) else f"{_laid_out(spec)},"


def _laid_out(spec):
    size, stride = (", ".join(map(str, dims)) for dims in (spec.size, spec.stride))
    return f"storages[{spec.storage}].as_strided([{size}], [{stride}], {spec.offset})"


def _graph(graph):
    for node in graph.nodes:
        if node.op == "placeholder":
            yield f"{node.name} = graph.placeholder({node.name!r})"
        elif node.op == "get_attr":
            yield f"{node.name} = graph.get_attr({node.target!r})"
        elif node.op == "output":
            yield f"graph.output({literal(node.args[0])})"
        else:
            target = str(node.target)
            if not isinstance(node.target, torch._ops.OpOverload):
                target = f"{node.target.__module__.removeprefix('_')}.{node.target.__name__}"
            kwargs = ", ".join(f"{key!r}: {literal(value)}" for key, value in node.kwargs.items())
            args = literal(tuple(node.args))
            yield f"{node.name} = graph.call_function({target}, {args}, {{{kwargs}}})"


def literal(value):
    """A value as Python text; ``nan`` and ``inf`` are names there."""
    if isinstance(value, fx.Node):
        return value.name
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, list):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    if isinstance(value, torch.device):
        return f"torch.device({str(value)!r})"
    return repr(value)
