"""The files next to a report have the numbers of the decomposition, the same in JSON and CSV."""

import json

import numpy as np
import pandas as pd
import pytest
import xgboost

import treepurify as tp
from treepurify.report import numbers, write_numbers


@pytest.fixture(scope="module")
def d():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"size": rng.normal(size=400), "kind": rng.integers(0, 3, 400)})
    X["kind"] = X["kind"].map({0: "=a", 1: "\u00e9t\u00e9", 2: "c, d"}).astype("category")
    y = X["size"] * (X["kind"] == "=a")
    model = xgboost.XGBRegressor(n_estimators=9, max_depth=2, enable_categorical=True, n_jobs=1)
    return tp.purify(model.fit(X, y), X, weights="empirical", progress=False)


def test_json_and_csv_have_the_numbers_of_the_effects(d, tmp_path):
    written = write_numbers(d, tmp_path / "own.html")
    assert sorted(written) == sorted(tmp_path.iterdir())
    document = json.loads((tmp_path / "own.json").read_text(encoding="utf-8"))
    cells, effects = (
        pd.read_csv(tmp_path / f"own_{which}.csv", keep_default_na=False)
        for which in ("cells", "effects")
    )
    for name, frame in (("cells", cells), ("effects", effects)):
        pd.testing.assert_frame_equal(pd.DataFrame(document[name]), frame, check_dtype=False)
    assert effects["term"].tolist() == d.importance()["term"].tolist()
    for subset, component in d.components.items():
        own = cells[cells["effect"] == d.term_name(subset)]
        np.testing.assert_allclose(own["value"], component.values.ravel(), rtol=1e-12)
        np.testing.assert_allclose(own["mass"], component.mass.ravel(), rtol=1e-12)
        labels = component.axes[0].labels()
        assert list(dict.fromkeys(own["cell_1"])) == labels
    assert document["intercept"] == d.intercept.tolist()
    assert document["effects_without_cells"] == []


def test_large_effects_are_left_out_and_named(d, tmp_path, monkeypatch):
    monkeypatch.setattr(numbers, "_MOST_CELL_ROWS", d["kind"].n_cells)
    write_numbers(d, tmp_path / "own.html")
    document = json.loads((tmp_path / "own.json").read_text(encoding="utf-8"))
    assert {row["effect"] for row in document["cells"]} == {"kind"}
    assert set(document["effects_without_cells"]) == {"size", "size & kind"}


def test_a_missing_folder_is_refused(d, tmp_path):
    with pytest.raises(tp.errors.InvalidInputError, match="folder"):
        write_numbers(d, tmp_path / "no" / "own.html")
