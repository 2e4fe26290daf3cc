"""What a graph is compiled for, and how far it may be optimised."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar

from xpu_graph.errors import ConfigError, unknown_name

BACKEND_GROUP = "xpu_graph.backends"
"""Entry-point group of plugged-in backends: name of the target -> module of the backend."""

BUILT_IN = ("none", "cpu", "cuda", "npu", "mlu")
"""Targets that need no other package to be known."""


def plugged_in(name: str) -> list[EntryPoint]:
    """What other packages declare as the backend of a target; reads the metadata of each."""
    found = entry_points(group=BACKEND_GROUP, name=name)
    return list({point.value: point for point in found}.values())


def known_targets() -> list[str]:
    """Names of all targets: the built-in ones, then those that other packages provide."""
    declared = sorted(point.name for point in entry_points(group=BACKEND_GROUP))
    return list(dict.fromkeys((*BUILT_IN, *declared)))


class _TargetNames(type):
    """Lets ``Target`` be iterated, and lets a plugged-in target be written ``Target.name``."""

    def __iter__(cls) -> Iterator[Target]:
        return iter([Target(name) for name in known_targets()])

    def __getattr__(cls, name: str) -> Target:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return Target(name)
        except ConfigError as error:
            raise AttributeError(str(error)) from None


class Target(metaclass=_TargetNames):
    """A device or vendor to compile for; equal to, and made from, its name.

    Built in: ``none``, ``cpu``, ``cuda``, ``npu``, ``mlu``. A package that declares an entry point
    in the group ``xpu_graph.backends`` adds its own. ``value`` is the module name of the backend.

    Raises:
        ConfigError: the name is neither built in nor plugged in.
    """

    none: ClassVar[Target]
    cpu: ClassVar[Target]
    cuda: ClassVar[Target]
    npu: ClassVar[Target]
    mlu: ClassVar[Target]

    __slots__ = ("value",)
    value: str

    def __init__(self, name: str | Target) -> None:
        value = name.value if isinstance(name, Target) else name
        if not isinstance(value, str) or (value not in BUILT_IN and not plugged_in(value)):
            raise ConfigError(
                unknown_name("target", name, known_targets(), "XpuGraphConfig.target")
            )
        object.__setattr__(self, "value", value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Target cannot be changed")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Target cannot be changed")

    @property
    def name(self) -> str:
        """The same as ``value``."""
        return self.value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Target):
            return self.value == other.value
        return self.value == other if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return f"Target.{self.value}"

    def __reduce__(self) -> tuple[type[Target], tuple[str]]:
        return (Target, (self.value,))


for _name in BUILT_IN:
    setattr(Target, _name, Target(_name))


class OptLevel(IntEnum):
    """How much a rewrite may change.

    ``level0`` rewrites nothing. ``level1`` keeps every bit: each kernel that remains sees operands
    of the same extents, strides and dtype in the same order. ``level2`` and ``level3`` may differ
    in rounding, never in NaN, infinities or the sign of zero.
    """

    level0 = 0
    level1 = 1
    level2 = 2
    level3 = 3

    @classmethod
    def parse(cls, given: object) -> OptLevel:
        """Make a level from itself, its number or its name.

        Raises:
            ConfigError: the value is none of these.
        """
        if isinstance(given, str):
            name = f"level{given}" if given.isdecimal() else given
            if name in cls.__members__:
                return cls[name]
        elif isinstance(given, int) and not isinstance(given, bool) and given in list(cls):
            return cls(given)
        raise ConfigError(unknown_name("opt_level", given, cls.__members__, "XpuGraphConfig"))
