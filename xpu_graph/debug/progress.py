"""A line on the terminal for what takes longer than a second."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO


@contextlib.contextmanager
def progress(what: str, after_s: float = 1.0, stream: TextIO | None = None) -> Iterator[None]:
    """Show ``what`` and the seconds it has taken, once it has taken ``after_s`` seconds.

    On a terminal one line is rewritten; elsewhere a line is printed at the start and every ten
    seconds.

    Args:
        what: a few words.
        after_s: seconds of silence first.
        stream: where to write; by default the standard error.
    """
    out = stream if stream is not None else sys.stderr
    done = threading.Event()

    def show() -> None:
        start = time.monotonic()
        if done.wait(after_s):
            return
        # A stream that is closed or full meanwhile: the work goes on without the line.
        with contextlib.suppress(OSError, ValueError):
            rewrite = out.isatty()
            head, tail = ("\r", " ") if rewrite else ("", "\n")
            while True:
                seconds = time.monotonic() - start
                out.write(f"{head}  {what} ... {seconds:.0f} s{tail}")
                out.flush()
                if done.wait(1.0 if rewrite else 10.0):
                    break
            if rewrite:
                out.write("\r\x1b[K")
                out.flush()

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
