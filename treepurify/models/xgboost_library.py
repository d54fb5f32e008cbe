"""Ask XGBoost itself: load its files and predict with them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from treepurify.errors import UnsupportedModelError
from treepurify.models.xgboost_objectives import depends_on_version, find_objective
from treepurify.rows.columns import Columns
from treepurify.rows.tables import is_table
from treepurify.typing import Array

__all__ = ["live_constraints", "load_file", "raw_margin"]


def live_constraints(booster: Any, n_features: int) -> tuple[int, ...]:
    """Return the monotone constraint of each feature, which only a live booster knows.

    Parameters
    ----------
    booster : xgboost.Booster
        A trained booster. One that was loaded from a file has forgotten its constraints.
    n_features : int
        Number of features, since the list of XGBoost may be shorter.

    Returns
    -------
    tuple of int
        1, -1 or 0 for each feature; empty without constraints.
    """
    trainer = json.loads(booster.save_config()).get("learner", {}).get("gradient_booster", {})
    # DART nests it one level deeper up to 3.2.
    trainer = trainer.get("gbtree", trainer)
    text = trainer.get("tree_train_param", {}).get("monotone_constraints", "()")
    signs = [int(sign) for sign in text.strip("()").split(",") if sign.strip()]
    return (*signs, *[0] * (n_features - len(signs))) if signs else ()


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


def raw_margin(model: Any, X: Any, read: Callable[[Any], Columns]) -> Array:
    """Return XGBoost's own margin.

    Parameters
    ----------
    model : xgboost.Booster or xgboost.XGBModel
        A trained model; a wrapper applies early stopping and its ``missing`` value.
    X : array_like or table of shape (n_rows, n_features)
        The rows; the columns of a table may be in any order.
    read : callable
        Reads rows into the columns of the parsed model.

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
    rows = _library_rows(X, booster.feature_names, read)
    # In-place prediction needs no DMatrix, but it adds rounding errors to DART.
    if _is_dart(booster):
        margin = _margin_of_matrix(booster, rows, rounds, missing)
    else:
        margin = booster.inplace_predict(
            rows, iteration_range=rounds, predict_type="margin", missing=missing
        )
    margin = np.asarray(margin, dtype=np.float64)
    return margin[:, None] if margin.ndim == 1 else margin


def _library_rows(X: Any, names: list[str] | None, read: Callable[[Any], Columns]) -> Any:
    """Return rows in a form that XGBoost reads the way the parsed model does."""
    # Of a sparse matrix, absent entries are missing to XGBoost.
    if hasattr(X, "toarray"):
        return X
    if hasattr(X, "iloc") and all(map(_is_read_alike, X.dtypes)):
        columns = list(X.columns)
        return X[names] if names is not None and set(columns) == set(names) else X
    if not is_table(X) and (array := np.asarray(X)).dtype.kind in "biuf":
        # XGBoost takes numbers of the other byte order for those that their bytes are in its own.
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    # XGBoost refuses text, and other tables it reads by rules of its own.
    return read(X).matrix()


def _is_read_alike(dtype: Any) -> bool:
    return hasattr(dtype, "categories") or getattr(dtype, "kind", "O") in "biuf"


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
