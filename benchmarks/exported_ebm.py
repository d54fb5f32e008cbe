"""How far is an XGBoost model exported as an EBM from XGBoost's own margin, and why?

Run: ``python benchmarks/exported_ebm.py``. Trees of depth two on Friedman's first function, 10
features. The exported machine adds up in double precision, XGBoost in single; the same leaves
added up in double tell which of the two is rounded.
"""

import numpy as np
import xgboost
from sklearn.datasets import make_friedman1

import treepurify as tp

N_ROWS = 5000


def main() -> None:
    """Print one line a number of trees."""
    X, y = make_friedman1(N_ROWS, random_state=0)
    X = X.astype(np.float32)
    print("trees  largest margin  machine - XGBoost  machine - leaves in double")
    for n_trees in (25, 100, 600, 2000):
        model = xgboost.XGBRegressor(n_estimators=n_trees, max_depth=2, n_jobs=2).fit(X, y)
        machine = tp.export.to_ebm(
            tp.purify(model, X, weights="empirical", progress=False)
        ).predict(X)
        own = model.predict(X, output_margin=True)
        exact = tp.parse_model(model).margin(X, precision="float64")[:, 0]
        print(
            f"{n_trees:5d}  {np.abs(own).max():14.1f}  {np.abs(machine - own).max():17.1e}  "
            f"{np.abs(machine - exact).max():26.1e}"
        )


if __name__ == "__main__":
    main()
