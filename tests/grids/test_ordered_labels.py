"""Ordered categories have their labels wherever they are shown, also if they are numbers inside."""

import re
from html import unescape

import lightgbm
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import treepurify as tp

LABELS = ("very low", "mid-1", "high", "x-large")
HEIGHTS = np.array([0.0, 3.0, 1.0, 2.0])
ENCODED = make_column_transformer(
    (OrdinalEncoder(categories=[list(LABELS)]), ["grade"]), remainder="passthrough"
)
MODELS = {
    "LightGBM": lightgbm.LGBMRegressor(n_estimators=15, n_jobs=1, verbose=-1),
    "XGBoost": xgboost.XGBRegressor(n_estimators=15, max_depth=3, enable_categorical=True),
    "scikit-learn": HistGradientBoostingRegressor(
        max_iter=15, categorical_features="from_dtype", early_stopping=False
    ),
    "pipeline": make_pipeline(ENCODED, GradientBoostingRegressor(n_estimators=15)),
}


def rows():
    rng = np.random.default_rng(0)
    codes = rng.integers(4, size=400)
    grade = pd.Categorical.from_codes(codes, categories=LABELS, ordered=True)
    X = pd.DataFrame({"grade": grade, "x": rng.normal(size=400)})
    return X, HEIGHTS[codes] * (X["x"] + 1)


@pytest.fixture(scope="module", params=[*MODELS, "file"])
def made(request, tmp_path_factory):
    X, y = rows()
    model = MODELS["LightGBM" if request.param == "file" else request.param].fit(X, y)
    if request.param == "file":
        path = tmp_path_factory.mktemp("saved") / "model.txt"
        model.booster_.save_model(path)
        model = path
    return model, X, tp.purify(model, X, weights="empirical", progress=False)


def test_tables_have_the_labels(made, tmp_path):
    _, X, d = made
    # Labels of neighbours that no tree parts stand together.
    table = d.to_frame("grade")
    labels = [label for cell in table["grade"] for label in cell.split(", ")]
    assert sorted(labels) == sorted(LABELS)
    means = d.contributions(X)["grade"].groupby(X["grade"], observed=True).mean()
    effect = {each: value for cell, value in zip(table["grade"], table["effect"], strict=True)
              for each in cell.split(", ")}  # fmt: skip
    np.testing.assert_allclose([effect[label] for label in LABELS], means[list(LABELS)])
    d.save(tmp_path / "d.zip")
    pd.testing.assert_frame_equal(tp.load(tmp_path / "d.zip").to_frame("grade"), table)


def test_figures_have_the_labels(made):
    model, X, d = made
    axes = [
        tp.plots.main_effect(d, "grade"),
        tp.plots.pair(d, ("grade", "x")),
        tp.plots.pair_lines(d, ("grade", "x")),
        tp.plots.profile(tp.feature_profile(model, X, "grade", progress=False)),
    ]
    numeric = not d["grade"].axes[0].is_categorical
    axes += [tp.plots.main_effect(d, "grade", scale="rank")] * numeric
    for ax in axes:
        assert {*LABELS} <= {text.get_text() for text in ax.figure.findobj(plt.Text)}
    legend = tp.plots.pair_lines(d, ("x", "grade")).get_legend()
    assert {text.get_text() for text in legend.get_texts()} <= {*LABELS}
    waterfall = tp.plots.waterfall(d, X.iloc[[0]])
    names = [label.get_text() for label in waterfall.get_yticklabels()]
    assert f"grade = {X['grade'].iloc[0]}" in names
    plt.close("all")


def test_sentences_have_the_labels(made, tmp_path):
    model, X, d = made
    page = tp.report.write_html(d, tmp_path / "page.html", X=X, progress=False)
    text = unescape(page.read_text(encoding="utf-8"))
    assert "grade = very low" in text
    assert not re.search(r"grade (is \d|[≤≥<>]|in [\[(])", text)
    wanted = LABELS if d["grade"].axes[0].is_categorical else "increasing"
    found = tp.check_monotonicity(model, X, directions={"grade": wanted}, progress=False)
    assert "from mid-1 to high" in str(found)
    spots = tp.weak_spots(d, X, np.where(X["grade"] == "high", 9.0, d.predict(X)), progress=False)
    assert wanted == LABELS or re.search(r"grade = [^:]*high", str(spots))


def test_what_lies_between_no_two_numbers_keeps_its_interval():
    axis = tp.purify(MODELS["LightGBM"].fit(*rows()), rows()[0], progress=False)["grade"].axes[0]
    assert axis.labels()[:4] == list(LABELS)
    many = type(axis)("grade", np.array([0.25, 0.5, 4.5]), tuple("abcdef"), has_missing=True)
    assert many.labels() == ["a", "[0.25, 0.5)", "b to e", "f", "missing"]
    assert many.labels(exact=True)[2] == "b, c, d, e"
