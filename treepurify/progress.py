"""What a caller who waits reads on standard error: progress, and that kernels are compiled."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from treepurify._kernels.leaf_boxes import add_runs
from treepurify.arguments import check_flag

__all__ = ["ProgressReport", "announce_compilation", "progress_report", "row_progress"]

ProgressReport = Callable[[str, int, int], None]

_QUIET_SECONDS = 1.0
_SECONDS_BETWEEN = 0.5


def progress_report(show: bool) -> ProgressReport:
    """Return a function that reports ``(what, done, total)``; silent for the first second."""
    check_flag("progress", show)
    return _Reporter().report if show else _silent


def _silent(what: str, done: int, total: int) -> None:
    """Report nothing."""


class _Reporter:
    # It holds no stream: a result that keeps its reporter could not be pickled.
    def __init__(self) -> None:
        self._start = time.monotonic()
        self._last = self._start

    def report(self, what: str, done: int, total: int) -> None:
        """Write a line if enough time has gone by since the last one."""
        now = time.monotonic()
        if now - self._start < _QUIET_SECONDS or now - self._last < _SECONDS_BETWEEN:
            return
        self._last = now
        count = f" {done} of {total}" if total else ""
        sys.stderr.write(f"treepurify: {what}{count} ({now - self._start:.0f} s)\n")
        sys.stderr.flush()


def row_progress(what: str, total: int | None, report: ProgressReport) -> Callable[[int], None]:
    """Return a function that is told of rows that are done, and reports their number and pace.

    Parameters
    ----------
    what : str
        What is done, such as "counting rows".
    total : int, optional
        All rows there are, where that is known: then the time left is reported too.
    report : callable
        Progress.
    """
    start, done = time.monotonic(), 0

    def add(n_rows: int) -> None:
        nonlocal done
        done += n_rows
        rate = done / max(time.monotonic() - start, 1e-9)
        left = "" if total is None else f", {max(total - done, 0) / rate:.0f} s left"
        report(f"{what}, {rate:,.0f} per second{left}:", done, total or done)

    return add


def announce_compilation(*, show: bool) -> None:
    """Write one line to standard error if the kernels are neither loaded nor cached."""
    if not show or add_runs.signatures:
        return
    folder = Path(add_runs.stats.cache_path or "")
    if not any(folder.glob("leaf_boxes.add_runs-*.nbi")):
        sys.stderr.write("treepurify: compiling kernels, once for this installation (about 10 s)\n")
        sys.stderr.flush()
