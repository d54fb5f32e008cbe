"""What a caller who waits sees: one line that is written anew and vanishes."""

import io
import pickle
import sys
import time
from types import SimpleNamespace

import numba
import pytest

from treepurify import progress
from treepurify.progress import progress_report


class Stream(io.StringIO):
    def __init__(self, *, is_terminal):
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self):
        return self.is_terminal


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def work(clock, n_steps=4):
    report = progress_report(True)
    for done in range(n_steps):
        clock[0] += 1.0
        report("purifying", done + 1, n_steps)


def test_a_terminal_is_left_as_it_was(clock, monkeypatch):
    stream = Stream(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", stream)
    work(clock)
    lines = stream.getvalue().split("\r\x1b[K")
    assert lines[0] == ""
    assert lines[1] == "treepurify: purifying 1 of 4 (1 s)"
    assert lines[-2] == "treepurify: purifying 4 of 4 (4 s)"
    assert lines[-1] == "", "the last line is taken away"
    assert "\n" not in stream.getvalue()


def test_a_file_keeps_every_line_and_gets_one_in_five_seconds(clock, monkeypatch):
    stream = Stream(is_terminal=False)
    monkeypatch.setattr(sys, "stderr", stream)
    work(clock, n_steps=20)
    done = [line.split()[2] for line in stream.getvalue().splitlines()]
    assert done == ["1", "6", "11", "16"]
    assert "\r" not in stream.getvalue()


def test_a_file_gets_fewer_lines_the_longer_it_takes(clock, monkeypatch):
    stream = Stream(is_terminal=False)
    monkeypatch.setattr(sys, "stderr", stream)
    work(clock, n_steps=3600)
    done = [int(line.split()[2]) for line in stream.getvalue().splitlines()]
    assert 20 < len(done) < 50
    assert done[-1] > 2800


def lines_of_steps(clock, monkeypatch, seconds):
    """Return what is reported of a step whose parts take these seconds."""
    stream = Stream(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", stream)
    report = progress_report(True)
    report("reading", 0, len(seconds))
    for done, part in enumerate(seconds):
        clock[0] += part
        report("reading", done + 1, len(seconds))
    report("solving", 0, 0)
    return stream.getvalue().split("\r\x1b[K")[1:]


def test_a_long_step_says_how_long_it_still_takes(clock, monkeypatch):
    lines = lines_of_steps(clock, monkeypatch, [1.0] * 40)
    assert lines[0] == "treepurify: reading 1 of 40 (1 s)"
    assert "treepurify: reading 9 of 40 (9 s)" in lines
    # As long as its latest parts took.
    assert "treepurify: reading 11 of 40 (11 s, about 29 s left)" in lines
    assert "treepurify: reading 38 of 40 (38 s, about 2 s left)" in lines


@pytest.mark.parametrize(
    "seconds",
    [
        [30.0, 8.0, 2.0, *[0.01] * 300],  # the largest first
        [6.0] * 5 + [0.01] * 200,
        [60.0, *[1.0] * 9],  # compiled with the first
        [100.0 / 2**k for k in range(10)],
        [50.0] * 4,
    ],
)
def test_no_time_is_said_to_be_left_where_parts_are_unequal_or_few(clock, monkeypatch, seconds):
    lines = lines_of_steps(clock, monkeypatch, seconds)
    assert len(lines) >= 4
    assert not [line for line in lines if "left" in line]


def test_a_notebook_shows_one_line_and_no_error(clock, monkeypatch):
    shown, stream = [], Stream(is_terminal=False)
    display = SimpleNamespace(
        HTML=lambda text: text,
        display=lambda text, display_id: shown.append(("new", display_id, text)),
        update_display=lambda text, display_id: shown.append(("again", display_id, text)),
    )
    shell = SimpleNamespace(kernel=object())
    fake = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(sys, "stderr", stream)
    work(clock)
    assert stream.getvalue() == ""
    assert [how for how, _, _ in shown] == ["new", "again", "again", "again", "again"]
    assert len({name for _, name, _ in shown}) == 1
    assert shown[-1][2] == ""
    assert "4 of 4" in shown[-2][2]


def test_nothing_is_shown_within_a_second_or_unasked(clock, monkeypatch):
    stream = Stream(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", stream)
    report = progress_report(True)
    clock[0] += 0.9
    report("purifying", 1, 4)
    del report
    progress_report(False)("purifying", 1, 4)
    assert stream.getvalue() == ""


def test_a_copy_takes_no_line_away(clock, monkeypatch):
    stream = Stream(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", stream)
    report = progress_report(True)
    clock[0] += 2.0
    report("purifying", 1, 4)
    before = stream.getvalue()
    pickle.loads(pickle.dumps(report))
    assert stream.getvalue() == before


def compiled(number):
    return number + 1


def test_a_caller_learns_that_kernels_are_compiled(monkeypatch):
    stream = Stream(is_terminal=False)
    monkeypatch.setattr(sys, "stderr", stream)
    notice = progress._CompilationNotice()
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.05)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
    notice.on_start(None)  # nobody waits
    notice.on_end(None)
    report = progress_report(True)
    for seconds, n_lines in ((0.01, 0), (0.2, 1), (0.05, 2)):
        notice.on_start(None)
        notice.on_start(None)
        time.sleep(seconds)
        notice.on_end(None)
        notice.on_end(None)
        assert stream.getvalue().count("compiling (once per function)") == n_lines
    del report


def test_compiling_is_noticed_and_silence_kept(monkeypatch):
    told = []
    monkeypatch.setattr(progress, "_tell_of_compilation", lambda: told.append("compiling"))
    monkeypatch.setattr(progress, "_QUIET_SECONDS", 0.0)
    silent = progress_report(False)
    numba.njit(compiled)(1)
    assert told == []
    report = progress_report(True)
    numba.njit(compiled)(1)
    assert told != []
    del silent, report
