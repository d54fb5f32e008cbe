"""How long does ``import treepurify`` take, beside ``import numba`` alone?

Each import runs in its own interpreter, the two alternating so that a busy machine slows both.
Prints the median of each and their ratio. Run: ``python benchmarks/import_time.py [rounds]``.
"""

import statistics
import subprocess
import sys
import time

STATEMENTS = ("pass", "import numba", "import treepurify")


def seconds(statement: str) -> float:
    """Wall-clock time of one interpreter that runs `statement` and stops."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> None:
    """Print the medians and the ratio, interpreter start included and apart."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 11
    for statement in STATEMENTS:
        seconds(statement)  # the first run fills the disk cache and writes the .pyc files
    times = {statement: [] for statement in STATEMENTS}
    for _ in range(rounds):
        for statement in STATEMENTS:
            times[statement].append(seconds(statement))
    median = {statement: statistics.median(values) for statement, values in times.items()}
    for statement, value in median.items():
        print(f"{statement:<20} {1000 * value:7.1f} ms  (median of {rounds})")
    start, numba, ours = (median[statement] for statement in STATEMENTS)
    print(f"ratio                {ours / numba:7.2f}")
    print(f"ratio without start  {(ours - start) / (numba - start):7.2f}")


if __name__ == "__main__":
    main()
