"""What does a deep model cost, in predictions of its own library?

XGBoost and LightGBM models, and forests of scikit-learn, on normal features with correlation 0.5,
empirical measure, order 2: one prediction of all rows and one ``purify``, in turn, the share of the
model's variance that the components explain on the fitted rows and on new ones, the estimated
error of the components in standard deviations of the model, and the peak memory of a process that
trained the model and purified it once.
Aims on two cores: 25 predictions for deep models on 100 000 rows, 0.3 for depth 2.
Run: ``python benchmarks/deep_scaling.py [case ...]``, all but the three longest by default.
"""

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import lightgbm
import numpy as np
import xgboost
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from timing import alternate, peak_memory

import treepurify as tp

# Library, depth or leaves (None for no limit), trees, rows, features.
CASES = {
    "depth 6, 10 000 x 8": ("xgboost", 6, 100, 10_000, 8),
    "depth 6, 100 000 x 8": ("xgboost", 6, 100, 100_000, 8),
    "depth 6, 100 000 x 30": ("xgboost", 6, 100, 100_000, 30),
    "depth 6, 50 000 x 100": ("xgboost", 6, 100, 50_000, 100),
    "31 leaves, 100 000 x 30": ("lightgbm", 31, 200, 100_000, 30),
    "depth 2, 100 000 x 20": ("xgboost", 2, 1000, 100_000, 20),
    "depth 2, 50 000 x 500": ("xgboost", 2, 1000, 50_000, 500),
    "forest of depth 12, 50 000 x 10": ("forest", 12, 100, 50_000, 10),
    "full forest, 50 000 x 10": ("forest", None, 100, 50_000, 10),
    "full extra trees, 50 000 x 10": ("extra trees", None, 100, 50_000, 10),
    "depth 6, 1 000 000 x 8": ("xgboost", 6, 100, 1_000_000, 8),
    "depth 6, 100 000 x 20, 500 trees": ("xgboost", 6, 500, 100_000, 20),
    "63 leaves, 100 000 x 30, 500 trees": ("lightgbm", 63, 500, 100_000, 30),
}
FORESTS = {"forest": RandomForestRegressor, "extra trees": ExtraTreesRegressor}
LONG = 3
NEW_ROWS, ROUNDS, LONG_SECONDS = 20_000, 7, 5.0


def rows(seed: int, n_rows: int, n_features: int) -> np.ndarray:
    """Normal features, all with the same correlation."""
    rng = np.random.default_rng(seed)
    common, own = rng.normal(size=(n_rows, 1)), rng.normal(size=(n_rows, n_features))
    return np.sqrt(0.5) * (common + own)


def response(X: np.ndarray) -> np.ndarray:
    """Main effects, pairs, one interaction of three features, and noise."""
    pairs = X[:, 1] * X[:, 2] + X[:, 4] * (X[:, 5] > 0)
    noise = np.random.default_rng(1).normal(scale=0.5, size=len(X))
    return np.sin(X[:, 0]) + X[:, 3] ** 2 + pairs + 0.3 * X[:, 5] * X[:, 6] * X[:, 7] + noise


def train(library: str, size: int | None, n_trees: int, X: np.ndarray) -> object:
    """Return a trained model."""
    y = response(X)
    if library in FORESTS:
        forest = FORESTS[library](n_trees, max_depth=size, n_jobs=2, random_state=0)
        return forest.fit(X, y)
    if library == "xgboost":
        return xgboost.XGBRegressor(n_estimators=n_trees, max_depth=size, learning_rate=0.1).fit(
            X, y
        )
    return lightgbm.LGBMRegressor(n_estimators=n_trees, num_leaves=size, verbose=-1).fit(X, y)


def line(name: str) -> str:
    """Measure one model."""
    library, size, n_trees, n_rows, n_features = CASES[name]
    X, new = rows(0, n_rows, n_features), rows(1, NEW_ROWS, n_features)
    model = train(library, size, n_trees, X)
    tp.purify(model, X[:500], weights="empirical", progress=False)  # compile
    start = time.perf_counter()
    d = tp.purify(model, X, weights="empirical", progress=False)
    n_rounds = 1 if time.perf_counter() - start > LONG_SECONDS else ROUNDS
    peak = peak_memory()
    calls = {
        "predict": lambda: model.predict(X),
        "purify": lambda: tp.purify(model, X, weights="empirical", progress=False),
    }
    predict, purify = alternate(calls, n_rounds).values()
    error = max(d.diagnostics.get("projection", {}).get("error", [0.0])) / model.predict(X).std()
    fitted, fresh = d.r_squared(X)[0], d.r_squared(new)[0]
    return (
        f"{name:<36} {predict:7.3f} s {purify:7.3f} s {purify / predict:7.2f}"
        f"   {fitted:.4f} {fresh:.4f}   {error:.0e}   {peak:.2f} GB"
    )


def main() -> None:
    """Print one line a model, each from a process of its own."""
    names = sys.argv[1:] or list(CASES)[:-LONG]
    print(f"{'':<36} {'predict':>9} {'purify':>9} {'ratio':>7}   R-squared: fitted, new   error")
    for name in names:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            print(pool.submit(line, name).result(), flush=True)


if __name__ == "__main__":
    main()
