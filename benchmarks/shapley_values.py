"""How fast are interventional Shapley values beside woodelf and shap?

100 XGBoost trees on 8 features, 20 000 rows explained against all 20 000 as the background;
shap on a part that it can finish, scaled up (its cost is linear in rows and in background).
Aim: at most half of woodelf's time at depth 6, at least 1000 times faster than shap.
Run: ``python benchmarks/shapley_values.py``.
"""

import os
import time
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import numpy as np
import pandas as pd
import shap
import xgboost
from timing import alternate, show
from woodelf import WoodelfExplainer

from treepurify.models.parse import parse_model
from treepurify.shapley.interventional import interventional_shapley_values

ROWS = 20_000
FEATURES = 8
PART = (20, 200)
ROUNDS = 5


def shap_seconds(model: xgboost.XGBRegressor, X: np.ndarray) -> tuple[float, np.ndarray]:
    """Return shap's time on a part, scaled to all rows and background, and its values."""
    rows, background = PART
    masker = shap.maskers.Independent(X[:background], max_samples=background)
    start = time.perf_counter()
    explainer = shap.TreeExplainer(model, masker, feature_perturbation="interventional")
    values = explainer.shap_values(X[:rows])
    seconds = time.perf_counter() - start
    return seconds * ROWS / rows * ROWS / background, values


def main() -> None:
    """Print both depths."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(FEATURES)])
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 + X[:, 4] * (X[:, 5] > 0)
    print(f"load before: {os.getloadavg()[0]:.2f}, cores: {os.cpu_count()}")
    for depth in (3, 6):
        model = xgboost.XGBRegressor(n_estimators=100, max_depth=depth, learning_rate=0.1)
        model.fit(table, y)

        def ours(model: xgboost.XGBRegressor = model) -> np.ndarray:
            return interventional_shapley_values(model, table, progress=False).values[:, :, 0]

        def woodelf(model: xgboost.XGBRegressor = model) -> np.ndarray:
            with redirect_stderr(StringIO()), redirect_stdout(StringIO()):  # its progress
                return np.asarray(WoodelfExplainer(model, table).shap_values(table))

        medians = alternate({"treepurify": ours, "woodelf": woodelf}, ROUNDS)
        scaled, values = shap_seconds(model, X)
        rows, background = PART
        part = interventional_shapley_values(
            model, table[:rows], table[:background], progress=False
        )
        show(f"depth {depth}, {ROWS} rows and background", medians, ROUNDS)
        print(f"  shap, scaled up from {rows} x {background}: {scaled:.0f} s, ", end="")
        print(f"{scaled / medians['treepurify']:.0f} times ours")
        print(
            f"  largest difference to shap {np.max(np.abs(part.values[:, :, 0] - values)):.1e}, ",
            end="",
        )
        print(f"to woodelf {np.max(np.abs(ours() - woodelf())):.1e}")
        found = interventional_shapley_values(model, table, progress=False)
        margin = parse_model(model).margin(table, precision="float64")
        print(f"  base + values - margin: {np.max(np.abs(found.total() - margin)):.1e}")


if __name__ == "__main__":
    main()
