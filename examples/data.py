"""
Data sets of the examples and benchmarks
========================================

Reads the data sets that the paper examples and the benchmarks share. A data set is looked for
as ``<name>.parquet`` in the folder that the environment variable ``TREEPURIFY_DATA`` names, or
in ``../shared/data`` next to the repository; California Housing also through scikit-learn, which
downloads it, and SUPPORT2 in the package SurvSet. ``fetch_data.py`` writes such a folder. A
data set that is not available raises `DataUnavailableError` with the reason.
"""

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

# Names in SurvSet to names in SUPPORT2.
SUPPORT2_FEATURES = {
    f"{kind}_{name}": name
    for kind, names in {
        "num": "age num_co scoma meanbp wblc hrt resp temp pafi alb bili crea sod ph glucose bun"
        " urine",
        "fac": "sex dzgroup diabetes dementia ca",
    }.items()
    for name in names.split()
}
REPOSITORY = Path(__file__).resolve().parents[1]


class DataUnavailableError(RuntimeError):
    """A data set is not on this machine and cannot be fetched."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """Features and target of one learning task.

    Parameters
    ----------
    name : str
        Name of the data set.
    X : DataFrame
        Features; columns of labels have dtype ``category``, missing values are NaN.
    y : ndarray of shape (n_rows,)
        Target: numbers, or 0 and 1.
    is_binary : bool
        Whether the target is 0 or 1.
    """

    name: str
    X: pd.DataFrame
    y: np.ndarray
    is_binary: bool


def read_table(name: str) -> pd.DataFrame:
    """Return a data set as it is stored.

    Raises
    ------
    DataUnavailableError
        If it is neither on this machine nor to be fetched.
    """
    folder = Path(os.environ.get("TREEPURIFY_DATA", REPOSITORY.parent / "shared" / "data"))
    path = folder / f"{name}.parquet"
    if path.exists():
        return pd.read_parquet(path)
    if name == "california_housing":
        return _fetch_california_housing(path)
    raise DataUnavailableError(
        f"{path} does not exist; set TREEPURIFY_DATA to its folder, or write it there with"
        f" python examples/fetch_data.py {folder} {name}"
    )


def _fetch_california_housing(path: Path) -> pd.DataFrame:
    from sklearn.datasets import fetch_california_housing

    try:
        return fetch_california_housing(as_frame=True).frame
    except OSError as error:
        raise DataUnavailableError(
            f"{path} does not exist, and scikit-learn could not download the data: {error}"
        ) from error


def dota2() -> pd.DataFrame:
    """Return both files of Dota2: column ``win`` and the heroes' columns, -1, 0 or 1."""
    table = pd.concat([read_table("dota2_train"), read_table("dota2_test")], ignore_index=True)
    return table[["win", *(name for name in table if name.startswith("hero"))]]


def adult() -> DataSet:
    """Census income: does a person earn more than 50 000 dollars?"""
    table = read_table("adult")
    return _data_set("adult", table.drop(columns="income"), table["income"] == ">50K", binary=True)


def bike_sharing_hour() -> DataSet:
    """Bicycles rented in an hour; the calendar's names are labels, not numbers."""
    table = read_table("bike_sharing_hour")
    X = table.drop(columns=["instant", "dteday", "casual", "registered", "cnt"])
    labels = ["season", "weekday", "weathersit"]
    return _data_set("bike_sharing_hour", X.astype(dict.fromkeys(labels, str)), table["cnt"])


def california_housing() -> DataSet:
    """Median value of the houses of a district, in 100 000 dollars."""
    table = read_table("california_housing")
    X = table.drop(columns="MedHouseVal")
    return _data_set("california_housing", X, table["MedHouseVal"])


def compas_two_years() -> DataSet:
    """Recidivism within two years, on the rows and features that ProPublica analysed."""
    X, targets = compas()
    return _data_set("compas_two_years", X, targets["two_year_recid"], binary=True)


def compas() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the COMPAS features and both targets, after ProPublica's filter (6172 rows).

    Returns
    -------
    X : DataFrame
        Nine features; `length_of_stay` is the number of days in jail, from its two dates.
    targets : DataFrame
        Columns ``two_year_recid`` (0 or 1) and ``decile_score`` (1 to 10).
    """
    table = read_table("compas_two_years")
    kept = table["days_b_screening_arrest"].between(-30, 30)
    kept &= (table["is_recid"] != -1) & (table["c_charge_degree"] != "O")
    kept &= table["score_text"] != "N/A"
    table = table[kept].reset_index(drop=True)
    stay = pd.to_datetime(table["c_jail_out"]) - pd.to_datetime(table["c_jail_in"])
    table["length_of_stay"] = stay.dt.total_seconds() // 86400
    features = [
        "age",
        "sex",
        "race",
        "priors_count",
        "c_charge_degree",
        "length_of_stay",
        "juv_fel_count",
        "juv_misd_count",
        "juv_other_count",
    ]
    return _with_categories(table[features]), table[["two_year_recid", "decile_score"]]


def mushroom() -> DataSet:
    """Is a mushroom poisonous? Every feature is a label."""
    table = read_table("mushroom")
    return _data_set("mushroom", table.drop(columns="class"), table["class"] == "p", binary=True)


def support2() -> DataSet:
    """Death within 180 days of 9105 seriously ill patients, who were all followed for longer.

    Features are what was known and measured on the third day in hospital. Left out are forecasts of
    survival, scores of the other features, orders of the physicians, and what came later.
    """
    table = _support2_table()
    died = (table["event"] == 1) & (table["time"] <= 180)
    X = table[list(SUPPORT2_FEATURES)].rename(columns=SUPPORT2_FEATURES)
    labels = [own for name, own in SUPPORT2_FEATURES.items() if name.startswith("fac_")]
    return _data_set("support2", X.astype(dict.fromkeys(labels, str)), died, binary=True)


def _support2_table() -> pd.DataFrame:
    try:
        from SurvSet.data import SurvLoader
    except ImportError as error:
        raise DataUnavailableError("SUPPORT2 comes with a package: pip install survset") from error
    with warnings.catch_warnings():
        # The package stores a pickle of an older NumPy.
        warnings.simplefilter("ignore", DeprecationWarning)
        return SurvLoader().load_dataset("support2")["df"]


DATA_SETS: dict[str, Callable[[], DataSet]] = {
    "adult": adult,
    "bike_sharing_hour": bike_sharing_hour,
    "california_housing": california_housing,
    "compas_two_years": compas_two_years,
    "mushroom": mushroom,
}


def _data_set(name: str, X: pd.DataFrame, y: pd.Series, *, binary: bool = False) -> DataSet:
    target = y.to_numpy().astype(np.int64 if binary else np.float64)
    return DataSet(name, _with_categories(X), target, binary)


def _with_categories(X: pd.DataFrame) -> pd.DataFrame:
    """Return the features with missing values marked and labels as categories."""
    marked = X.replace("?", np.nan)
    labels = [name for name in marked if not pd.api.types.is_numeric_dtype(marked[name])]
    return marked.astype(dict.fromkeys(labels, "category"))
