"""How fast are interventional Shapley values next to woodelf and shap?

100 XGBoost trees on 8 features, 20 000 rows explained against all 20 000 as the background;
shap on a part that it can finish, scaled up (its cost is linear in rows and in background).
Aim: at most half of woodelf's time at depth 6, at least 1000 times faster than shap.
Then a forest of 100 trees of default depth, which few rows walk down with the background: 20 rows
against 100 (aim: no slower than shap), and 500 trees with 5000 (aim: 15 s).
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
from sklearn.ensemble import RandomForestRegressor
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


def forests() -> None:
    """Print forests of default depth next to shap, and one with a large background."""
    rng = np.random.default_rng(0)
    for n_rows, n_features in ((2000, 10), (5000, 20)):
        X = rng.normal(size=(n_rows, n_features))
        y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 + 0.3 * rng.normal(size=n_rows)
        model = RandomForestRegressor(100, random_state=0, n_jobs=2).fit(X, y)

        def ours(model: RandomForestRegressor = model, X: np.ndarray = X) -> np.ndarray:
            found = interventional_shapley_values(model, X[:20], X[-100:], progress=False)
            return found.values[:, :, 0]

        def peer(model: RandomForestRegressor = model, X: np.ndarray = X) -> np.ndarray:
            masker = shap.maskers.Independent(X[-100:], max_samples=100)
            return shap.TreeExplainer(model, masker).shap_values(X[:20])

        medians = alternate({"treepurify": ours, "shap": peer}, ROUNDS)
        title = f"forest of 100 trees, {n_rows} x {n_features}, 20 rows, 100 background"
        show(title, medians, ROUNDS)
        print(f"  largest difference {np.max(np.abs(ours() - peer())):.1e}")
    model = RandomForestRegressor(500, random_state=0, n_jobs=2).fit(X, y)
    start = time.perf_counter()
    interventional_shapley_values(model, X[:20], X, progress=False)
    print(f"500 trees, 20 rows, 5000 background: {time.perf_counter() - start:.1f} s")


def main() -> None:
    """Print both depths, and forests."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(FEATURES)])
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] ** 2 + X[:, 4] * (X[:, 5] > 0)
    print(f"load before: {os.getloadavg()[0]:.2f}, cores: {os.cpu_count()}")
    forests()
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
