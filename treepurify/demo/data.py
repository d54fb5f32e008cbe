"""Data for the demonstration: real tables, of which one comes with the package."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.errors import InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DATASETS", "DemoData", "load_demo_data"]

Task = Literal["regression", "classification"]

_FOLDER_VARIABLE = "TREEPURIFY_DATA"


@dataclass(frozen=True, eq=False, repr=False)
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

    def __repr__(self) -> str:
        """Return what it is about and its size, not the rows."""
        rows, features = self.X.shape
        return f"{self.name}: {rows} rows, {features} features; target: {self.target}"


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
}

DATASETS = ("bike", *_BUNDLED, *_IN_FOLDER)


def load_demo_data(name: str) -> DemoData:
    """Return a data set by name.

    ``bike`` comes with this package, ``diabetes``, ``breast_cancer`` and ``wine`` with
    scikit-learn. The others are read from the folder that the environment variable
    TREEPURIFY_DATA names; without it, California housing is downloaded by scikit-learn.

    Raises
    ------
    InvalidInputError
        If there is no such data set, or its file cannot be read.
    """
    if name == "bike":
        return load_bikes()
    if name in _BUNDLED:
        return _load_bundled(name, _BUNDLED[name])
    if name not in _IN_FOLDER:
        raise InvalidInputError(f"unknown data set {name!r}; available are {', '.join(DATASETS)}")
    source = _IN_FOLDER[name]
    folder = os.environ.get(_FOLDER_VARIABLE)
    path = Path(folder) / f"{source.file}.parquet" if folder else None
    if path is not None and path.is_file():
        return _load_file(name, source, path)
    if name == "california":
        return _download_california()
    where = f"{path} does not exist" if path else f"{_FOLDER_VARIABLE} is not set"
    raise InvalidInputError(
        f"the data set {name!r} was not found ({where}): set {_FOLDER_VARIABLE} to the folder that "
        f"contains {source.file}.parquet"
    )


def load_bikes() -> DemoData:
    """Return two years of bicycle rentals, hour by hour, as shipped in ``bike_sharing.csv.gz``.

    Source: Fanaee-T and Gama, Bike Sharing, UCI Machine Learning Repository 275 (2013),
    licensed under CC BY 4.0. Columns are renamed here, and weather is in degrees Celsius, per
    cent and kilometres per hour; the index, the date and the two parts of the total are left out.
    """
    import pandas as pd

    with as_file(files("treepurify.demo") / "bike_sharing.csv.gz") as path:
        table = pd.read_csv(path)
    rentals = table.pop("rentals").to_numpy(np.float64)
    return DemoData("bike", table, rentals, "regression", "bicycles rented in an hour")


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
            f"{_FOLDER_VARIABLE} to a folder with {source.file}.parquet, or choose another data set"
        ) from error
    return DemoData("california", bunch.data, bunch.target.to_numpy(), source.task, source.target)
