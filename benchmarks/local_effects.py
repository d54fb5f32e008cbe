"""How long do accumulated local effects of all pairs take, next to one prediction of the rows?

Run: ``python benchmarks/local_effects.py``. XGBoost, 200 trees of depth 6 on 5000 rows of 10, 20
and 50 features; ``--trees`` for fewer. The pairs are 45, 190 and 1225.
"""

import argparse
from functools import partial

import numpy as np
import xgboost
from timing import alternate, show

import treepurify as tp

ROWS, ROUNDS = 5000, 3


def main() -> None:
    """Print the seconds for each number of features."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=200)
    trees = parser.parse_args().trees
    rng = np.random.default_rng(0)
    for n_features in (10, 20, 50):
        X = rng.normal(size=(ROWS, n_features))
        y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + X @ rng.normal(scale=0.3, size=n_features)
        model = xgboost.XGBRegressor(n_estimators=trees, max_depth=6).fit(X, y)
        calls = {
            "one prediction": partial(model.predict, X),
            "ale_anova, main effects": partial(tp.ale_anova, model, X, order=1, progress=False),
            "ale_anova": partial(tp.ale_anova, model, X, progress=False),
        }
        show(f"{trees} trees, {n_features} features", alternate(calls, ROUNDS), ROUNDS)


if __name__ == "__main__":
    main()
