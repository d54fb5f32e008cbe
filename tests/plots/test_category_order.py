"""Categories that have an order keep it, in every figure and in the report."""

import numpy as np
import pandas as pd
import pytest
import xgboost

import treepurify as tp
from treepurify import plots
from treepurify.plots.category_order import given_order

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
GRADES = ["Fair", "Good", "Very Good", "Ideal"]
COLORS = ["blue", "green", "red"]


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {
            # As pandas makes them: sorted by name.
            "month": pd.Categorical(rng.choice(MONTHS, 900)),
            "day": pd.Categorical(rng.choice(DAYS, 900)),
            "grade": pd.Categorical(rng.choice(GRADES, 900), GRADES, ordered=True),
            "color": pd.Categorical(rng.choice(COLORS, 900)),
        }
    )
    X["size"] = rng.normal(size=900)
    return X


@pytest.fixture(scope="module")
def y(X):
    rng = np.random.default_rng(1)
    parts = {name: rng.normal(size=X[name].nunique()) for name in X if name != "size"}
    effects = sum(part[X[name].cat.codes] for name, part in parts.items())
    return effects * (1 + 0.3 * X["size"])


@pytest.fixture(scope="module")
def d(X, y):
    model = xgboost.XGBRegressor(n_estimators=40, max_depth=3, enable_categorical=True, n_jobs=1)
    return tp.purify(model.fit(X, y), X, weights="empirical", progress=False)


ORDERS = {"month": MONTHS, "day": DAYS, "grade": GRADES}


def labels_of(ax, which):
    ticks = ax.get_xticklabels() if which == "x" else ax.get_yticklabels()
    return [text.get_text() for text in ticks]


@pytest.mark.parametrize("name", ORDERS)
def test_one_order_in_every_figure(d, X, name):
    order = ORDERS[name]
    assert labels_of(plots.main_effect(d, name), "y") == order
    assert labels_of(plots.overlay({"one": d}, name), "y") == order
    assert labels_of(plots.pair(d, (name, "size")), "x") == order
    assert labels_of(plots.pair(d, ("size", name)), "y") == order
    assert labels_of(plots.pair_lines(d, name, "size"), "y") == order
    found = tp.feature_profile(d.predict, X, name, progress=False)
    assert labels_of(plots.profile(found).child_axes[0], "x") == order


def test_other_categories_are_sorted_by_effect(d, X):
    component = d["color"]
    by_effect = np.argsort(-component.values[:, 0])
    order = [component.axes[0].labels()[cell] for cell in by_effect]
    assert labels_of(plots.main_effect(d, "color"), "y") == order
    found = tp.feature_profile(d.predict, X, "color", progress=False)
    assert labels_of(plots.profile(found, effects=d).child_axes[0], "x") == order


def test_the_order_of_the_data_is_kept_with_the_decomposition(d, tmp_path):
    d.save(tmp_path / "d.tp")
    loaded = tp.load(tmp_path / "d.tp")
    assert labels_of(plots.main_effect(loaded, "grade"), "y") == GRADES
    # Not that of the model, which knows codes only and may have learned them in another order.
    assert d.inputs.features[2].ordered_labels == tuple(GRADES)
    assert d.inputs.features[3].ordered_labels == ()


@pytest.mark.parametrize("engine", [tp.ale_anova, tp.hooker_anova])
def test_functions_have_the_order_of_their_rows(X, y, engine):
    table = X[["grade", "size"]].iloc[:200]
    codes = {grade: k for k, grade in enumerate(GRADES)}

    def f(rows):
        return rows["grade"].map(codes).astype(float) * rows["size"] - rows["size"]

    found = engine(f, table, progress=False)
    assert labels_of(plots.main_effect(found, "grade"), "y") == GRADES


def test_no_line_joins_categories_of_a_profile(d, X):
    ax = plots.profile(tp.feature_profile(d.predict, X, "color", progress=False), curves=True)
    joined = [line for line in ax.lines if line.get_linestyle() != "None" and len(line.get_xdata())]
    assert not joined


@pytest.mark.parametrize(
    ("categories", "expected"),
    [
        (["Apr", "feb.", "JANUARY"], [3, 1, 0]),
        (["Sept", "Aug"], [8, 7]),
        (["Thurs", "Tue", "sun"], [3, 1, 6]),
        (["10", "9", "2.5"], [2, 1, 0]),
        (["May", "June", "April Smith"], None),
        (["Jan", "January"], None),
        (["red", "green"], None),
        (["Mo", "Tu"], None),
    ],
)
def test_orders_that_are_known(categories, expected):
    found = given_order(categories)
    assert found is expected if expected is None else found.tolist() == expected


def test_labels_of_the_column_come_first():
    assert given_order(["b", "a", "new"], ("b", "c", "a")).tolist() == [0, 2, 3]
