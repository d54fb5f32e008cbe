"""Data and models for the demonstration: real tables, and depth-2 boosting on them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DATASETS", "DemoData", "DemoModel", "load_demo_data", "train_demo_model"]

Task = Literal["regression", "classification"]

_SEED = 0
_FOLDS = 5
_N_TREES = 100
_LEARNING_RATE = 0.1
_FOLDER_VARIABLE = "TREEPURIFY_DATA"


@dataclass(frozen=True, eq=False)
class DemoData:
    """A table with a target.

    Parameters
    ----------
    name : str
        Name of the data set.
    X : DataFrame
        The features; text columns are of dtype ``category``.
    y : ndarray
        The target; class numbers for classification.
    task : {"regression", "classification"}
        What is learned.
    target : str
        What the target is, in words.
    """

    name: str
    X: "pd.DataFrame"
    y: npt.NDArray[Any]
    task: Task
    target: str


@dataclass(frozen=True, eq=False)
class DemoModel:
    """A model that was trained on all rows, with its score in cross-validation.

    Parameters
    ----------
    model : object
        The model.
    description : str
        What it is, in words.
    score : float
        R squared for regression, share of right answers for classification: the mean over
        five folds, each scored by a model that was trained on the other four.
    """

    model: Any
    description: str
    score: float


@dataclass(frozen=True)
class _Bundled:
    """A data set that is bundled with scikit-learn."""

    loader: str
    task: Task
    target: str
    options: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class _InFolder:
    """A Parquet file in the folder that the environment variable names."""

    file: str
    column: str
    task: Task
    target: str
    left_out: tuple[str, ...] = ()


_BUNDLED = {
    # Unscaled, so that figures have the units of the measurements.
    "diabetes": _Bundled(
        "load_diabetes", "regression", "progression after one year", (("scaled", False),)
    ),
    "breast_cancer": _Bundled("load_breast_cancer", "classification", "tumour is benign"),
    "wine": _Bundled("load_wine", "classification", "cultivar"),
}
_IN_FOLDER = {
    "california": _InFolder(
        "california_housing", "MedHouseVal", "regression", "median house value, 100 000 dollars"
    ),
    "adult": _InFolder("adult", "income", "classification", "income above 50 000 dollars"),
    "bike": _InFolder(
        "bike_sharing_hour",
        "cnt",
        "regression",
        "bicycles rented in an hour",
        ("instant", "dteday", "casual", "registered"),
    ),
}

DATASETS = (*_BUNDLED, *_IN_FOLDER)


def load_demo_data(name: str) -> DemoData:
    """Return a data set by name.

    Those of scikit-learn are bundled with it. The others are read from the folder that the
    environment variable TREEPURIFY_DATA names; without it, California housing is downloaded
    by scikit-learn.

    Raises
    ------
    InvalidInputError
        If there is no such data set, or its file cannot be read.
    """
    if name in _BUNDLED:
        return _load_bundled(name, _BUNDLED[name])
    if name not in _IN_FOLDER:
        raise InvalidInputError(f"no data set {name!r}; there are {', '.join(DATASETS)}")
    source = _IN_FOLDER[name]
    folder = os.environ.get(_FOLDER_VARIABLE)
    path = Path(folder) / f"{source.file}.parquet" if folder else None
    if path is not None and path.is_file():
        return _load_file(name, source, path)
    if name == "california":
        return _download_california()
    where = f"{path} does not exist" if path else f"{_FOLDER_VARIABLE} is not set"
    raise InvalidInputError(
        f"{where}: the data set {name!r} is read from {source.file}.parquet in the folder that "
        f"{_FOLDER_VARIABLE} names"
    )


def _load_bundled(name: str, source: _Bundled) -> DemoData:
    from sklearn import datasets

    loader: Callable[..., Any] = getattr(datasets, source.loader)
    bunch = loader(as_frame=True, **dict(source.options))
    return DemoData(name, bunch.data, bunch.target.to_numpy(), source.task, source.target)


def _load_file(name: str, source: _InFolder, path: Path) -> DemoData:
    import pandas as pd

    try:
        table = pd.read_parquet(path)
    except ImportError as error:
        raise MissingDependencyError(
            'reading Parquet files needs pyarrow: pip install "treepurify[parquet]"'
        ) from error
    X = table.drop(columns=[source.column, *source.left_out])
    # The public tables write a missing value as a question mark.
    X = X.replace("?", np.nan)
    text = [column for column in X if not pd.api.types.is_numeric_dtype(X[column])]
    X = X.astype(dict.fromkeys(text, "category"))
    target = table[source.column]
    y = target.to_numpy() if source.task == "regression" else pd.factorize(target, sort=True)[0]
    return DemoData(name, X, np.asarray(y), source.task, source.target)


def _download_california() -> DemoData:
    from sklearn.datasets import fetch_california_housing

    source = _IN_FOLDER["california"]
    try:
        bunch = fetch_california_housing(as_frame=True)
    except OSError as error:
        raise InvalidInputError(
            f"scikit-learn could not download California housing ({error}). Set "
            f"{_FOLDER_VARIABLE} to a folder with {source.file}.parquet, or take another data set"
        ) from error
    return DemoData("california", bunch.data, bunch.target.to_numpy(), source.task, source.target)


def train_demo_model(data: DemoData) -> DemoModel:
    """Train boosted trees of depth two, and score such models by cross-validation.

    XGBoost where it is installed, else scikit-learn's gradient boosting.

    Raises
    ------
    MissingDependencyError
        If the data have categories or missing values and XGBoost is not installed.
    """
    from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

    make = _xgboost_model if find_spec("xgboost") is not None else _sklearn_model
    model, library = make(data)
    split = StratifiedKFold if data.task == "classification" else KFold
    folds = split(_FOLDS, shuffle=True, random_state=_SEED)
    score = float(np.mean(cross_val_score(model, data.X, data.y, cv=folds)))
    model.fit(data.X, data.y)
    return DemoModel(model, f"{library}, {_N_TREES} rounds of trees of depth 2", score)


def _xgboost_model(data: DemoData) -> tuple[Any, str]:
    import xgboost

    kind = xgboost.XGBRegressor if data.task == "regression" else xgboost.XGBClassifier
    model = kind(
        n_estimators=_N_TREES,
        max_depth=2,
        learning_rate=_LEARNING_RATE,
        tree_method="hist",
        enable_categorical=True,
        random_state=_SEED,
    )
    return model, f"XGBoost {xgboost.__version__}"


def _sklearn_model(data: DemoData) -> tuple[Any, str]:
    import sklearn
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor

    if data.X.isna().any(axis=None) or any(str(dtype) == "category" for dtype in data.X.dtypes):
        raise MissingDependencyError(
            f"the data set {data.name!r} has categories or missing values, and the model for it "
            'needs XGBoost: pip install "treepurify[xgboost]"'
        )
    regression = data.task == "regression"
    kind = GradientBoostingRegressor if regression else GradientBoostingClassifier
    model = kind(
        n_estimators=_N_TREES, max_depth=2, learning_rate=_LEARNING_RATE, random_state=_SEED
    )
    return model, f"scikit-learn {sklearn.__version__} gradient boosting"
