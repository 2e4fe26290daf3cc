"""Imports point down, private names of torch are in one place, vendors stay in their backend."""

import ast
import functools
import pathlib

import pytest

import xpu_graph

PACKAGE = pathlib.Path(xpu_graph.__file__).resolve().parent

LAYERS = [
    ["errors", "environment", "target", "config_checks", "config", "stage", "hooks"],
    [
        "torch_compat",
        "identity",
        "container",
        "tensor_codec",
        "graph_codec",
        "artifact",
        "fx",
        "fakes",
        "folded",
        "effects",
    ],
    ["passes", "cache", "backends", "debug", "kernels"],
    ["partition", "pregrad", "dispatch", "keeper", "runtime"],
    ["compiler"],
    ["backend", "diagnose", "testing", "conformance_programs", "conformance", "cli", "__main__"],
]
"""Modules and subpackages from the bottom up. A module imports from its own layer and below."""

APART = ("passes", "cache", "backends")
"""Subpackages that do not import one another."""

PRIVATE_EVERYWHERE = (
    "torch._ops.OpOverload",
    "torch._ops.HigherOrderOperator",
    "torch.utils._pytree",
)
"""Names without a public form that are what FX graphs are made of."""

PRIVATE_ALLOWED = {
    # Documented by torch, as the way to learn what torch.compile(options=...) may say.
    ("backends.inductor", "torch._inductor.list_options"),
    ("backends.inductor", "torch._inductor.list_mode_options"),
}
"""Private names used outside ``torch_compat``; one that is no longer used has to go from here."""

VENDORS = {
    "torch_npu": ("backends.npu",),
    "torchair": ("backends.npu",),
    "npugraph_ex": ("backends.npu",),
    "torch_mlu": ("backends.mlu",),
    "openvino": ("backends.cpu",),
    "onnxruntime": ("backends.cpu",),
    "zentorch": ("backends.cpu",),
    "triton": ("backends", "kernels"),
}
"""A vendor's package -> the modules that may import it."""


def module_name(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def tree(name):
    base = PACKAGE.joinpath(*name.split("."))
    path = base / "__init__.py" if base.is_dir() else base.with_suffix(".py")
    return ast.parse(path.read_text())


MODULES = sorted(filter(None, map(module_name, PACKAGE.rglob("*.py"))))


def walk(node):
    """All nodes that run; what is only for type checkers does not."""
    yield node
    for child in ast.iter_child_nodes(node):
        is_typing = isinstance(child, ast.If) and ast.unparse(child.test) in (
            "TYPE_CHECKING",
            "typing.TYPE_CHECKING",
        )
        if is_typing:
            for other in child.orelse:
                yield from walk(other)
        else:
            yield from walk(child)


def imports(source):
    """Full names of everything a module imports, wherever in it: ``package.module.name``."""
    for node in walk(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__")
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield str(node.args[0].value)


def own_imports(name):
    """Modules of this package that a module imports."""
    for full in imports(tree(name)):
        if full.startswith("xpu_graph."):
            inner = full.removeprefix("xpu_graph.")
            yield next((m for m in (inner, inner.rpartition(".")[0]) if m in MODULES), inner)


def top(name):
    return name.partition(".")[0]


def layer(name):
    found = [number for number, names in enumerate(LAYERS) if top(name) in names]
    assert found, f"{name} is in no layer: say in LAYERS where it belongs"
    return found[0]


def private_names(source):
    """Private names of torch that a module imports or reaches through an imported one."""
    bound = {}
    found = set()
    for node in walk(source):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound[alias.asname or top(alias.name)] = (
                    alias.name if alias.asname else top(alias.name)
                )
                found.add(alias.name)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                found.add(f"{node.module}.{alias.name}")
    inner = set()
    for node in walk(source):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            names, base = [], node
            while isinstance(base, ast.Attribute):
                inner.add(id(base))
                names.append(base.attr)
                base = base.value
            if isinstance(base, ast.Name) and base.id in bound:
                found.add(".".join([bound[base.id], *reversed(names)]))
    return {shortened for full in found if (shortened := private_part(full))}


def private_part(full):
    """``torch._x.name`` of any longer name, ``torch.x._name`` too; None if nothing is private."""
    parts = full.split(".")
    if parts[0] == "functorch":
        return full
    if parts[0] != "torch":
        return None
    private = [i for i, part in enumerate(parts) if part.startswith("_") and part[:2] != "__"]
    return ".".join(parts[: private[0] + 2]) if private else None


def private_in(name):
    found = private_names(tree(name))
    return {private for private in found if not private.startswith(PRIVATE_EVERYWHERE)}


@pytest.mark.parametrize("name", MODULES)
def test_imports_point_down(name):
    above = [m for m in own_imports(name) if layer(m) > layer(name)]
    assert above == [], f"{name} imports from a layer above its own"


@pytest.mark.parametrize("name", [name for name in MODULES if top(name) in APART])
def test_neighbours_stay_apart(name):
    others = [m for m in own_imports(name) if top(m) in APART and top(m) != top(name)]
    assert others == []


def test_imports_go_in_no_circle():
    waiting = {  # a package is there before its modules
        name: {m for m in own_imports(name) if not f"{name}.".startswith(f"{m}.")}
        for name in MODULES
    }
    while True:
        ready = [name for name, needed in waiting.items() if not needed & waiting.keys()]
        if not ready:
            break
        for name in ready:
            del waiting[name]
    assert waiting == {}


@pytest.mark.parametrize("name", [name for name in MODULES if not name.startswith("torch_compat")])
def test_private_names_of_torch_are_in_torch_compat(name):
    allowed = {private for module, private in PRIVATE_ALLOWED if module == name}
    assert private_in(name) - allowed == set()


def test_every_exception_is_in_use():
    unused = {
        (name, private) for name, private in PRIVATE_ALLOWED if private not in private_in(name)
    }
    assert unused == set()


@pytest.mark.parametrize("name", MODULES)
def test_vendor_packages_are_imported_in_their_backend(name):
    for full in imports(tree(name)):
        allowed = VENDORS.get(top(full), (name,))
        assert any(f"{name}.".startswith(f"{prefix}.") for prefix in allowed), full


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import torch\ntorch._dynamo.reset()", {"torch._dynamo.reset"}),
        ("import torch._inductor.config as c\nc.x = 1", {"torch._inductor.config"}),
        ("from torch._guards import detect_fake_mode", {"torch._guards.detect_fake_mode"}),
        ("from torch import fx\nfx.graph._BoxedCodeGen", {"torch.fx.graph._BoxedCodeGen"}),
        ("from functorch.compile import nop", {"functorch.compile.nop"}),
        ("def f():\n    from torch import _C", {"torch._C"}),
        ("import torch\ntorch.fx.Graph.__doc__", set()),
        ("import torch\nx._version", set()),
        ("if TYPE_CHECKING:\n    from torch._guards import Guard", set()),
    ],
)
def test_private_names_are_found(text, found):
    assert private_names(ast.parse(text)) == found
