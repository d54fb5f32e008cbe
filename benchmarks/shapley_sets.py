"""Does recursive grouping see interactions that are not there, and what does it cost?

Additive ensembles (depth one, 100 and 1000 trees) with 20 000 probes a test, as parsed models and
as callables in the library's own precision: no two features may be joined. Then the number of
tests and rows as features become more, and 500 features through each method.
Run: ``python benchmarks/shapley_sets.py``.
"""

import os
import time

import lightgbm
import numpy as np
import xgboost

from treepurify.grouping.partition import shapley_sets
from treepurify.grouping.sets import Sampling, ShapleySets

PROBES = 20_000


def timed(*arguments: object, **options: object) -> tuple[ShapleySets, float]:
    """Return Shapley Sets and the seconds they took."""
    start = time.perf_counter()
    found = shapley_sets(*arguments, progress=False, **options)
    return found, time.perf_counter() - start


def additive_models(X: np.ndarray, y: np.ndarray) -> dict[str, object]:
    """Return boosted stumps of both libraries."""
    models = {}
    for n_trees in (100, 1000):
        one = xgboost.XGBRegressor(n_estimators=n_trees, max_depth=1, n_jobs=2)
        two = lightgbm.LGBMRegressor(n_estimators=n_trees, max_depth=1, verbose=-1, n_jobs=2)
        models[f"XGBoost, {n_trees} trees"] = one.fit(X, y)
        models[f"LightGBM, {n_trees} trees"] = two.fit(X, y)
    return models


def false_interactions() -> None:
    """Print the groups of additive ensembles."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 8))
    y = X.sum(axis=1) + X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2])
    sampling = Sampling(probes=PROBES)
    print(f"additive ensembles of 8 features, {PROBES} probes a test: groups found (8 is right)")
    for name, model in additive_models(X, y).items():
        parsed, seconds = timed(model, X, method="recursive", sampling=sampling)
        opaque, _ = timed(model.predict, X.astype(np.float32), sampling=sampling)
        print(
            f"  {name:<22} parsed {len(parsed.groups)} ({seconds:.1f} s), predict in its own "
            f"precision {len(opaque.groups)}"
        )


def growth() -> None:
    """Print how tests and evaluated rows grow with the features."""
    print("pairs of features that multiply, 4 probes a test")
    rng = np.random.default_rng(0)
    for n in (16, 64, 256, 1024):
        X = rng.normal(size=(50, n))
        found, _ = timed(
            lambda X: (X[:, ::2] * X[:, 1::2]).sum(axis=1), X, sampling=Sampling(probes=4)
        )
        tests = found.diagnostics["tests"]
        rows = found.diagnostics["rows_evaluated_for_groups"]
        print(
            f"  n = {n:<5} groups {len(found.groups):<4} tests {tests:<6} "
            f"tests / (n log2 n) {tests / (n * np.log2(n)):.2f}  rows {rows}"
        )


def many_features() -> None:
    """Print the time of each method on 500 features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 500))
    y = X[:, :20].sum(axis=1) + 3 * X[:, 0] * X[:, 1]
    model = xgboost.XGBRegressor(n_estimators=100, max_depth=6, n_jobs=2).fit(X, y)
    print("500 features, 100 trees of depth 6")
    for method in ("recursive", "index"):
        found, seconds = timed(model, X, method=method)
        print(f"  {method:<10} {seconds:6.1f} s, {len(found.groups)} groups")


def main() -> None:
    """Print all three."""
    print(f"load before: {os.getloadavg()[0]:.2f}, cores: {os.cpu_count()}")
    false_interactions()
    growth()
    many_features()


if __name__ == "__main__":
    main()
