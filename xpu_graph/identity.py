"""One text for equal values, functions included, the same in every process.

A function is what its code, defaults and closure say, and what the globals that it names are. Code
of torch and of the standard library goes by name: their versions are in every cache key.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import inspect
import logging
import sys
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch._ops import OpOverload

from xpu_graph.errors import NotCacheable

_BY_NAME = frozenset({"torch", "torch_npu", "torchair", "npugraph_ex", "xpu_graph"})
"""Packages that the other factors of a cache key cover."""

_OPERATOR = (OpOverload, type(torch.ops.aten.add))
_NAMED = (ModuleType, type, FunctionType, BuiltinFunctionType)
_PLAIN = (bool, int, float, complex, str, bytes, torch.dtype, torch.device)

_Seen = dict[int, tuple[Any, str]]
"""By ``id``: an object that has been described, which keeps the id its own, and a text for it."""


def identity_text(value: Any, where: str) -> str:
    """Describe a value, so that unequal ones have unequal texts.

    An object that has a method ``uuid()`` is what that returns; None from it means: do not keep.

    Args:
        value: plain data, containers, functions, classes, operators, or an object with ``uuid``.
        where: what holds it, for the message.

    Raises:
        NotCacheable: some part has no identity; the message says which.
    """
    return _text(value, where, {})


def _text(value: Any, where: str, seen: _Seen) -> str:
    if value is None or value is Ellipsis or type(value) in _PLAIN:
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, enum.Enum):
        return f"{type(value).__module__}.{value}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__} [{', '.join(_text(part, where, seen) for part in value)}]"
    if isinstance(value, (set, frozenset)):
        return f"set [{', '.join(sorted(_text(part, where, seen) for part in value))}]"
    if isinstance(value, Mapping):
        pairs = [f"{_text(k, where, seen)}: {_text(v, where, seen)}" for k, v in value.items()]
        return f"dict [{', '.join(sorted(pairs))}]"
    if isinstance(value, _OPERATOR):
        return f"operator {value} {getattr(value, '_schema', '')}"
    if id(value) not in seen:
        seen[id(value)] = (value, f"the object described in place {len(seen)}")
        return _object_text(value, where, seen)
    return seen[id(value)][1]


def _object_text(value: Any, where: str, seen: _Seen) -> str:
    """Code, and objects that say themselves what they are."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if not isinstance(value, type) and callable(getattr(value, "uuid", None)):
        given = value.uuid()
        if given is None:
            raise NotCacheable(f"{where} holds a {kind} whose uuid is None")
        return f"{kind} {_text(given, where, seen)}"
    if isinstance(value, functools.partial):
        return f"partial {_text((value.func, value.args, value.keywords), where, seen)}"
    if isinstance(value, MethodType):
        return f"method {_text((value.__func__, value.__self__), where, seen)}"
    if not isinstance(value, _NAMED):
        raise NotCacheable(
            f"{where} holds a {kind} that has no identity; give it a method uuid() that returns "
            "a text"
        )
    module = value.__name__ if isinstance(value, ModuleType) else value.__module__
    name = f"{module}.{getattr(value, '__qualname__', '')}"
    package = (module or "builtins").partition(".")[0]
    if package in _BY_NAME or package in sys.stdlib_module_names:
        return name
    if isinstance(value, FunctionType):
        return f"{name} {_function_digest(value, where, seen)}"
    return f"{name} {_source_digest(value, where)}"


def _function_digest(function: FunctionType, where: str, seen: _Seen) -> str:
    inside = f"{where}, in function {function.__qualname__!r},"
    defaults = (function.__defaults__, function.__kwdefaults__)
    texts = [_text(defaults, inside, seen)]
    names: set[str] = set()
    for code in _codes(function.__code__):
        names.update(code.co_names)
        texts.append(_code_text(code, inside, seen))
    outside = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            outside[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            texts.append(f"{name} is empty")
    for name in sorted(outside):
        if not isinstance(outside[name], logging.Logger):  # what is logged changes no result
            texts.append(f"{name}={_text(outside[name], f'{inside} name {name!r}', seen)}")
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of the functions, lambdas and comprehensions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _code_text(code: CodeType, where: str, seen: _Seen) -> str:
    constants = [part for part in code.co_consts if not isinstance(part, CodeType)]
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    texts = (code.co_code, code.co_exceptiontable, counts, names, constants)
    return _text(texts, where, seen)


def _source_digest(value: Any, where: str) -> str:
    """Of the whole file: what stands there may use anything else that does."""
    module = inspect.getmodule(value)
    try:
        source = inspect.getsource(module or value)
    except (OSError, TypeError) as error:
        raise NotCacheable(f"{where} holds {value!r}, whose source is not known") from error
    return hashlib.sha256(source.encode()).hexdigest()
