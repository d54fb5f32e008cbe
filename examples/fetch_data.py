"""
Fetch the data sets of the reproductions
========================================

Downloads data sets from where their authors or their archive keep them, brings them into the form
that the scripts read, and compares the SHA-256 of their values with those behind the stored tables
before it writes them. Nothing else in this repository calls it. Run:
``python examples/fetch_data.py FOLDER [NAME ...]``, then set ``TREEPURIFY_DATA`` to the folder.
"""

import argparse
import hashlib
import io
import sys
import urllib.request
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from examples.data import DataUnavailableError

UCI = "https://archive.ics.uci.edu/static/public"
TIMEOUT = 60
# Names of columns, where a file has none.
# fmt: off
COLUMNS = {
    "adult": (
        "age", "workclass", "fnlwgt", "education", "education_num", "marital_status",
        "occupation", "relationship", "race", "sex", "capital_gain", "capital_loss",
        "hours_per_week", "native_country", "income",
    ),
    "car_evaluation": (
        "buying", "maint", "doors", "persons", "lug_boot", "safety", "class",
    ),
    "nursery": (
        "parents", "has_nurs", "form", "children", "housing", "finance", "social", "health",
        "class",
    ),
    "mushroom": (
        "class", "cap_shape", "cap_surface", "cap_color", "bruises", "odor",
        "gill_attachment", "gill_spacing", "gill_size", "gill_color", "stalk_shape",
        "stalk_root", "stalk_surface_above_ring", "stalk_surface_below_ring",
        "stalk_color_above_ring", "stalk_color_below_ring", "veil_type", "veil_color",
        "ring_number", "ring_type", "spore_print_color", "population", "habitat",
    ),
    "poker_hand_train": (
        "S1", "C1", "S2", "C2", "S3", "C3", "S4", "C4", "S5", "C5", "CLASS",
    ),
    "dota2_train": (
        "win", "cluster_id", "game_mode", "game_type",
        *(f"hero_{number}" for number in range(1, 114)),
    ),
    "pima_diabetes": (
        "Pregnancies", "Glucose", "BloodPressure", "SkinThickness", "Insulin", "BMI",
        "DiabetesPedigreeFunction", "Age", "Outcome",
    ),
    "boston_housing": (
        "CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE", "DIS", "RAD", "TAX", "PTRATIO",
        "B", "LSTAT", "MEDV",
    ),
}
# fmt: on
# Names, dates of birth and case numbers.
IDENTIFIERS = ("name", "first", "last", "dob", "c_case_number", "r_case_number", "vr_case_number")
NOT_FETCHED = {
    "connect4": f"{UCI}/26/connect+4.zip has it as a .Z file, which Python cannot unpack",
    "superconductivity_subset": f"the tables rest on a third of the rows of {UCI}/464/"
    "superconductivty+data.zip, which no rule gives",
}


@dataclass(frozen=True)
class Source:
    """Where a data set comes from.

    Parameters
    ----------
    sha256 : str
        Of its values, see `digest`.
    fetch : callable
        Downloads it and returns it as a table.
    """

    sha256: str
    fetch: Callable[[], pd.DataFrame]


def digest(table: pd.DataFrame) -> str:
    """Return the SHA-256 of names and values, numbers to twelve digits.

    Files that say the same in other ways, such as 6 and 6.0, have the same.
    """
    text = table.to_csv(index=False, float_format="%.12g", lineterminator="\n")
    return hashlib.sha256(text.encode()).hexdigest()


def read_adult(train: bytes, test: bytes) -> pd.DataFrame:
    """Join both files; the second has a line above it and a full stop behind each class."""
    parts = [
        pd.read_csv(io.BytesIO(content), names=COLUMNS["adult"], skipinitialspace=True, skiprows=n)
        for content, n in ((train, 0), (test, 1))
    ]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(income=table["income"].str.rstrip("."))


def read_mushroom(content: bytes) -> pd.DataFrame:
    """Read the mushrooms, with their class behind all features."""
    table = _named("mushroom", content)
    return table[[*table.columns[1:], "class"]]


def read_boston(content: bytes) -> pd.DataFrame:
    """Read the houses: 22 lines of text, then two lines for each."""
    numbers = np.array(content.decode("latin-1").split("\n", 22)[22].split(), dtype=float)
    return pd.DataFrame(numbers.reshape(-1, 14), columns=COLUMNS["boston_housing"])


def read_compas(content: bytes) -> pd.DataFrame:
    """Read the defendants without what identifies them."""
    table = pd.read_csv(io.BytesIO(content)).drop(columns=list(IDENTIFIERS))
    return table.rename(columns=lambda name: name.replace(".", "_"))


def read_pima(table: pd.DataFrame) -> pd.DataFrame:
    """Name the columns of the copy on OpenML, and number its classes."""
    named = table.set_axis(COLUMNS["pima_diabetes"], axis=1)
    return named.assign(Outcome=(named["Outcome"] == "tested_positive").astype(int))


def read_mnist(table: pd.DataFrame) -> pd.DataFrame:
    """Name the columns of the copy on OpenML; its first 60 000 rows are those for training."""
    named = table.head(60_000).set_axis([*(f"p{number}" for number in range(784)), "label"], axis=1)
    return named.astype("uint8")


def _named(name: str, content: bytes) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(content), names=COLUMNS[name])


