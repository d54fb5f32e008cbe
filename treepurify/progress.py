"""What a caller who waits reads on standard error: progress, and that kernels are compiled."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from treepurify._kernels.leaf_boxes import leaf_runs
from treepurify.arguments import check_flag

__all__ = ["ProgressReport", "announce_compilation", "progress_report"]

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


def announce_compilation(*, show: bool) -> None:
    """Write one line to standard error if the kernels are neither loaded nor cached."""
    if not show or leaf_runs.signatures:
        return
    folder = Path(leaf_runs.stats.cache_path or "")
    if not any(folder.glob("leaf_boxes.leaf_runs-*.nbi")):
        sys.stderr.write("treepurify: compiling kernels, once for this installation (about 10 s)\n")
        sys.stderr.flush()
