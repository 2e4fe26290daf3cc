"""One rank of a pair: runs the functions it is told to, until it is told to stop.

    python worker.py <rank> <world size> <file of the store> <seconds> <connection>

It reads (path of a Python file, name of a function, arguments) from the connection, and answers
(True, result) or (False, traceback).
"""

import datetime
import faulthandler
import importlib.util
import os
import pathlib
import sys
import traceback
import warnings
from multiprocessing.connection import Connection

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

import torch
import torch.distributed as dist


def load(path):
    """The module in a file, imported once."""
    name = f"ranked_{pathlib.Path(path).stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def main():
    faulthandler.enable()
    rank, world_size, store, seconds, handle = sys.argv[1:]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    connection = Connection(int(handle))
    dist.init_process_group(
        "gloo",
        store=dist.FileStore(store, int(world_size)),
        rank=int(rank),
        world_size=int(world_size),
        timeout=datetime.timedelta(seconds=float(seconds)),
    )
    while True:
        try:
            path, name, arguments = connection.recv()
        except EOFError:
            break
        torch._dynamo.reset()
        torch.manual_seed(0)
        try:
            answer = (True, getattr(load(path), name)(*arguments))
        except BaseException:  # whatever it is, the test that asked must see it
            answer = (False, traceback.format_exc())
        connection.send(answer)
    os._exit(0)  # a clean end would wait for the other rank


if __name__ == "__main__":
    main()
