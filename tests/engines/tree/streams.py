"""Rows in batches, and models that are read under them."""

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

__all__ = ["batches", "regression_rows", "shallow_model"]


def regression_rows(n_rows=400):
    """Rows of four dependent features, and a target with interactions."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(n_rows, 4)), columns=list("abcd"))
    X["b"] += X["a"] / 2
    return X, X["a"] * X["b"] + X["c"] - np.abs(X["d"])


def shallow_model():
    """A model of trees of depth two, and its rows."""
    X, y = regression_rows()
    model = HistGradientBoostingRegressor(
        max_depth=2, max_iter=20, min_samples_leaf=5, early_stopping=False
    )
    return model.fit(X, y), X.copy()


def batches(X, size):
    """Return a callable that gives the rows in batches of a size."""
    return lambda: (X[start : start + size] for start in range(0, len(X), size))
