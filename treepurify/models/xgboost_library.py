"""Ask XGBoost itself: load its files and predict with them."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.errors import UnsupportedModelError
from treepurify.models.xgboost_objectives import depends_on_version, find_objective
from treepurify.typing import Array

__all__ = ["load_file", "raw_margin"]


def load_file(path: Path) -> Any:
    """Load a model file with XGBoost, whatever its extension.

    Parameters
    ----------
    path : Path
        A ``.json`` or ``.ubj`` model.

    Returns
    -------
    xgboost.Booster

    Raises
    ------
    ImportError
        If XGBoost is not installed.
    UnsupportedModelError
        If the margin depends on the version of XGBoost, and so says nothing about the file.
    """
    import xgboost

    booster = xgboost.Booster()
    with xgboost.config_context(verbosity=0):
        booster.load_model(bytearray(path.read_bytes()))
    learner = json.loads(booster.save_config())["learner"]
    objective = find_objective(learner["objective"]["name"])
    if depends_on_version(learner["learner_model_param"]["base_score"], objective):
        raise UnsupportedModelError(
            f"XGBoost {xgboost.__version__} may read the base score differently from the version "
            "that wrote the file"
        )
    return booster


def raw_margin(model: Any, X: Any) -> Array:
    """Return XGBoost's own margin.

    Parameters
    ----------
    model : xgboost.Booster or xgboost.XGBModel
        A trained model; a wrapper applies early stopping and its ``missing`` value.
    X : array_like or table of shape (n_rows, n_features)
        The rows; the columns of a table may be in any order.

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)
    """
    wrapped = hasattr(model, "get_booster")
    booster = model.get_booster() if wrapped else model
    best_iteration = booster.attr("best_iteration") if wrapped else None
    # A range that ends at 0 stands for all rounds.
    rounds = (0, 0 if best_iteration is None else int(best_iteration) + 1)
    missing = getattr(model, "missing", None)
    missing = np.nan if missing is None else missing
    rows = _rows_in_order(X, booster.feature_names)
    # In-place prediction needs no DMatrix, but it adds rounding errors to DART.
    if _is_dart(booster):
        margin = _margin_of_matrix(booster, rows, rounds, missing)
    else:
        margin = booster.inplace_predict(
            rows, iteration_range=rounds, predict_type="margin", missing=missing
        )
    margin = np.asarray(margin, dtype=np.float64)
    return margin[:, None] if margin.ndim == 1 else margin


def _rows_in_order(X: Any, names: list[str] | None) -> Any:
    columns = getattr(X, "columns", None)
    if columns is None:
        # Of a sparse matrix, absent entries are missing to XGBoost.
        return X if hasattr(X, "toarray") else np.asarray(X)
    if names is not None and list(columns) != names and set(columns) == set(names):
        return X[names]
    return X


def _is_dart(booster: Any) -> bool:
    configuration = json.loads(booster.save_config())
    return bool(configuration["learner"]["gradient_booster"]["name"] == "dart")


def _margin_of_matrix(booster: Any, rows: Any, rounds: tuple[int, int], missing: float) -> Any:
    import xgboost

    is_array = isinstance(rows, np.ndarray)
    if is_array and rows.dtype.kind == "f" and not np.isinf(missing):
        # A DMatrix refuses infinities; the largest numbers take the same branches.
        largest = np.finfo(np.float32).max
        rows = np.clip(rows, -largest, largest)
    matrix = xgboost.DMatrix(
        rows,
        missing=missing,
        feature_names=booster.feature_names if is_array else None,
        feature_types=booster.feature_types if is_array else None,
        enable_categorical=True,
    )
    return booster.predict(matrix, output_margin=True, iteration_range=rounds)
