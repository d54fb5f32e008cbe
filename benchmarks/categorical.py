"""How much faster is the blocked selection than Algorithm 1 as printed, on Connect-4?

Both in one process, on the same rows, to the same rank; the selected functions are compared.
Run: ``python -m benchmarks.categorical [--rank 1000] [--rounds 3]``.
"""

import argparse
import statistics
import time

import numpy as np
import pandas as pd

from examples.data import read_table
from tests.reference.categorical import greedy_selection
from treepurify.engines.categorical.greedy_selection import select_in_order
from treepurify.engines.categorical.observations import observe
from treepurify.engines.categorical.routes import candidate_subsets

BUDGET = 4 << 30
TOLERANCE = 1e-4


def main() -> None:
    """Print seconds of both and whether they agree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rank", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    table = read_table("connect4").drop(columns="class")
    codes = table.apply(lambda column: pd.factorize(column, sort=True)[0]).to_numpy(np.int64)
    n_rows, n_features = codes.shape
    sizes = tuple(int(n) for n in codes.max(axis=0) + 1)

    def ours() -> list:
        observations = observe(codes.T, np.zeros((n_rows, 1)), None, sizes)
        basis = select_in_order(
            observations,
            candidate_subsets(range(n_features), 4, None),
            arguments.rank,
            TOLERANCE,
            BUDGET,
            lambda *_: None,
        )
        return [
            (subset, tuple(int(level) for level in z))
            for subset, own in basis.chosen.items()
            for z in (np.argwhere(own.kept) if subset else [()])
        ]

    ours()
    seconds = []
    for _ in range(arguments.rounds):
        start = time.perf_counter()
        selected = ours()
        seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    printed, _ = greedy_selection(
        codes,
        np.full(n_rows, 1 / n_rows),
        candidate_subsets(range(n_features), 4, None),
        arguments.rank,
    )
    slow = time.perf_counter() - start
    print(f"Connect-4, {n_rows} rows, rank {arguments.rank}")
    print(
        f"  in blocks      least {min(seconds):8.2f} s, median {statistics.median(seconds):.2f} s"
    )
    print(f"  as printed     {slow:8.2f} s, {slow / statistics.median(seconds):.0f} times as long")
    print(f"  same functions: {selected == printed}")


if __name__ == "__main__":
    main()
