"""How does ``purify`` compare with treehfd at depth 2, order 2?

100 XGBoost trees of depth 2 on 8 features with correlation 0.5; ``XGBTreeHFD.fit`` and
``predict`` next to ``treepurify.purify`` and its evaluation of every component on the same rows.
Aim: at least 100 times faster. Run: ``python benchmarks/purify_vs_treehfd.py``.
"""

from contextlib import redirect_stderr
from io import StringIO

import numpy as np
import xgboost
from timing import alternate, peak_memory, show
from treehfd import XGBTreeHFD

import treepurify as tp

FEATURES = 8
ROUNDS = 3


def correlated_rows(n_rows: int, correlation: float) -> np.ndarray:
    """Normal features, all with the same correlation."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(n_rows, 1))
    own = rng.normal(size=(n_rows, FEATURES))
    return np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own


def main() -> None:
    """Print both sizes."""
    for n_rows in (20_000, 80_000):
        X = correlated_rows(n_rows, 0.5)
        y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 + X[:, 4] * (X[:, 5] > 0)
        model = xgboost.XGBRegressor(n_estimators=100, max_depth=2, learning_rate=0.1).fit(X, y)

        def ours(X: np.ndarray = X, model: xgboost.XGBRegressor = model) -> object:
            return tp.purify(model, X, weights="empirical", progress=False)

        def ours_with_rows(X: np.ndarray = X, model: xgboost.XGBRegressor = model) -> object:
            return tp.purify(model, X, weights="empirical", progress=False).contributions(X)

        def theirs(X: np.ndarray = X, model: xgboost.XGBRegressor = model) -> object:
            with redirect_stderr(StringIO()):  # its progress bars
                hfd = XGBTreeHFD(model)
                hfd.fit(X, interaction_order=2)
                return hfd.predict(X)

        medians = alternate(
            {
                "treepurify.purify": ours,
                "treepurify.purify + contributions": ours_with_rows,
                "treehfd fit + predict": theirs,
            },
            ROUNDS,
        )
        show(f"100 trees of depth 2, {n_rows} rows x {FEATURES}", medians, ROUNDS)
        slower = medians["treehfd fit + predict"] / medians["treepurify.purify + contributions"]
        print(f"  treehfd / (purify + contributions): {slower:.0f}")
        print(tp.purify(model, X, weights="empirical", progress=False).certificate)
    print(f"  peak memory {peak_memory():.2f} GB")


if __name__ == "__main__":
    main()
