"""What a caller who waits reads on standard error: progress, and that kernels are compiled."""

import sys
import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import suppress
from html import escape
from importlib import import_module
from threading import Timer
from typing import Any
from weakref import WeakSet

from numba.core import event

from treepurify.arguments import check_flag

ProgressReport = Callable[[str, int, int], None]

_QUIET_SECONDS = 1.0
_SECONDS_BETWEEN = 0.5
# Where every line stays: that long, or a share of the time so far.
_SECONDS_BETWEEN_LINES, _SHARE_BETWEEN_LINES = 5.0, 0.25
# An estimate is of use where some time is left.
_LEAST_SECONDS = 2.0
# It needs a step of which a share is done, in parts that took equally long.
_LEAST_PARTS, _LEAST_SHARE, _EQUALLY_LONG = 8, 0.25, 1.5
_SECONDS_BETWEEN_MARKS = 0.1


def progress_report(show: bool) -> ProgressReport:
    """Return a function that reports ``(what, done, total)``; silent for the first second."""
    check_flag("progress", show)
    return _Reporter().report if show else no_report


def no_report(what: str, done: int, total: int) -> None:
    """Report nothing."""


class _Reporter:
    """One line that is written anew, and vanishes with the reporter.

    Where nothing can be written over, as in a file, every line stays, and there are fewer.
    """

    # It holds no stream: a result that keeps its reporter could not be pickled.
    def __init__(self) -> None:
        self._start = time.monotonic()
        self._last = self._start
        self._is_shown = False
        self._step = ""
        # When how much of the step was done.
        self._marks: list[tuple[float, int]] = []
        _waiting_callers.add(self)

    def report(self, what: str, done: int, total: int) -> None:
        """Write the line if enough time has gone by since the last one."""
        now = time.monotonic()
        if what != self._step:
            self._step, self._marks = what, []
        if not self._marks or now - self._marks[-1][0] >= _SECONDS_BETWEEN_MARKS:
            self._marks.append((now, done))
        if now - self._start < _QUIET_SECONDS or not self._is_due(now):
            return
        self._last = now
        count = f" {done} of {total}" if total else ""
        left = _time_left(self._marks, total)
        self._show(f"{what}{count} ({now - self._start:.0f} s{left})")

    def _is_due(self, now: float) -> bool:
        """Whether enough time has gone by since the last line."""
        since = now - self._last
        if not self._is_shown or since < _SECONDS_BETWEEN:
            return since >= _SECONDS_BETWEEN
        so_far = now - self._start
        pause = max(_SECONDS_BETWEEN_LINES, _SHARE_BETWEEN_LINES * so_far)
        return since >= pause or _is_written_over()

    def _show(self, text: str) -> None:
        _show_line(f"treepurify: {text}", f"treepurify-{id(self)}", is_first=not self._is_shown)
        self._is_shown = True

    def report_compiling(self) -> None:
        """Write that kernels are compiled, in the place of the step that waits for them."""
        now = time.monotonic()
        if self._is_due(now):
            self._last = now
            self._show(f"compiling (once per function), {now - self._start:.0f} s")

    def __del__(self) -> None:
        # At the end of the process nothing is left to write with.
        if getattr(self, "_is_shown", False) and sys is not None:
            self._is_shown = False
            with suppress(Exception):
                _show_line("", f"treepurify-{id(self)}", is_first=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has: it has shown no line."""
        return {
            "_start": self._start,
            "_last": self._last,
            "_is_shown": False,
            "_step": self._step,
            "_marks": self._marks,
        }


def _time_left(marks: Sequence[tuple[float, int]], total: int) -> str:
    """Return how long a step still takes, if its parts take equally long; else empty."""
    (start, first), (now, done) = marks[0], marks[-1]
    middle, halfway = marks[bisect_left(marks, ((start + now) / 2, 0))]
    before, after = halfway - first, done - halfway
    if min(before, after) <= 0 or not total > done >= max(_LEAST_PARTS, _LEAST_SHARE * total):
        return ""
    paces = (middle - start) / before, (now - middle) / after
    left = paces[1] * (total - done)
    if max(paces) > _EQUALLY_LONG * min(paces) or left < _LEAST_SECONDS:
        return ""
    return f", about {left:.0f} s left"


def _is_written_over() -> bool:
    """Whether a line takes the place of the one before it."""
    return sys.stderr.isatty() or _notebook() is not None


def _show_line(line: str, name: str, *, is_first: bool) -> None:
    """Show a line in the place of the one of this name; an empty one takes it away."""
    notebook = _notebook()
    if notebook is not None:
        shown = notebook.HTML(f"<small>{escape(line)}</small>" if line else "")
        (notebook.display if is_first else notebook.update_display)(shown, display_id=name)
        return
    if sys.stderr.isatty():
        # Back to the start of the line, and clear what follows.
        sys.stderr.write(f"\r\x1b[K{line}")
    elif line:
        sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def _notebook() -> Any:
    """Return IPython's module of displays where code runs in a notebook, else None."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return import_module("IPython.display") if hasattr(shell, "kernel") else None


# The callers that wait now, and want to know for what.
_waiting_callers: "WeakSet[_Reporter]" = WeakSet()


class _CompilationNotice(event.Listener):
    """Tell callers who wait that kernels are compiled, once that has taken a second in all.

    A step that waits for the compiler reports nothing, so that another thread has to.
    """

    def __init__(self) -> None:
        self._spent = 0.0
        self._depth = 0  # kernels are compiled within others
        self._start = 0.0
        self._timer: Timer | None = None

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth > 1 or not _waiting_callers:
            return
        self._start = time.monotonic()
        self._timer = Timer(max(_QUIET_SECONDS - self._spent, 0.0), _tell_of_compilation)
        self._timer.daemon = True
        self._timer.start()

    def on_end(self, event: Any) -> None:
        # No start came before where another listener raised an error.
        self._depth = max(self._depth - 1, 0)
        if not self._depth and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._spent += time.monotonic() - self._start


def _tell_of_compilation() -> None:
    for caller in list(_waiting_callers):
        caller.report_compiling()


event.register("numba:compile", _CompilationNotice())  # type: ignore[no-untyped-call]


def row_progress(what: str, total: int | None, report: ProgressReport) -> Callable[[int], None]:
    """Return a function that is told of rows that are done, and reports their number and pace.

    Parameters
    ----------
    what : str
        What is done, such as "counting rows".
    total : int, optional
        All rows there are, where that is known: then the time left is reported too, as of a step.
    report : callable
        Progress.
    """
    done = 0
    marks = [(time.monotonic(), done)]

    def add(n_rows: int) -> None:
        nonlocal done
        done += n_rows
        marks.append((time.monotonic(), done))
        rate = done / max(marks[-1][0] - marks[0][0], 1e-9)
        left = "" if total is None else _time_left(marks, total)
        report(f"{what}, {rate:,.0f} per second{left}:", done, total or done)

    return add


def effect_progress(n_effects: int, n_rows: int, report: ProgressReport) -> Callable[[int], None]:
    """Return a function that is told on how many rows one more effect is evaluated.

    Parameters
    ----------
    n_effects : int
        All effects there are.
    n_rows : int
        All rows, some of which may come after the others: then so do the effects on them.
    report : callable
        Progress.
    """
    done = 0

    def add(on_rows: int) -> None:
        nonlocal done
        done += on_rows
        report("evaluating effects", done // max(n_rows, 1), n_effects)

    return add
