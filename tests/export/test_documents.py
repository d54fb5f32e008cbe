"""JSON and Excel hold the numbers of the decomposition."""

import json

import numpy as np
import pandas as pd
import pytest
import xgboost

import treepurify as tp
from treepurify.export import to_excel, to_json


@pytest.fixture(scope="module")
def d():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=200), "k": pd.Categorical(rng.choice(list("uv"), 200))})
    X.loc[::9, "x"] = np.nan
    y = X["x"].fillna(2.0) * (X["k"] == "u")
    model = xgboost.XGBRegressor(n_estimators=10, max_depth=2, enable_categorical=True, n_jobs=1)
    return tp.purify(model.fit(X, y), X, progress=False)


def test_json_holds_every_cell(d, tmp_path):
    path = tmp_path / "d.json"
    text = to_json(d, path)
    assert path.read_text(encoding="utf-8") == text
    document = json.loads(text)
    assert document["features"] == ["x", "k"]
    assert document["measure"] == "empirical"
    for packed, (subset, component) in zip(
        document["components"], d.components.items(), strict=True
    ):
        assert packed["features"] == [d.feature_names[j] for j in subset]
        np.testing.assert_array_equal(packed["values"], component.values)
        np.testing.assert_array_equal(packed["mass"], component.mass)
        for axis, own in zip(packed["axes"], component.axes, strict=True):
            assert axis["labels"] == own.labels()
            if own.cuts is not None:
                np.testing.assert_array_equal(axis["cuts"], own.cuts)


def test_excel_holds_every_cell(d, tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "d.xlsx"
    assert to_excel(d, path) == []
    sheets = pd.read_excel(path, sheet_name=None)
    assert set(sheets) == {"importance", "effects", "facts"}
    assert len(sheets["effects"]) == sum(c.values.size for c in d.components.values())
    np.testing.assert_allclose(sheets["importance"]["variance"], d.importance()["variance"])
    assert sheets["facts"]["value"].iloc[0] == "empirical"


def test_excel_needs_its_suffix(d, tmp_path):
    with pytest.raises(tp.InvalidInputError, match=r"ending in \.xlsx"):
        to_excel(d, tmp_path / "d.csv")


def test_without_openpyxl_the_error_says_what_to_install(d, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ImportError("No module named 'openpyxl'")

    monkeypatch.setattr(pd, "ExcelWriter", fail)
    with pytest.raises(tp.MissingDependencyError, match=r"treepurify\[excel\]"):
        to_excel(d, tmp_path / "d.xlsx")
