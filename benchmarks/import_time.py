"""How long do ``import treepurify`` and the first use of ``purify`` take, next to ``import numba``?

The package imports an engine, and Numba with it, when one of its names is asked for. Each import
runs in its own interpreter, all alternating so that a busy machine slows them alike. Prints the
median of each and the ratios. Modules are read as bytecode, as they are in an installation.
Run: ``python benchmarks/import_time.py [rounds]``.
"""

import os
import statistics
import subprocess
import sys
import time

STATEMENTS = ("pass", "import numba", "import treepurify", "from treepurify import purify")
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def seconds(statement: str) -> float:
    """Wall-clock time of one interpreter that runs `statement` and stops."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], env=ENVIRONMENT, check=True)
    return time.perf_counter() - start


def main() -> None:
    """Print the medians and their ratios, interpreter start included and apart."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    for statement in STATEMENTS:
        seconds(statement)  # the first run fills the disk cache and writes the .pyc files
    times = {statement: [] for statement in STATEMENTS}
    for _ in range(rounds):
        for statement in STATEMENTS:
            times[statement].append(seconds(statement))
    median = {statement: statistics.median(values) for statement, values in times.items()}
    start, numba = median["pass"], median["import numba"]
    for statement, value in median.items():
        ratios = (
            f"{value / numba:.2f} of numba's, {(value - start) / (numba - start):.2f} without start"
        )
        print(f"{statement:<30} {1000 * value:7.1f} ms, {ratios}  (median of {rounds})")


if __name__ == "__main__":
    main()
