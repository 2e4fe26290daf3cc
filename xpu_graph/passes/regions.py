"""What is switched on where, in a graph that is not differentiated yet: gradients and autocast."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from xpu_graph.torch_compat import enter_autocast, exit_autocast, set_grad_enabled


@dataclass(frozen=True)
class Region:
    """What is switched on at a node.

    Attributes:
        gradients: whether autograd records there.
        autocasts: the arguments of the autocast regions that the graph has opened, outermost first.
    """

    gradients: bool
    autocasts: tuple[tuple[Any, ...], ...] = ()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Call operators as they are called there; of gradients only the graph is to know."""
        with ExitStack() as stack:
            for arguments in self.autocasts:
                stack.enter_context(torch.autocast(*arguments))
            yield


class Regions:
    """The regions of one graph; what is around it is what is switched on now.

    Args:
        graph: nobody adds or removes switches.
    """

    def __init__(self, graph: fx.Graph) -> None:
        region = Region(torch.is_grad_enabled())
        self._switches: list[fx.Node] = []
        self._regions = [region]
        open_here: dict[fx.Node, tuple[Any, ...]] = {}
        for node in graph.nodes:
            if node.target is set_grad_enabled:
                region = Region(bool(node.args[0]), region.autocasts)
            elif node.target is enter_autocast:
                open_here[node] = node.args
                region = Region(region.gradients, tuple(open_here.values()))
            elif node.target is exit_autocast:
                open_here.pop(node.args[0], None)
                region = Region(region.gradients, tuple(open_here.values()))
            else:
                continue
            self._switches.append(node)
            self._regions.append(region)

    def at(self, node: fx.Node) -> Region:
        """What is switched on where a node is."""
        return self._regions[bisect.bisect_left(self._switches, node)]
