"""Run a task of a script in a process of its own, with limits of time and memory.

A script calls `run_limited` with the name of a task. It is started again with ``--task NAME``, does
that task, and prints what `timed` returns, on the last line.
"""

import json
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from timing import peak_memory

HANGS = 1800.0  # by the clock


@dataclass(frozen=True)
class Ended:
    """How a task ended: "done", "too long", "too much memory", or the error.

    `seconds` are by the clock, `processor` those of all threads, `memory` is the peak in GB.
    """

    how: str
    seconds: float
    processor: float
    memory: float


def timed(function: Callable[[], object]) -> str:
    """Call a function once and return its seconds and peak memory as a line."""
    from treepurify.errors import TreepurifyError

    started, processor = time.perf_counter(), time.process_time()
    how = "done"
    try:
        function()
    except TreepurifyError as error:  # what is refused is a result, too
        how = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    except MemoryError:
        how = "too much memory"
    used = time.process_time() - processor
    ended = [how, time.perf_counter() - started, used, peak_memory()]
    return json.dumps(ended)


def run_limited(script: str, task: str, *, seconds: float, start: float, gib: float) -> Ended:
    """Run a task of a script, for at most `seconds` besides `start` for imports and data.

    All are processor seconds, so that other work on the machine ends no task.

    Parameters
    ----------
    script : str
        The script.
    task : str
        What is passed to it with ``--task``.
    seconds, start : float
        Limits, in processor seconds of all threads.
    gib : float
        Most memory that may be written to.
    """

    def limit() -> None:
        size = int(gib * (1 << 30))
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))
        resource.setrlimit(resource.RLIMIT_CPU, (int(start + seconds), int(start + seconds) + 5))

    command = [sys.executable, script, "--task", task]
    try:
        found = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=HANGS,
            preexec_fn=limit,
        )
    except subprocess.TimeoutExpired:
        return Ended("hangs", HANGS, float("nan"), float("nan"))
    if found.returncode == -signal.SIGXCPU:
        return Ended("too long", float("nan"), start + seconds, float("nan"))
    lines = found.stdout.splitlines()
    if found.returncode or not lines:
        last = (found.stderr.splitlines() or ["no message"])[-1]
        return Ended(f"ended with {found.returncode}: {last}", *[float("nan")] * 3)
    ended = Ended(*json.loads(lines[-1]))
    return ended if ended.processor <= seconds else replace(ended, how="too long")


def write_between(page: Path, name: str, text: str) -> None:
    """Replace what stands between two comments of a page, which name what it is."""
    first, last = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = page.read_text("utf-8").split(first)
    _, after = rest.split(last)
    page.write_text(f"{before}{first}\n{text}\n\n{last}{after}", "utf-8")
