"""Names of features and categories stand on pages and figures as they are in the data."""

import lightgbm
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import xgboost

import treepurify as tp

MODELS = {
    "LightGBM": lambda: lightgbm.LGBMRegressor(n_estimators=20, n_jobs=1, verbose=-1),
    "XGBoost": lambda: xgboost.XGBRegressor(n_estimators=20, enable_categorical=True, n_jobs=1),
}
NAMES = ("top-left", "shift -5", "mid-right", "x-ray", "pre -2")
MINUS = "\N{MINUS SIGN}"


@pytest.fixture(scope="module", params=MODELS)
def made(request):
    rng = np.random.default_rng(0)
    labels = ("x-ray", "left", "pre -2")
    X = pd.DataFrame(
        {
            "top-left": pd.Categorical(rng.choice(labels, 400)),
            "shift -5": pd.Categorical(rng.choice(labels, 400), categories=labels, ordered=True),
            "mid-right": rng.normal(size=400),
        }
    )
    y = ((X["top-left"] == "x-ray") - X["shift -5"].cat.codes) * X["mid-right"]
    return MODELS[request.param]().fit(X, y), X, y


def changed(text):
    """Return the names with a minus sign for their hyphen."""
    return [name for name in NAMES if name.replace("-", MINUS) in text]


def test_pages_have_hyphens_in_names_and_minus_signs_in_numbers(made, tmp_path):
    model, X, y = made
    first = tp.purify(model, X, progress=False)
    second = tp.purify(model, X, weights="empirical", progress=False)
    pages = (
        tp.report.write_html(first, tmp_path / "a.html", X=X, audit=tp.audit(model, X)),
        tp.report.write_comparison({"my-first": first, "my-second": second}, tmp_path / "b.html"),
        tp.report.write_validation(model, X, tmp_path / "c.html", y=y, progress=False),
    )
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not changed(text)
        assert f"my{MINUS}" not in text
        assert f"{MINUS}0." in text
    compared = tp.compare(first, second)
    assert not changed(f"{first}\n{compared}\n{tp.audit(model, X)}")


def test_figures_have_hyphens_in_names(made):
    model, X, _ = made
    d = tp.purify(model, X, weights="empirical", progress=False)
    axes = [tp.plots.importance(d), *(tp.plots.main_effect(d, name) for name in X)]
    for first, second in (("top-left", "mid-right"), ("shift -5", "mid-right")):
        axes.append(tp.plots.pair(d, (first, second)))
        axes.append(tp.plots.pair_lines(d, (first, second)))
        axes.append(tp.plots.pair_lines(d, (second, first)))
    for ax in axes:
        texts = [text.get_text() for text in np.ravel(ax)[0].figure.findobj(plt.Text)]
        assert not changed("\n".join(texts))
    plt.close("all")
