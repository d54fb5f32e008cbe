"""One prediction starts from a row that exists, or says that it may not."""

import json

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.ensemble import GradientBoostingRegressor

import treepurify as tp
from treepurify.report import write_html
from treepurify.report.payload import make_payload


def rows():
    """Days of the week, of which only the first five are worked on."""
    rng = np.random.default_rng(0)
    day = rng.integers(0, 7, 600)
    # Saturday is the most frequent day, and most days are worked on: never both.
    day[:140] = 5
    return pd.DataFrame({"day": day, "work": (day < 5).astype(float), "hour": rng.normal(size=600)})


@pytest.fixture(scope="module")
def d():
    X = rows()
    y = X["day"] + 2 * X["work"] * (X["day"] == 2) + np.round(X["hour"])
    model = GradientBoostingRegressor(n_estimators=60, max_depth=2, random_state=0)
    return tp.purify(model.fit(X, y), X, weights="empirical", progress=False)


def cells(d, row):
    return [np.searchsorted(d[j].axes[0].cuts, row[j], side="right") for j in range(3)]


def test_the_frequent_cells_alone_would_be_impossible(d):
    day, work = (int(np.argmax(d[name].mass)) for name in ("day", "work"))
    X = rows()
    at_day = np.searchsorted(d["day"].axes[0].cuts, X["day"], side="right") == day
    at_work = np.searchsorted(d["work"].axes[0].cuts, X["work"], side="right") == work
    assert not np.any(at_day & at_work)


def test_it_starts_at_the_cell_that_most_rows_share(d):
    payload = make_payload(d)
    start = json.loads(payload.text)["start"]
    assert start["example"] == -1
    own = [tuple(cells(d, row)) for row in rows().to_numpy()]
    counts = {cell: own.count(cell) for cell in own}
    assert counts[tuple(cells(d, start["row"]))] == max(counts.values())
    assert f"({max(counts.values()) / 600:.2%} of the data)" in payload.start


def test_it_starts_at_a_central_example(d):
    X = rows()
    frame = pd.DataFrame({"day": [0, 3, 6], "work": [1.0, 1.0, 0.0], "hour": [-9.0, 0.1, 9.0]})
    payload = make_payload(d, X=frame)
    assert json.loads(payload.text)["start"] == {"example": 1, "row": None}
    chosen = json.loads(make_payload(d, X=X.iloc[:50]).text)["start"]["example"]
    assert abs(X["hour"].iloc[:50].rank(pct=True).iloc[chosen] - 0.5) < 0.25


def test_missing_values_and_categories_can_be_where_it_starts():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"kind": pd.Categorical(["b"] * 80 + ["a"] * 20), "age": rng.normal(size=100)})
    X.loc[:60, "age"] = np.nan
    y = 3 * (X["kind"] == "a") + X["age"].fillna(0)
    model = xgboost.XGBRegressor(n_estimators=5, max_depth=2, enable_categorical=True, n_jobs=1)
    d = tp.purify(model.fit(X, y), X, weights="empirical", progress=False)
    assert json.loads(make_payload(d).text)["start"]["row"] == [1.0, None]


def test_without_rows_it_says_that_the_start_may_not_exist(d, tmp_path):
    d.save(tmp_path / "d.tpz")
    loaded = tp.load(tmp_path / "d.tpz")
    assert json.loads(make_payload(loaded).text)["start"] == {"example": -1, "row": None}
    page = write_html(loaded, tmp_path / "d.html", top=0).read_text(encoding="utf-8")
    assert "combination may not occur" in page