def _csv(content: bytes) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(content))


def _download(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
        return answer.read()


def _zipped(archive: str, *members: str) -> list[bytes]:
    with zipfile.ZipFile(io.BytesIO(_download(f"{UCI}/{archive}.zip"))) as files:
        return [files.read(member) for member in members]


def _openml(number: int) -> pd.DataFrame:
    from sklearn.datasets import fetch_openml

    return fetch_openml(data_id=number, as_frame=True).frame


def _california() -> pd.DataFrame:
    from sklearn.datasets import fetch_california_housing

    return fetch_california_housing(as_frame=True).frame


SOURCES = {
    "adult": Source(
        "6f519c67ccd70e0c9d4f616b15d338aa6e44b336a20962f5010fb01bee0d12d4",
        lambda: read_adult(*_zipped("2/adult", "adult.data", "adult.test")),
    ),
    "bike_sharing_hour": Source(
        "b03a2d02e8c10f435c43c7f0b358b7e34a003afea53dbc37f0183f2763295133",
        lambda: _csv(*_zipped("275/bike+sharing+dataset", "hour.csv")),
    ),
    "boston_housing": Source(
        "79ac716620024011b03c0c44d2bf99069b8173649181926d9109c25475a3804c",
        lambda: read_boston(_download("http://lib.stat.cmu.edu/datasets/boston")),
    ),
    "california_housing": Source(
        "32cc65549393c0a99de34b186d31b371927f8015581beb872d48ef5c56360c07", _california
    ),
    "car_evaluation": Source(
        "0023b86e0dd3502aaa0e4a610ef4d8aebbba7ff40f53fa7c2f0543c68bee5114",
        lambda: _named("car_evaluation", *_zipped("19/car+evaluation", "car.data")),
    ),
    "compas_two_years": Source(
        "734c37ee4a909ff909d5f4de05d1dac57b7eac74450ef645a333922915b872a3",
        lambda: read_compas(
            _download(
                "https://raw.githubusercontent.com/propublica/compas-analysis/master/"
                "compas-scores-two-years.csv"
            )
        ),
    ),
    "dota2_train": Source(
        "f51de7a41d2d02252f520cd3437c733f5dd0f9da37d72ac207f72174823887a6",
        lambda: _named("dota2_train", *_zipped("367/dota2+games+results", "dota2Train.csv")),
    ),
    "electrical_grid": Source(
        "eb4b10d1f02608d62acd4d25a552031461b9fb41d4881665c4309bfa5a164a16",
        lambda: _csv(
            *_zipped("471/electrical+grid+stability+simulated+data", "Data_for_UCI_named.csv")
        ),
    ),
    "mnist_train": Source(
        "7fad01fcdad1175ea18e99f0b719238776c3ee9648af40c9d7c51fd6edab4dcd",
        lambda: read_mnist(_openml(554)),
    ),
    "mushroom": Source(
        "0eaa019564ad2f7bcedcec8f798a99325c9e4b36264fc6c4a949a08578409fb5",
        lambda: read_mushroom(*_zipped("73/mushroom", "agaricus-lepiota.data")),
    ),
    "nursery": Source(
        "cfd50f92b8b65b8d398670ce13f1e78fbc0d452ff26906de8b4497f909716951",
        lambda: _named("nursery", *_zipped("76/nursery", "nursery.data")),
    ),
    "pima_diabetes": Source(
        "bf81d06e0c0512662862248241ab46d7c29258c6ceaad32f3cab56b52a17fdab",
        lambda: read_pima(_openml(37)),
    ),
    "poker_hand_train": Source(
        "ea6214ccd71078190f1e1544828241bbe7b39491b3641b57a9ca5b84fc86d53d",
        lambda: _named(
            "poker_hand_train", *_zipped("158/poker+hand", "poker-hand-training-true.data")
        ),
    ),
}


def fetch(name: str) -> pd.DataFrame:
    """Return a data set whose values are those behind the stored tables.

    Raises
    ------
    DataUnavailableError
        If it cannot be fetched, or its values are others.
    """
    if name not in SOURCES:
        reason = NOT_FETCHED.get(name, f"there are {', '.join(SOURCES)}")
        raise DataUnavailableError(f"{name} cannot be fetched: {reason}")
    source = SOURCES[name]
    try:
        table = source.fetch()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise DataUnavailableError(f"{name} could not be downloaded: {error}") from error
    found = digest(table)
    if found != source.sha256:
        raise DataUnavailableError(
            f"{name} was downloaded, and is not written: its values have the SHA-256 {found}, and"
            f" those behind the stored tables have {source.sha256}"
        )
    return table


def main(arguments: Sequence[str] | None = None) -> None:
    """Write each data set to the folder, or say why not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[1])
    parser.add_argument("folder", type=Path, help="where Parquet files go")
    parser.add_argument("names", nargs="*", help=f"any of {', '.join(SOURCES)}; all if none")
    given = parser.parse_args(arguments)
    given.folder.mkdir(parents=True, exist_ok=True)
    for name in given.names or SOURCES:
        try:
            fetch(name).to_parquet(given.folder / f"{name}.parquet", index=False)
        except DataUnavailableError as reason:
            print(f"left out: {reason}")
        else:
            print(f"{name}: written")


if __name__ == "__main__":
    main()
