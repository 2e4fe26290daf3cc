#!/usr/bin/env python3
"""Run the shell blocks of a Markdown file, so that what it tells people to type works.

usage: run_readme_commands.py FILE

Every fenced block marked ``sh`` is run by ``bash -e`` in the folder of the file. ``make test`` and
``make lint`` are left out: whoever calls this has just run them.
"""

import pathlib
import re
import subprocess
import sys

JUST_RUN = ("make test", "make lint")


def main():
    document = pathlib.Path(sys.argv[1]).resolve()
    blocks = re.findall(r"^```sh\n(.*?)^```", document.read_text(), re.MULTILINE | re.DOTALL)
    for block in blocks:
        lines = [line for line in block.splitlines() if not line.startswith(JUST_RUN)]
        print("$", "\n$ ".join(lines), flush=True)
        subprocess.run(["bash", "-e", "-c", "\n".join(lines)], cwd=document.parent, check=True)
    print(f"{len(blocks)} shell blocks of {document.name} ran")


if __name__ == "__main__":
    main()
