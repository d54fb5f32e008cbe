"""Data for the demonstration: real tables, of which one comes with the package."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from treepurify.arguments import check_choice

if TYPE_CHECKING:
    import pandas as pd

Task = Literal["regression", "classification"]


@dataclass(frozen=True, eq=False, repr=False)
class DemoData:
    """A table with a target.

    Parameters
    ----------
    name : str
        Name of the data set.
    X : DataFrame
        The features.
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


_BUNDLED = {
    # Unscaled, so that figures have the units of the measurements.
    "diabetes": _Bundled(
        "load_diabetes", "regression", "progression after one year", (("scaled", False),)
    ),
    "breast_cancer": _Bundled("load_breast_cancer", "classification", "tumour is benign"),
    "wine": _Bundled("load_wine", "classification", "cultivar"),
}

DATASETS = ("bike", *_BUNDLED)


def load_demo_data(name: str) -> DemoData:
    """Return a data set by name.

    ``bike`` comes with this package, ``diabetes``, ``breast_cancer`` and ``wine`` with
    scikit-learn.

    Raises
    ------
    InvalidInputError
        If there is no such data set.
    """
    check_choice("the data set", name, DATASETS)
    return load_bikes() if name == "bike" else _load_bundled(name, _BUNDLED[name])


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
