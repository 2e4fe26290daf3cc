"""Target ``toy``: a small backend in one file, as another package would ship it.

The graph becomes a list of instructions over numbered slots; a slot is emptied after its last use.

Options (``vendor_compiler_config``):

    keep_slots    True: do not empty slots, which is easier to look at. False by default.
"""

import json

from torch import fx

from xpu_graph import (
    BackendError,
    ConfigError,
    SerializableArtifact,
    SerializableGraphModule,
    Target,
)
from xpu_graph.artifact import nest, unnest
from xpu_graph.backends import check_devices
from xpu_graph.errors import CacheError, unknown_name

OPTIONS = ("keep_slots",)


def why_not():
    return None


def check_options(config):
    for key in config:
        if key not in OPTIONS:
            raise ConfigError(unknown_name("vendor option", key, OPTIONS, "Target.toy"))
    if not isinstance(config.get("keep_slots", False), bool):
        raise ConfigError(f"Target.toy: keep_slots is True or False, not {config['keep_slots']!r}")


def fingerprint(config):
    return "toy 1.0"


def toy_compile(gm, fake_inputs, *, is_inference, is_backward, keep_slots=False):
    check_devices(gm, Target("toy"), "cpu")
    return ToyProgram(gm, keep_slots)


class ToyProgram(SerializableArtifact):
    """The instructions, and the graph they were made from, which is what is stored."""

    kind = "toy"

    def __init__(self, gm, keep_slots):
        self._source = SerializableGraphModule(gm)
        self._keep_slots = keep_slots
        self._slots = {node: slot for slot, node in enumerate(gm.graph.nodes)}
        self._inputs = [self._slots[node] for node in gm.graph.find_nodes(op="placeholder")]
        (output,) = gm.graph.find_nodes(op="output")
        self._outputs = output.args[0]
        self._steps = [self._step(gm, node) for node in gm.graph.nodes if node.op in _RUN]

    def _step(self, gm, node):
        last_uses = [
            self._slots[used]
            for used in node.all_input_nodes
            if max(used.users, key=self._slots.__getitem__) is node
        ]
        run = _RUN[node.op](gm, node)
        return run, node.args, node.kwargs, self._slots[node], last_uses

    def boxed(self, args):
        slots = [None] * len(self._slots)
        for slot, value in zip(self._inputs, args, strict=True):
            slots[slot] = value
        args.clear()

        def read(value):
            return fx.map_arg(value, lambda node: slots[self._slots[node]])

        for run, positional, named, result, last_uses in self._steps:
            slots[result] = run(*read(positional), **read(named))
            if not self._keep_slots:
                for slot in last_uses:
                    slots[slot] = None
        return list(read(self._outputs))

    def members(self):
        return {
            "toy.json": json.dumps({"keep_slots": self._keep_slots}).encode(),
            **nest("source", self._source),
        }

    @classmethod
    def from_members(cls, members):
        try:
            options = json.loads(members["toy.json"])
        except (KeyError, ValueError) as error:
            raise CacheError(f"the stored options cannot be read: {error!r}") from error
        return cls(unnest("source", members).gm, **options)


def _attribute(gm, node):
    value = gm
    for part in node.target.split("."):
        value = getattr(value, part)
    return lambda: value


def _refuse(gm, node):
    raise BackendError(f"Target.toy runs no {node.op} nodes such as {node.name!r}")


_RUN = {
    "call_function": lambda gm, node: node.target,
    "get_attr": _attribute,
    "call_module": _refuse,
    "call_method": _refuse,
}
