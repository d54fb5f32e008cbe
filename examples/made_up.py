"""
Made-up tables for pages of the gallery
=======================================

If a data set is missing on the machine that builds the gallery, a table of random numbers with the
same columns is used, so that every page runs and draws. Its rows say nothing about the world, and
the text of a page does not apply to them.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd

from examples.data import DataSet, DataUnavailableError

_N_ROWS = 3000


def or_made_up(load: Callable[[], DataSet]) -> DataSet:
    """Return a data set, or, with a printed line, a made-up one with the same columns.

    Parameters
    ----------
    load : callable
        One of the functions of `examples.data` that return a `DataSet`.
    """
    try:
        return load()
    except DataUnavailableError as error:
        print(f"a made-up table with the same columns is used: {error}")
        return MADE_UP[load.__name__]()


def _adult() -> DataSet:
    draw = np.random.default_rng(0)
    schools = ["HS-grad", "Some-college", "Bachelors", "Masters", "Doctorate"]
    years = draw.choice(5, _N_ROWS, p=[0.4, 0.25, 0.2, 0.1, 0.05])
    sex = draw.choice(["Female", "Male"], _N_ROWS, p=[0.35, 0.65])
    age = draw.integers(17, 80, _N_ROWS)
    is_married = draw.uniform(size=_N_ROWS) < np.clip((age - 17) / 60, 0, 0.7)
    partner = np.where(sex == "Male", "Husband", "Wife")
    gain = np.where(draw.uniform(size=_N_ROWS) < 0.1, draw.integers(1, 20, _N_ROWS) * 1000, 0)
    loss = np.where((gain == 0) & (draw.uniform(size=_N_ROWS) < 0.05), 1900, 0)
    hours = np.clip(draw.normal(38 + 5 * (sex == "Male"), 10), 5, 90).round().astype(int)
    X = pd.DataFrame(
        {
            "age": age,
            "workclass": draw.choice(["Private", "State-gov", "Self-emp-inc"], _N_ROWS),
            "fnlwgt": draw.integers(20_000, 400_000, _N_ROWS),
            "education": np.array(schools)[years],
            "education_num": np.array([9, 10, 13, 14, 16])[years],
            "marital_status": np.where(is_married, "Married-civ-spouse", "Never-married"),
            "occupation": draw.choice(["Exec-managerial", "Sales", "Craft-repair"], _N_ROWS),
            "relationship": np.where(is_married, partner, "Not-in-family"),
            "race": draw.choice(["White", "Black"], _N_ROWS, p=[0.85, 0.15]),
            "sex": sex,
            "capital_gain": gain,
            "capital_loss": loss,
            "hours_per_week": hours,
            "native_country": draw.choice(["United-States", "Mexico"], _N_ROWS, p=[0.9, 0.1]),
        }
    )
    score = 0.05 * (age - 40) - 0.0015 * (age - 50) ** 2 + 0.5 * years + 1.5 * is_married
    score = score + 0.04 * (hours - 40) + gain / 4000 + loss / 2000 - 1.8
    return _binary("adult", X, score, draw)


def _bike_sharing_hour() -> DataSet:
    draw = np.random.default_rng(0)
    day = draw.integers(0, 731, _N_ROWS)
    month = day % 365 // 31 + 1
    weekday = day % 7
    hour = draw.integers(0, 24, _N_ROWS)
    is_holiday = draw.uniform(size=_N_ROWS) < 0.15
    temperature = np.round(0.5 - 0.3 * np.cos(2 * np.pi * day / 365), 2)
    X = pd.DataFrame(
        {
            "season": (month - 1) // 3 + 1,
            "yr": day // 366,
            "mnth": month,
            "hr": hour,
            "holiday": is_holiday.astype(int),
            "weekday": weekday,
            "workingday": ((weekday % 6 > 0) & ~is_holiday).astype(int),
            "weathersit": draw.choice([1, 2, 3], _N_ROWS, p=[0.65, 0.25, 0.1]),
            "temp": temperature,
            "atemp": np.round(0.9 * temperature + 0.05, 3),
            "hum": np.round(draw.uniform(0.2, 1.0, _N_ROWS), 2),
            "windspeed": np.round(draw.gamma(2.0, 0.1, _N_ROWS), 2),
        }
    )
    commuters = np.exp(-((hour - 8) ** 2) / 4) + np.exp(-((hour - 17) ** 2) / 6)
    leisure = np.exp(-((hour - 14) ** 2) / 20)
    mean = np.where(X["workingday"] == 1, 300 * commuters, 250 * leisure) + 20
    y = draw.poisson(mean * (1 + 0.5 * X["yr"]) * (0.4 + temperature)).astype(float)
    labels = ["season", "weekday", "weathersit"]
    X[labels] = X[labels].astype(str).astype("category")
    return DataSet("bike_sharing_hour, made up", X, y, is_binary=False)


def _california_housing() -> DataSet:
    draw = np.random.default_rng(0)
    rooms = draw.gamma(20.0, 0.27, _N_ROWS)
    latitude = draw.choice([34.0, 37.8], _N_ROWS) + draw.normal(size=_N_ROWS)
    X = pd.DataFrame(
        {
            "MedInc": draw.gamma(4.0, 1.0, _N_ROWS),
            "HouseAge": draw.integers(1, 53, _N_ROWS).astype(float),
            "AveRooms": rooms,
            "AveBedrms": rooms / 5 + 0.1 * draw.normal(size=_N_ROWS),
            "Population": draw.gamma(2.0, 700.0, _N_ROWS).round(),
            "AveOccup": draw.gamma(12.0, 0.25, _N_ROWS),
            "Latitude": latitude,
            "Longitude": -85.0 - latitude + draw.normal(size=_N_ROWS),
        }
    )
    y = 0.4 * X["MedInc"] + 0.01 * X["HouseAge"] - 0.3 * X["AveOccup"] + 0.03 * rooms + 1.0
    y = np.clip(y + 0.4 * draw.normal(size=_N_ROWS), 0.15, 5.0)
    return DataSet("california_housing, made up", X, y.to_numpy(), is_binary=False)


def _compas_two_years() -> DataSet:
    draw = np.random.default_rng(0)
    age, priors = draw.integers(18, 70, _N_ROWS), draw.poisson(3.0, _N_ROWS)
    X = pd.DataFrame(
        {
            "age": age,
            "sex": draw.choice(["Female", "Male"], _N_ROWS, p=[0.2, 0.8]),
            "race": draw.choice(["African-American", "Caucasian", "Hispanic"], _N_ROWS),
            "priors_count": priors,
            "c_charge_degree": draw.choice(["F", "M"], _N_ROWS, p=[0.65, 0.35]),
            "length_of_stay": draw.geometric(0.08, _N_ROWS).astype(float),
            "juv_fel_count": draw.poisson(0.1, _N_ROWS),
            "juv_misd_count": draw.poisson(0.1, _N_ROWS),
            "juv_other_count": draw.poisson(0.1, _N_ROWS),
        }
    )
    return _binary("compas_two_years", X, 0.3 * (priors - 3) - 0.04 * (age - 35), draw)


def _binary(name: str, X: pd.DataFrame, score: pd.Series, draw: np.random.Generator) -> DataSet:
    """Return a data set whose log-odds are a score, with labels as categories."""
    y = (draw.logistic(size=_N_ROWS) < np.asarray(score)).astype(np.int64)
    labels = [label for label in X if not pd.api.types.is_numeric_dtype(X[label])]
    X = X.astype(dict.fromkeys(labels, "category"))
    return DataSet(f"{name}, made up", X, y, is_binary=True)


MADE_UP: dict[str, Callable[[], DataSet]] = {
    "adult": _adult,
    "bike_sharing_hour": _bike_sharing_hour,
    "california_housing": _california_housing,
    "compas_two_years": _compas_two_years,
}
