"""Does a purification cost no more than one prediction pass of the model itself?

XGBoost at depth 2, empirical weights: ``treepurify.purify`` (parse to certificate, in memory)
next to one ``Booster.inplace_predict`` over the same rows. Aim: a ratio of at most 1.0 at
100 000 rows and 1000 trees, at most 0.6 at a million rows and 500 trees, under 1.5 GB.
Run: ``python benchmarks/purify_vs_predict.py``.
"""

import numpy as np
import xgboost
from timing import alternate, peak_memory, show

import treepurify as tp

FEATURES = 20
ROUNDS = 7


def main() -> None:
    """Print both sizes."""
    for n_rows, n_trees in ((100_000, 1000), (1_000_000, 500)):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n_rows, FEATURES))
        y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) + X[:, 3] * X[:, 4] + 0.1 * rng.normal(size=n_rows)
        model = xgboost.train(
            {"max_depth": 2, "eta": 0.1, "tree_method": "hist"}, xgboost.DMatrix(X, y), n_trees
        )
        before = peak_memory()
        d = tp.purify(model, X, weights="empirical", progress=False)
        medians = alternate(
            {
                "Booster.inplace_predict": lambda X=X, model=model: model.inplace_predict(X),
                "treepurify.purify": lambda X=X, model=model: tp.purify(
                    model, X, weights="empirical", progress=False
                ),
            },
            ROUNDS,
        )
        show(f"{n_trees} trees of depth 2, {n_rows} rows x {FEATURES}", medians, ROUNDS)
        pairs = sum(len(subset) == 2 for subset in d)
        print(f"  {pairs} pair tables")
        print(d.certificate)
        print(f"  peak memory {peak_memory():.2f} GB (training and data alone: {before:.2f} GB)")


if __name__ == "__main__":
    main()
