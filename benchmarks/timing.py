"""Time several functions in one process, alternating, and print medians and ratios."""

import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path


def alternate(functions: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each function; they take turns, after one warm-up each."""
    for function in functions.values():
        function()
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def show(title: str, medians: dict[str, float], rounds: int) -> None:
    """Print one line a function, with its ratio to the first."""
    names = list(medians)
    print(f"\n{title} (medians of {rounds}, alternating)")
    for name in names:
        print(f"  {name:<44} {1000 * medians[name]:10.1f} ms")
    for name in names[1:]:
        print(f"  {name} / {names[0]}: {medians[name] / medians[names[0]]:.3g}")


def peak_memory() -> float:
    """Return the largest resident size of this process so far, in GB."""
    status = Path("/proc/self/status")
    if status.exists():
        # Unlike that of `getrusage`, this figure does not begin with the size of the parent.
        (line,) = (row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
