"""The progress line: silent at first, one line rewritten on a terminal, lines elsewhere."""

import io
import threading

import pytest

from xpu_graph.debug.progress import progress


class Stream(io.StringIO):
    """Tells when something was written."""

    def __init__(self, is_terminal):
        super().__init__()
        self.written = threading.Event()
        self._is_terminal = is_terminal

    def isatty(self):
        return self._is_terminal

    def flush(self):
        self.written.set()


def test_nothing_is_written_before_the_delay():
    stream = Stream(True)
    with progress("working", after_s=60, stream=stream):
        pass
    assert stream.getvalue() == ""


def test_a_terminal_shows_one_line_and_is_left_clean():
    stream = Stream(True)
    with progress("working", after_s=0, stream=stream):
        assert stream.written.wait(10)
        assert stream.getvalue().startswith("\r") and "working" in stream.getvalue()
        assert "\n" not in stream.getvalue()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_elsewhere_whole_lines_are_written():
    stream = Stream(False)
    with progress("working", after_s=0, stream=stream):
        assert stream.written.wait(10)
    assert stream.getvalue().count("\n") == 1 and stream.getvalue().endswith("s\n")
    assert "\r" not in stream.getvalue() and "\x1b" not in stream.getvalue()


def test_the_standard_error_is_the_default(capsys):
    with progress("working", after_s=60):
        pass
    assert capsys.readouterr() == ("", "")


def test_an_error_inside_gets_out_and_ends_the_line():
    stream = Stream(True)
    before = threading.active_count()
    with pytest.raises(KeyError), progress("working", after_s=0, stream=stream):
        assert stream.written.wait(10)
        raise KeyError("mine")
    assert threading.active_count() == before
    assert stream.getvalue().endswith("\x1b[K")


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_closed_stream_does_no_harm():
    class Closed(Stream):
        def write(self, text):
            self.written.set()
            raise ValueError("I/O operation on closed file")

    stream = Closed(False)
    with progress("working", after_s=0, stream=stream):
        assert stream.written.wait(10)
