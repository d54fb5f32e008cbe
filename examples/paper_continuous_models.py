"""
The data sets and models of the continuous closed form
======================================================

Section D.2 of Ferrere et al.: XGBoost, a multi-layer perceptron and an Explainable Boosting
Machine with the paper's settings, seed 42 and an 80/20 split. Two things differ: scikit-learn's
perceptron replaces the paper's PyTorch network (so no dropout, and its own validation rows for
early stopping), and boosting machines have one outer bag instead of 14, which smooths less.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler

from examples.data import read_table

SEED = 42
BIKE_FEATURES = [
    "hr",
    "weekday",
    "holiday",
    "season",
    "atemp",
    "hum",
    "windspeed",
    "weathersit",
]


@dataclass(frozen=True, eq=False)
class Task:
    """Numbers to learn from; labels are numbered in alphabetical order, as the paper must have.

    Parameters
    ----------
    X : DataFrame of float64
        Features.
    y : ndarray of shape (n_rows,)
        Target: numbers, or 0 and 1.
    is_binary : bool
        Whether it is 0 or 1.
    """

    X: pd.DataFrame
    y: np.ndarray
    is_binary: bool


@dataclass(frozen=True, eq=False)
class Explained:
    """What is decomposed.

    Parameters
    ----------
    values : ndarray of shape (n_rows,)
        Predictions of all rows; log-odds of a classifier.
    performance : float
        R2 or accuracy on the held-out rows.
    """

    values: np.ndarray
    performance: float


def read_task(name: str) -> Task:
    """Read a data set; the grid's target is whether it is stable, as accuracy 0.98 implies.

    Raises
    ------
    DataUnavailableError
        If it is not on this machine.
    """
    table = read_table(name)
    if name == "bike_sharing_hour":
        return _task(table[BIKE_FEATURES], table["cnt"])
    if name == "california_housing":
        return _task(table.drop(columns="MedHouseVal"), table["MedHouseVal"])
    if name == "adult":
        return _task(table.drop(columns="income"), table["income"] == ">50K")
    if name == "electrical_grid":
        return _task(table.drop(columns=["stab", "stabf"]), table["stabf"] == "stable")
    if name == "pima_diabetes":
        return _task(table.drop(columns="Outcome"), table["Outcome"] == 1)
    return _task(table.drop(columns="critical_temp"), table["critical_temp"])


def _task(X: pd.DataFrame, y: pd.Series) -> Task:
    numbered = X.apply(
        lambda column: (
            column if pd.api.types.is_numeric_dtype(column) else pd.factorize(column, sort=True)[0]
        )
    )
    is_binary = y.dtype == bool
    return Task(numbered.astype(np.float64), y.to_numpy(np.float64), bool(is_binary))


def explain(task: Task, kind: str) -> Explained:
    """Train a model, ``"XGB"``, ``"MLP"`` or ``"EBM"``, and return its predictions."""
    X = task.X.to_numpy()
    stratify = task.y if task.is_binary else None
    train, test = train_test_split(
        np.arange(len(X)), test_size=0.2, random_state=SEED, stratify=stratify
    )
    fit = {"XGB": _xgboost, "MLP": _perceptron, "EBM": _boosting_machine}[kind]
    values = np.asarray(fit(X, task.y, task.is_binary, train, test), dtype=np.float64)
    if task.is_binary:
        performance = float(np.mean((values[test] > 0) == (task.y[test] == 1)))
    else:
        performance = 1 - float(np.mean((task.y[test] - values[test]) ** 2) / task.y[test].var())
    return Explained(values, performance)


def _xgboost(
    X: np.ndarray, y: np.ndarray, is_binary: bool, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    from xgboost import XGBClassifier, XGBRegressor

    model = (XGBClassifier if is_binary else XGBRegressor)(
        n_estimators=100,
        max_depth=10,
        learning_rate=0.05,
        subsample=0.8,
        colsample_bytree=0.8,
        early_stopping_rounds=30,
        random_state=SEED,
        n_jobs=2,
    )
    model.fit(X[train], y[train], eval_set=[(X[test], y[test])], verbose=False)
    return model.predict(X, output_margin=True)


def _perceptron(
    X: np.ndarray, y: np.ndarray, is_binary: bool, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    del test
    scale = StandardScaler().fit(X[train])
    model = (MLPClassifier if is_binary else MLPRegressor)(
        hidden_layer_sizes=(128, 64, 32),
        alpha=1e-4,
        batch_size=min(256, len(train)),
        learning_rate_init=1e-3,
        max_iter=500,
        early_stopping=True,
        n_iter_no_change=30,
        random_state=SEED,
    )
    centre, spread = (0.0, 1.0) if is_binary else (y[train].mean(), y[train].std())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(scale.transform(X[train]), (y[train] - centre) / spread)
    if not is_binary:
        return centre + spread * model.predict(scale.transform(X))
    # Log-odds from the last layer: probabilities are rounded to one long before these saturate.
    layer = scale.transform(X)
    for weights, offsets in zip(model.coefs_, model.intercepts_, strict=True):
        before = layer @ weights + offsets
        layer = np.maximum(before, 0.0)
    return before[:, 0]


def _boosting_machine(
    X: np.ndarray, y: np.ndarray, is_binary: bool, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    del test
    kind = ExplainableBoostingClassifier if is_binary else ExplainableBoostingRegressor
    model = kind(
        max_bins=256,
        interactions=10,
        max_rounds=5000,
        learning_rate=0.01,
        max_leaves=3,
        min_samples_leaf=2,
        outer_bags=1,
        random_state=SEED,
        n_jobs=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[train], y[train])
    return model.decision_function(X) if is_binary else model.predict(X)
