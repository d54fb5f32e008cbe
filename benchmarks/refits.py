"""How long do 20 refits take to purify, compared with one purification?

Run: ``python benchmarks/refits.py [--rounds 3]``. 500 trees of depth 2 on 100 000 rows of 20
features, trained by LightGBM with 20 seeds (whose bins are the same for all) and by XGBoost on 20
bootstraps (whose cuts differ), the bags of an EBM, and 20 bootstraps of XGBoost's default depth on
5000 rows of 10 features. Processor time of one thread, since other
work on a machine changes the clock but hardly that; one purification and twenty take turns.
"""

import argparse
import statistics
import time

import lightgbm
import numpy as np
import xgboost
from interpret.glassbox import ExplainableBoostingRegressor

import treepurify as tp

N_ROWS, N_FEATURES, N_TREES, N_MODELS = 100_000, 20, 500, 20


def draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of dependent features, and targets with pairs."""
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    X[:, 1:] += 0.3 * X[:, :1]
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + X[:, 3] * (X[:, 4] > 0)
    return X, y + 0.3 * X[:, 5:10].sum(axis=1) + rng.normal(size=N_ROWS)


def measure(
    title: str,
    one: object,
    refits: object,
    X: np.ndarray,
    rounds: int,
    weights: str = "empirical",
) -> None:
    """Print the processor time of one model alone, and with its refits."""
    times: dict[str, list[float]] = {"one": [], "several": []}
    options = {"weights": weights, "progress": False}
    d = tp.purify(one, X[:500], refits=refits, **options)
    for _ in range(rounds):
        for name, others in (("one", None), ("several", refits)):
            start = time.process_time()
            d = tp.purify(one, X, refits=others, **options)
            times[name].append(time.process_time() - start)
    first, all_of_them = (statistics.median(values) for values in times.values())
    facts = d.diagnostics["refits"]
    print(f"\n{title}: {facts['models']} models, {len(d)} effects")
    print(f"  one {first:.3f} s, with refits {all_of_them:.2f} s: {all_of_them / first:.1f} times")
    print(f"  without a spread, since it would not fit: {len(facts['without_spread'])} effects")


def main() -> None:
    """Train and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    X, y = draw(np.random.default_rng(0))
    shallow = {"n_estimators": N_TREES, "max_depth": 2, "subsample": 0.5, "n_jobs": 1}
    light = lightgbm.LGBMRegressor(**shallow, num_leaves=4, subsample_freq=1, verbose=-1)
    models = tp.refit(light, X, y, n=N_MODELS, how="seeds", progress=False)
    measure("LightGBM, other seeds", models[0], models, X, rounds)
    models = tp.refit(xgboost.XGBRegressor(**shallow), X, y, n=N_MODELS, progress=False)
    measure("XGBoost, bootstrap", models[0], models, X, rounds)
    few = slice(0, N_ROWS // 5)
    ebm = ExplainableBoostingRegressor(
        interactions=10, outer_bags=14, max_bins=128, max_rounds=100, n_jobs=1
    ).fit(X[few], y[few])
    measure("EBM, its bags, on a fifth of the rows", ebm, "bags", X[few], rounds)
    X, y = X[:5000, :10], y[:5000]
    models = tp.refit(xgboost.XGBRegressor(n_jobs=1), X, y, n=N_MODELS, progress=False)
    measure("XGBoost, default depth, default measure", models[0], models, X, rounds, "auto")


if __name__ == "__main__":
    main()
