"""The object of shap holds our numbers, and its plots run."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import treepurify as tp
from tests.shapley.test_values import Unsplit, purified
from treepurify.export.shap import to_shap


@pytest.mark.filterwarnings("ignore")
def test_shap_explanation_and_its_plots():
    shap = pytest.importorskip("shap")
    plt = pytest.importorskip("matplotlib.pyplot")
    d, X, ensemble = purified()
    explanation = to_shap(d.shapley_values(X))
    assert explanation.feature_names == list(d.feature_names)
    total = explanation.values.sum(axis=1) + explanation.base_values
    np.testing.assert_allclose(total, ensemble.margin(X)[:, 0], atol=1e-10)
    shap.plots.bar(explanation, show=False)
    shap.plots.beeswarm(explanation, show=False)
    shap.plots.waterfall(explanation[0], show=False)
    plt.close("all")


@pytest.mark.filterwarnings("ignore")
def test_shap_shows_labels_for_codes():
    pytest.importorskip("shap")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"kind": pd.Categorical(rng.choice(["fir", "oak"], 80)), "b": rng.random(80)})
    model = HistGradientBoostingRegressor(max_iter=5, categorical_features="from_dtype")
    d = tp.purify(
        model.fit(X, (X["kind"] == "oak") * X["b"]), X, weights="empirical", missing_cells="always"
    )
    rows = X[:6].assign(kind=["fir", "oak", None, "elm", "oak", "fir"])
    shown = to_shap(d.shapley_values(rows)).display_data
    assert shown[:2, 0].tolist() == ["fir", "oak"]
    assert np.isnan(shown[2, 0]) or shown[2, 0] == "other"
    assert shown[3, 0] != "elm"
    assert shown[4:, 0].tolist() == ["oak", "fir"]
    np.testing.assert_array_equal(shown[:, 1].astype(float), rows["b"])
    assert to_shap(tp.interventional_shapley_values(model, rows, X)).display_data[0, 0] == "fir"


@pytest.mark.filterwarnings("ignore")
def test_shap_with_several_outputs_and_a_remainder():
    pytest.importorskip("shap")
    from dataclasses import replace

    d, X, ensemble = purified(n_outputs=2, order=1)
    d = replace(d, remainder=Unsplit(d.remainder))
    values = d.shapley_values(X[:9])
    explanation = to_shap(values)
    assert explanation.values.shape == (9, 5, 2)
    assert explanation.feature_names[-1] == "remainder"
    one = to_shap(values, output=1)
    total = one.values.sum(axis=1) + one.base_values
    np.testing.assert_allclose(total, ensemble.margin(X[:9])[:, 1], atol=1e-10)
    with pytest.raises(tp.errors.InvalidInputError, match="no output 2"):
        to_shap(values, output=2)


def test_a_missing_package_is_named(monkeypatch):
    d, X, _ = purified()
    monkeypatch.setitem(sys.modules, "shap", None)
    with pytest.raises(tp.errors.MissingDependencyError, match="needs shap:"):
        to_shap(d.shapley_values(X[:2]))
