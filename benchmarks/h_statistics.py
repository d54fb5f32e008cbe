"""How long do exact H-statistics take on all rows, compared with the definition row by row?

Run: ``python benchmarks/h_statistics.py``, with ``--data`` for two real data sets. XGBoost, 100
trees, 8 features, 20 000 rows: all 8 features and 28 pairs. The definition is timed on 500
rows, and is quadratic in the rows.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xgboost
from partial_dependence_vs_woodelf import N_FEATURES, make

from treepurify.interactions.h_statistics import HStatistics, h_statistics
from treepurify.models.parse import parse_model

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from examples.data import DataSet, bike_sharing_hour, california_housing

SAMPLE = 500

Array = npt.NDArray[np.float64]


def brute_force(f: Callable[[Array], Array], rows: Array) -> dict[tuple[int, ...], float]:
    """Return the numerator of every feature and pair from calls of a function."""

    def dependence(features: tuple[int, ...]) -> Array:
        copies = np.tile(rows, (len(rows), 1)).reshape(len(rows), len(rows), -1)
        copies[:, :, features] = rows[:, None, features]
        values = f(copies.reshape(-1, rows.shape[1]))
        mean = values.astype(np.float64).reshape(len(rows), len(rows)).mean(axis=1)
        return mean - mean.mean()

    margin = f(rows).astype(np.float64).ravel()
    margin -= margin.mean()
    single = [dependence((j,)) for j in range(N_FEATURES)]
    found = {}
    for j in range(N_FEATURES):
        others = dependence(tuple(k for k in range(N_FEATURES) if k != j))
        found[(j,)] = float(np.mean((margin - single[j] - others) ** 2))
    for j, k in combinations(range(N_FEATURES), 2):
        found[j, k] = float(np.mean((dependence((j, k)) - single[j] - single[k]) ** 2))
    return found


def largest_gap(h: HStatistics, truth: dict[tuple[int, ...], float]) -> float:
    """Return the largest difference of a numerator, in units of the model's variance."""
    gaps = [abs(h.interactions[s].numerator[0] - value) for s, value in truth.items()]
    return float(max(gaps) / h.variance[0])


def print_tables(data: DataSet) -> None:
    """Print the strongest features and pairs of a boosted model, and how long it took."""
    model = xgboost.XGBRegressor(
        n_estimators=200, max_depth=4, learning_rate=0.1, n_jobs=2, enable_categorical=True
    ).fit(data.X, data.y)
    start = time.perf_counter()
    h = h_statistics(model, data.X, progress=False)
    took = time.perf_counter() - start
    start = time.perf_counter()
    h_statistics(model, data.X, purified=False, progress=False)
    alone = time.perf_counter() - start
    n_rows, n_features = data.X.shape
    print(
        f"\n{data.name}: {n_rows} rows, {n_features} features, {len(h.pairs())} pairs, "
        f"{took:.1f} s ({alone:.1f} s without shares under independence), load "
        f"{os.getloadavg()[0]:.1f}"
    )
    for table in (h.overall(), h.features().head(5), h.pairs().head(8)):
        print(table.round(4).to_string(index=False))


def main() -> None:
    """Time both and compare the numbers on the sample."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", action="store_true")
    arguments = parser.parse_args()
    if arguments.data:
        for data in (bike_sharing_hour(), california_housing()):
            print_tables(data)
        return
    rounds = arguments.rounds
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    for depth in (3, 6):
        model, frame = make(depth, 20_000)
        rows = frame.to_numpy()
        model = xgboost.XGBRegressor(n_estimators=100, max_depth=depth, n_jobs=2).fit(
            rows, model.predict(rows)
        )
        h_statistics(model, rows[:100], progress=False)
        for purified in (False, True):
            seconds = []
            for _ in range(rounds):
                start = time.perf_counter()
                h_statistics(model, rows, purified=purified, progress=False)
                seconds.append(time.perf_counter() - start)
            extra = " with shares under independence" if purified else ""
            print(
                f"depth {depth}, 20 000 rows{extra}: least {min(seconds):.2f} s, "
                f"median {np.median(seconds):.2f} s"
            )
        start = time.perf_counter()
        truth = brute_force(model.predict, rows[:SAMPLE])
        took = time.perf_counter() - start
        ours = h_statistics(model, rows[:SAMPLE], purified=False, progress=False)
        gap = largest_gap(ours, truth)
        # XGBoost adds its leaves up in single precision; the same trees in double do not.
        margin = partial(parse_model(model).margin, precision="float64")
        exact = largest_gap(ours, brute_force(margin, rows[:SAMPLE]))
        print(
            f"  definition on {SAMPLE} rows: {took:.1f} s, so about "
            f"{took * (20_000 / SAMPLE) ** 2 / 3600:.1f} h on 20 000; largest difference on "
            f"{SAMPLE} rows: {gap:.1e} of the variance by the model itself, which adds up in "
            f"single precision, {exact:.1e} by its trees in double precision"
        )


if __name__ == "__main__":
    main()
