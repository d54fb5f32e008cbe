"""How do deep ensembles compare with treehfd?

100 XGBoost trees of depth 3 and 6, 20 000 rows of 8 features with correlation 0.5, empirical
measure, order 2: ``treepurify.purify`` and ``XGBTreeHFD`` fit and predict. R-squared is the
share of the model's variance that components of up to two features explain, on the fitted rows
and on new ones; the cosine is the largest between a pair and one of its main effects.
Aims: at least 150 times faster at depth 6 and 100 times at depth 3, R-squared at most 0.001
lower, cosine at most 1e-10. Run: ``python benchmarks/deep_vs_treehfd.py [depth ...]``
(treehfd takes about five minutes at depth 6).
"""

import statistics
import sys
import time
from contextlib import redirect_stderr
from io import StringIO

import numpy as np
import xgboost
from timing import peak_memory
from treehfd import XGBTreeHFD

import treepurify as tp

ROWS, FEATURES, CORRELATION, ROUNDS = 20_000, 8, 0.5, 3


def rows(seed: int) -> np.ndarray:
    """Normal features, all with the same correlation."""
    rng = np.random.default_rng(seed)
    common, own = rng.normal(size=(ROWS, 1)), rng.normal(size=(ROWS, FEATURES))
    return np.sqrt(CORRELATION) * common + np.sqrt(1 - CORRELATION) * own


def response(X: np.ndarray) -> np.ndarray:
    """Main effects, pairs and one interaction of three features."""
    pairs = X[:, 1] * X[:, 2] + X[:, 4] * (X[:, 5] > 0)
    return np.sin(X[:, 0]) + X[:, 3] ** 2 + pairs + 0.3 * X[:, 5] * X[:, 6] * X[:, 7]


def r_squared(margin: np.ndarray, explained: np.ndarray) -> float:
    """One minus the mean square of what is left over the variance."""
    return float(1 - np.mean((margin - explained) ** 2) / margin.var())


def theirs(
    model: xgboost.XGBRegressor, X: np.ndarray, new: np.ndarray
) -> tuple[float, float, float, float]:
    """Seconds of fit and predict, R-squared on both sets of rows, largest cosine."""
    start = time.perf_counter()
    with redirect_stderr(StringIO()):  # its progress bars
        hfd = XGBTreeHFD(model)
        hfd.fit(X, interaction_order=2)
        mains, pairs = hfd.predict(X)[:2]
        seconds = time.perf_counter() - start
        new_mains, new_pairs = hfd.predict(new)[:2]
    largest = 0.0
    for k, (i, j) in enumerate(hfd.interaction_list):
        for main in (mains[:, i], mains[:, j]):
            norm = np.linalg.norm(pairs[:, k]) * np.linalg.norm(main)
            largest = max(largest, abs(float(pairs[:, k] @ main)) / norm if norm > 0 else 0.0)
    base = hfd.eta0
    fitted = r_squared(model.predict(X), base + mains.sum(axis=1) + pairs.sum(axis=1))
    fresh = r_squared(model.predict(new), base + new_mains.sum(axis=1) + new_pairs.sum(axis=1))
    return seconds, fitted, fresh, largest


def main() -> None:
    """Print both depths."""
    X, new = rows(0), rows(1)
    for depth in [int(text) for text in sys.argv[1:]] or [3, 6]:
        model = xgboost.XGBRegressor(n_estimators=100, max_depth=depth, learning_rate=0.1)
        model.fit(X, response(X))
        d = tp.purify(model, X, weights="empirical", progress=False)
        seconds = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            again = tp.purify(model, X, weights="empirical", progress=False)
            again.contributions(X)
            seconds.append(time.perf_counter() - start)
        same = all(np.array_equal(again.components[s].values, d.components[s].values) for s in d)
        ours = statistics.median(seconds)
        print(f"\ndepth {depth}, method {d.diagnostics['method']!r}")
        print(f"  treepurify {ours:8.2f} s, contributions included (median of {ROUNDS})")
        print(
            f"    R-squared {d.r_squared(X)[0]:.4f} fitted, {d.r_squared(new)[0]:.4f} new; cosine "
            f"{d.certificate.cosine:.1e}; repeated calls identical: {same}"
        )
        their_seconds, fitted, fresh, cosine = theirs(model, X, new)
        print(f"  treehfd    {their_seconds:8.2f} s (fit and predict, once)")
        print(f"    R-squared {fitted:.4f} fitted, {fresh:.4f} new; cosine {cosine:.1e}")
        print(f"  treehfd / treepurify: {their_seconds / ours:.0f}")
    print(f"  peak memory {peak_memory():.2f} GB")


if __name__ == "__main__":
    main()
