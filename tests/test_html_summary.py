"""Notebooks show results as sentences and tables, and no name is markup."""

import numpy as np
import pandas as pd
import pytest
from xgboost import XGBRegressor

import treepurify as tp
from treepurify.html_summary import html_summary


@pytest.fixture(scope="module")
def scene():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a <b>", "c", "d"])
    model = XGBRegressor(n_estimators=10, max_depth=2).fit(X.to_numpy(), X["c"] * X["d"])
    return model, X, tp.purify(model, X.to_numpy(), feature_names=list(X), progress=False)


def test_long_tables_say_how_long_they_are():
    html = html_summary(["<script>"], pd.DataFrame({"x": range(23)}))
    assert html.startswith("<p>&lt;script&gt;</p>")
    assert html.count("<tr") == 21
    assert html.endswith("<p>... and 3 more rows</p>")


def test_every_result_of_a_call_is_a_table(scene):
    model, X, d = scene
    rows = X.to_numpy()
    y = X["c"] * X["d"]
    shown = {
        "certificate": d.certificate,
        "main effect": d["c"],
        "shapley": d.shapley_values(rows),
        "interactions": d.shapley_interactions(rows[:5]),
        "h": tp.h_statistics(model, rows[:100], progress=False),
        "indices": tp.interaction_indices(model, rows, progress=False),
        "worth": tp.effect_worth(d, rows, y),
        "compare": tp.compare(d, d),
        "audit": tp.audit(model, rows, progress=False),
        "monotone": tp.check_monotonicity(model, rows, {"x1": "increasing"}, progress=False),
    }
    for name, result in shown.items():
        assert "<table" in result._repr_html_(), name
    assert "a &lt;b&gt;" in d["a <b>"]._repr_html_()
    assert "<table" not in d["c", "d"]._repr_html_()


def test_the_table_of_a_main_effect_has_its_cells(scene):
    _, _, d = scene
    html = d["d"]._repr_html_()
    assert html.count("<tr") == min(d["d"].n_cells, 20) + 1
    assert "mass" in html
