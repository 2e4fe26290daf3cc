"""Run a program on the simulated CANN: ``python tests/ascend_sim script.py``.

``-m module`` and ``-c text`` are taken as Python takes them. ``python -m ascend_sim`` does the
same where the package can be imported.
"""

from __future__ import annotations

import pathlib
import runpy
import sys


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments:
        sys.exit(__doc__)
    if not __package__:  # run as a directory, which is then the first place of imports
        sys.path[0] = str(pathlib.Path.cwd())
        sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent))
    import ascend_sim

    ascend_sim.load()
    if arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        exec(compile(arguments[1], "<command>", "exec"), {"__name__": "__main__"})
    elif arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(pathlib.Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
