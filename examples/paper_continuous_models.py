"""
The data sets and models of the continuous closed form
======================================================

Section D.2 of Ferrere et al.: XGBoost, a multi-layer perceptron, an Explainable Boosting Machine
and a Neural Additive Model with the paper's settings, an 80/20 split, seed 42. Two things differ:
scikit-learn's perceptron replaces the paper's PyTorch network (so no dropout, and its own
validation rows for early stopping), and boosting machines have one outer bag instead of 14, which
smooths less. ``paper_continuous_training.py`` shows what both do.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.preprocessing import StandardScaler

from examples.data import read_table
from examples.paper_continuous_dropout import MOST_EPOCHS
from examples.paper_continuous_dropout import train as train_with_dropout
from examples.paper_continuous_nam import train as train_nam
from examples.paper_continuous_perceptron import Perceptron

SEED = 42
# The default of interpret, which the paper does not change.
PAPER_BAGS = 14
BAGGED = f"EBM of {PAPER_BAGS} bags"
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
    function : callable
        The same predictions of any rows.
    model : object
        What was trained.
    """

    values: np.ndarray
    performance: float
    function: Callable[[np.ndarray], np.ndarray]
    model: Any


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


def explain(task: Task, kind: str, seed: int = SEED, *, quick: bool = False) -> Explained:
    """Train a model and predict all rows.

    Parameters
    ----------
    task : Task
        What to learn.
    kind : {"XGB", "MLP", "EBM", "EBM of 14 bags", "NAM"}
        The model.
    seed : int
        Seed of the split and of the training.
    quick : bool
        Whether to stop after a few rounds.
    """
    train, test = _split(task, seed)
    fit = {
        "XGB": _xgboost,
        "MLP": _perceptron,
        "EBM": _boosting_machine,
        BAGGED: partial(_boosting_machine, bags=PAPER_BAGS),
        "NAM": _additive,
    }[kind]
    model, function = fit(task, train, test, seed, quick)
    return _explained(task, test, model, function)


def with_dropout(
    task: Task, seed: int, epochs: Sequence[int], most_epochs: int = MOST_EPOCHS
) -> tuple[dict[int, Explained], Explained, int]:
    """Train the paper's perceptron, and predict all rows by it after some epochs and at its best.

    Parameters
    ----------
    task : Task
        What to learn.
    seed : int
        Seed of the split and of the training.
    epochs : sequence of int
        Where the network is wanted as it was before training ended; it may end earlier.
    most_epochs : int
        Epochs after which training ends in any case.

    Returns
    -------
    tuple
        What there is at `epochs`, the network with the least held-out loss, and its epoch.
    """
    train, test = _split(task, seed)
    X, y = task.X.to_numpy(), task.y
    scale = StandardScaler().fit(X[train])
    centre, spread = _units(task, train)
    target, scaled = (y - centre) / spread, scale.transform(X)
    trained = train_with_dropout(
        scaled[train],
        target[train],
        scaled[test],
        target[test],
        is_binary=task.is_binary,
        seed=seed,
        most_epochs=most_epochs,
        keep=epochs,
    )

    def of_all(network: Perceptron) -> Explained:
        own = network.in_units_of(scale.mean_, scale.scale_, centre, spread)
        return _explained(task, test, own, own.values)

    at = {epoch: of_all(network) for epoch, network in trained.at.items()}
    return at, of_all(trained.best), trained.best_epoch


def _split(task: Task, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rows = np.arange(len(task.y))
    stratify = task.y if task.is_binary else None
    train, test = train_test_split(rows, test_size=0.2, random_state=seed, stratify=stratify)
    return train, test


def _units(task: Task, train: np.ndarray) -> tuple[float, float]:
    """Return what a network's target is centred and divided by: log-odds stay as they are."""
    own = task.y[train]
    return (0.0, 1.0) if task.is_binary else (float(own.mean()), float(own.std()))


def _explained(
    task: Task, test: np.ndarray, model: Any, function: Callable[[np.ndarray], np.ndarray]
) -> Explained:
    values = np.asarray(function(task.X.to_numpy()), dtype=np.float64)
    if task.is_binary:
        performance = float(np.mean((values[test] > 0) == (task.y[test] == 1)))
    else:
        performance = 1 - float(np.mean((task.y[test] - values[test]) ** 2) / task.y[test].var())
    return Explained(values, performance, function, model)


Fitted = tuple[Any, Callable[[np.ndarray], np.ndarray]]


def _xgboost(task: Task, train: np.ndarray, test: np.ndarray, seed: int, quick: bool) -> Fitted:
    from xgboost import XGBClassifier, XGBRegressor

    X, y = task.X.to_numpy(), task.y
    model = (XGBClassifier if task.is_binary else XGBRegressor)(
        n_estimators=20 if quick else 100,
        max_depth=10,
        learning_rate=0.05,
        subsample=0.8,
        colsample_bytree=0.8,
        early_stopping_rounds=30,
        random_state=seed,
        n_jobs=1,
    )
    model.fit(X[train], y[train], eval_set=[(X[test], y[test])], verbose=False)
    return model, lambda rows: model.predict(rows, output_margin=True).astype(np.float64)


def _perceptron(task: Task, train: np.ndarray, test: np.ndarray, seed: int, quick: bool) -> Fitted:
    del test
    X, y = task.X.to_numpy(), task.y
    scale = StandardScaler().fit(X[train])
    model = (MLPClassifier if task.is_binary else MLPRegressor)(
        hidden_layer_sizes=(128, 64, 32),
        alpha=1e-4,
        batch_size=min(256, len(train)),
        learning_rate_init=1e-3,
        max_iter=5 if quick else 500,
        early_stopping=True,
        n_iter_no_change=30,
        random_state=seed,
    )
    centre, spread = _units(task, train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(scale.transform(X[train]), (y[train] - centre) / spread)

    # Log-odds of a classifier: probabilities are rounded to one long before those saturate.
    layers = Perceptron(tuple(model.coefs_), tuple(model.intercepts_))
    network = layers.in_units_of(scale.mean_, scale.scale_, centre, spread)
    return network, network.values


def _boosting_machine(
    task: Task, train: np.ndarray, test: np.ndarray, seed: int, quick: bool, *, bags: int = 1
) -> Fitted:
    from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor

    del test
    X, y = task.X.to_numpy(), task.y
    model = (ExplainableBoostingClassifier if task.is_binary else ExplainableBoostingRegressor)(
        max_bins=256,
        interactions=10,
        max_rounds=50 if quick else 5000,
        learning_rate=0.01,
        max_leaves=3,
        min_samples_leaf=2,
        outer_bags=bags,
        random_state=seed,
        n_jobs=1,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X[train], y[train])
    return model, model.decision_function if task.is_binary else model.predict


def _additive(task: Task, train: np.ndarray, test: np.ndarray, seed: int, quick: bool) -> Fitted:
    X, y = task.X.to_numpy(), task.y
    centre, spread = _units(task, train)
    target = (y - centre) / spread
    model = train_nam(
        X[train],
        target[train],
        X[test],
        target[test],
        is_binary=task.is_binary,
        seed=seed,
        most_epochs=5 if quick else 1000,
    )
    # In the units of the target, so that its curves can be compared with other effects.
    *hidden, (weights, offsets) = model.layers
    scaled = replace(
        model,
        layers=(*hidden, (weights * spread, offsets * spread)),
        constant=centre + spread * model.constant,
    )
    return scaled, scaled.values
